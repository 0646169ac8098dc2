"""What screens and widgets ask of the application, apart from its keys: state, styles, sentences, work."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from textual.app import App
from textual.await_complete import AwaitComplete
from textual.message import Message

from jobconsole.core.columns import Moment
from jobconsole.core.connection import Connection, Source
from jobconsole.core.context import Surroundings
from jobconsole.core.glyphs import glyphs_for
from jobconsole.core.model import Model
from jobconsole.core.operations import Plan
from jobconsole.tui.background import spawn
from jobconsole.tui.bindings import Standing
from jobconsole.tui.hints import Hint, hint_of
from jobconsole.tui.operator import Operator
from jobconsole.tui.refresher import Refresher
from jobconsole.tui.screens.base import View
from jobconsole.tui.themes import NIGHT, SCHEMES, Palette, textual_theme
from queue_core.filters import Filter
from queue_core.inspection import SignatureInfo


class Services(App[int], inherit_bindings=False):
    """The application without its keys; see `jobconsole.tui.host.Host`."""

    def __init__(
        self,
        source: Source | Connection,
        *,
        read_only: bool = False,
        context: Surroundings | str | None = None,
        hints: Sequence[Hint | str] = (),
    ) -> None:
        """`hints`: how to repair what fails, shown in the help and with the signatures that they are about."""
        super().__init__()
        self.connection = source if isinstance(source, Connection) else Connection(source)
        self.connection.read_only = self.connection.read_only or read_only
        self.context = Surroundings.of(context)
        self.hints = [Hint.parse(hint) if isinstance(hint, str) else hint for hint in hints]
        self.glyphs = glyphs_for(sys.__stdout__.encoding if sys.__stdout__ else None)
        self.model = Model()
        self.refresher = Refresher(self.connection, self.model, self.tell)
        self.operator = Operator(self.connection, self.connection.read_only, self.tell)
        self.frozen = False
        self.last_key = time.monotonic()
        self._palettes: dict[tuple[str, bool], Palette] = {}
        for scheme in SCHEMES.values():
            self.register_theme(textual_theme(scheme))
        self.theme = NIGHT.name

    def on_mount(self) -> None:
        spawn(self, "refresher", self.refresher.run)
        spawn(self, "operator", self.operator.run)

    async def on_unmount(self) -> None:
        await self.connection.close()

    @property
    def view(self) -> View | None:
        """The view that is on the screen, under whatever sheet; None before its widgets are there."""
        base = self.screen_stack[0] if self.screen_stack else None
        return base if isinstance(base, View) and base.complete else None

    @property
    def place(self) -> str:
        """The id of the action that leads to the view on the screen."""
        return f"view_{self.current_mode}"

    @property
    def palette(self) -> Palette:
        """The styles of the theme, faded while the picture cannot be kept true."""
        key = (self.theme, self.connection.store.state == "lost")
        if key not in self._palettes:
            self._palettes[key] = Palette(SCHEMES.get(self.theme, NIGHT), key[1])
        return self._palettes[key]

    def moment(self) -> Moment:
        """Return what drawing depends on."""
        return Moment(self.model.now, self.glyphs)

    def hint_for(self, group: SignatureInfo) -> str:
        """Return how to repair what killed this group; "" when nobody said."""
        return hint_of(self.hints, group)

    def tell(self, message: Message) -> None:
        """Give a message to the view that is on the screen."""
        if self.view is not None:
            self.view.post_message(message)

    def standing(self, small: bool) -> Standing:
        """Return what decides which actions are possible now."""
        return Standing(self.operator.unchangeable, "the window is too small" if small else "")

    def say(self, text: str, tone: str = "text") -> None:
        """Show a sentence in the line above the keys."""
        if self.view is not None:
            self.view.notice.say(text, tone)

    async def pause(self, seconds: float) -> None:
        """Wait; for reads that are given up when the cursor moves on."""
        await asyncio.sleep(seconds)

    def carry_out(self, plan: Plan | None) -> None:
        """Carry a plan out that a sheet gave back."""
        if plan is None:
            return
        if not plan.ids:
            self.say(f"nothing to {plan.verb}: no job is in that state any more", "warn")
        elif self.operator.unchangeable:
            self.say(f"{plan.verb} is off: {self.operator.unchangeable}", "warn")
        else:
            if self.view is not None and plan.verb != "cancel":
                self.view.expect_gone(plan.keys)
            # A sentence about the change before would be taken for one about this.
            self.say("")
            spawn(self, "operations", self.operator.carry_out, plan)

    def open_jobs(self, where: Filter, text: str) -> None:
        """Go to the jobs that match a filter; `text` is how it is shown."""
        self.switch_mode("jobs")
        self.call_after_refresh(self._narrow_jobs, where, text)

    def _narrow_jobs(self, where: Filter, text: str) -> None:
        if self.view is not None:
            self.view.filter_line.hold(where, text)

    def pop_screen(self) -> AwaitComplete:
        """Take the sheet on top away; of two keys that come at once, the second finds none there any more."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def set_theme(self, name: str) -> None:
        """Change the colours."""
        self.theme = name
        if self.view is not None:
            self.view.repaint_all()
