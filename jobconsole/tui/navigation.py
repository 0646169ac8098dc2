"""From place to place: views, links, and what is remembered of a place."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual.app import App
from textual.await_complete import AwaitComplete
from textual.message import Message

from jobconsole.actions import export
from jobconsole.actions.export import Wish, export_file
from jobconsole.actions.plan import Plan, Target
from jobconsole.core.alerts import Watcher
from jobconsole.core.connection import Connection, Source, Surroundings
from jobconsole.core.latency import next_window, word
from jobconsole.core.model import Model
from jobconsole.format.glyphs import glyphs_for
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Moment
from jobconsole.tui.base.bindings import Standing
from jobconsole.tui.base.host import Hint, hint_of, spawn
from jobconsole.tui.base.links import Link
from jobconsole.tui.base.operator import Operator
from jobconsole.tui.base.refresher import Refresher
from jobconsole.tui.base.stylesheet import Stylesheet
from jobconsole.tui.base.themes import NIGHT, SCHEMES, Palette, textual_theme
from jobconsole.tui.screens.view import View
from jobconsole.tui.sheets.confirm import ExportSheet
from jobconsole.tui.views import VIEW_OF
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, parse
from queue_core.model.report import SignatureInfo
from queue_core.model.text import safe


class Services(App[int], inherit_bindings=False):
    """The application without its keys; see `jobconsole.tui.base.host.Host`."""

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
        self.stylesheet = Stylesheet(variables=self.get_css_variables())

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
        self.call_after_refresh(self._narrow, where, text)

    def _narrow(self, where: Filter, text: str) -> None:
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


OSC_LIMIT = 50_000
"""Characters that are sent to the terminal's clipboard: many terminals drop longer ones without a word."""


class Travel(Services, inherit_bindings=False):
    """What the application does about places and the clipboard."""

    def __init__(self, source: Source | Connection, **options: Any) -> None:
        super().__init__(source, **options)
        self.watcher = Watcher(self.context.thresholds)

    # where the console goes once it is drawn; None: to its first view
    link: Link | None = None

    def on_ready(self) -> None:
        if self.link is not None:
            self.go(self.link)

    def go(self, link: Link) -> None:
        """Go to the place that a link leads to."""
        view = VIEW_OF[link.place]
        self.switch_mode(view.name)
        if link.place == view.item:
            self.call_after_refresh(self._show_item, link.value)
        elif view.filtered:
            self.call_after_refresh(self._narrow, parse(link.value), safe(link.value))

    def _show_item(self, item: str) -> None:
        if self.view is not None:
            self.view.show_item(item)

    def alarm(self, sentences: list[str]) -> None:
        """Tell somebody who looks elsewhere that a threshold was crossed."""
        if not sentences:
            return
        said = "; ".join(sentences)
        self.say(said, "bad")
        thresholds = self.context.thresholds
        if thresholds.bell:
            self.bell()
        if thresholds.notify and self._driver is not None:
            where = safe(self.context.word, 24) or "jobconsole"
            self._driver.write(f"\x1b]9;{where}: {said}\x07")

    def do_window(self) -> None:
        """Count growth over the next time window."""
        window = next_window(self.refresher.wanted.window)
        self.refresher.look_back(window)
        self.say(f"growth is counted over the last {word(window)}", "muted")

    def do_copy_link(self) -> None:
        """Copy the command that opens the place under the cursor."""
        view = self.view
        if view is not None:
            link = (view.pane.link() if view.pane is not None else None) or view.link()
            self.copy(f"jobconsole open {Link(link.place, link.value, self.context.name).text}")

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard of the terminal (OSC 52), and to a file for terminals that refuse it."""
        if len(text) <= OSC_LIMIT:
            self.copy_to_clipboard(text)
        path = export.state_folder() / "copied.txt"
        shown = safe(text, 120)
        try:
            export.write_over(path, f"{text}\n")
        except OSError as error:
            self.say(f"copied {shown} (clipboard only: {path} cannot be written: {error.strerror})")
        else:
            self.say(f"copied {shown}  (also in {path})")

    def export(self, target: Target) -> None:
        """Write jobs into a file, once it was said as what."""
        self.push_screen(ExportSheet(target), self._begin_export)

    def _begin_export(self, wish: Wish | None) -> None:
        if wish is not None:
            spawn(self, "export", self._export, wish)

    async def _export(self, wish: Wish) -> None:
        name = f"jobs-{self.model.now.strftime('%Y%m%d-%H%M%S')}.{wish.format}"
        try:
            number, path = await self._write(wish, name)
        except (QueueCoreError, OSError) as error:
            self.say(f"nothing was exported: {error}", "bad")
        else:
            self.say(f"wrote {plural(number, 'job')} to {path}", "good")

    async def _write(self, wish: Wish, name: str) -> tuple[int, Path]:
        """Write into the current folder, or into this program's own where that one is not for writing."""
        path = Path.cwd() / name
        if not os.access(path.parent, os.W_OK):
            path = export.state_folder() / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        inspector = self.connection.jobs.inspector
        return await export_file(inspector, wish, path, lambda number: self.say(f"wrote {number:,} ...", "muted")), path
