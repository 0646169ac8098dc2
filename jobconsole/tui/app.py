"""The application: modes, bindings and whether they are possible now.

Screens show, the refresher reads, the operator writes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partialmethod
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import RenderableType
from textual import events
from textual.app import SystemCommand
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.driver import Driver
from textual.message import Message
from textual.screen import Screen

from jobconsole.actions.plan import Plan
from jobconsole.core.alerts import Notices
from jobconsole.core.connection import Connection, ContextInfo, Source
from jobconsole.core.contexts import Places
from jobconsole.core.latency import next_window, word
from jobconsole.core.model import Model
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.glyphs import glyphs_for
from jobconsole.format.spans import RenderContext
from jobconsole.format.words import ImmediateWords
from jobconsole.tui.base.bindings import ACTIONS, BY_ID, CONSOLE, MOVE, Availability, bindings, bound, show_key
from jobconsole.tui.base.host import Hint, change, end, hint_of, spawn
from jobconsole.tui.base.links import Link
from jobconsole.tui.base.operator import Operator
from jobconsole.tui.base.refresher import Refresher
from jobconsole.tui.base.stylesheet import Stylesheet
from jobconsole.tui.base.themes import NIGHT, SCHEMES, Palette, keep_theme, textual_theme
from jobconsole.tui.base.turns import InTurn
from jobconsole.tui.end import STDIN, end_with_terminal
from jobconsole.tui.navigation import Navigation
from jobconsole.tui.screens.help import Commands, HelpScreen, keys_of
from jobconsole.tui.screens.refusals import Refusals
from jobconsole.tui.screens.view import View
from jobconsole.tui.terminal import (
    changes_only,
    compress_styles,
    mend_suspension,
    notification,
)
from jobconsole.tui.views import FIRST, VIEWS
from queue_core.errors import QueueCoreError
from queue_core.model.report import SignatureInfo
from queue_core.model.text import safe

if TYPE_CHECKING:
    from jobconsole.actions.states import SignatureChoice


class ConsoleApp(InTurn, inherit_bindings=False):
    """The console over a queue, which may be unreachable at first and at any time."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [
        f"styles/{name}.tcss" for name in ("console", *(view.name for view in VIEWS), "sheets", "rework")
    ]
    BINDINGS: ClassVar[list[BindingType]] = list(bindings())
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {view.name: view.open for view in VIEWS}
    DEFAULT_MODE = FIRST.name
    # the palette is opened by an action of the table
    ENABLE_COMMAND_PALETTE = False
    TITLE = "jobconsole"

    # where the console goes once it is drawn; None: to its first view
    link: Link | None = None
    # quitting was asked for while an operation was under way
    _asked_to_quit = False

    def __init__(
        self,
        source: Source | Connection,
        *,
        read_only: bool = False,
        context: ContextInfo | str | None = None,
        hints: Sequence[Hint | str] = (),
        places: Places | None = None,
    ) -> None:
        """`hints`: how to repair what fails, shown in the help and with the signatures that they are about.

        `places`: the contexts that there are beside the one that is shown.
        """
        super().__init__()
        self.connection = source if isinstance(source, Connection) else Connection(source)
        self.connection.read_only = self.connection.read_only or read_only
        self.context = ContextInfo.of(context)
        self.hints = [Hint.parse(hint) if isinstance(hint, str) else hint for hint in hints]
        self.places = places or Places()
        self.glyphs = glyphs_for(sys.__stdout__.encoding if sys.__stdout__ else None)
        self.model = Model()
        self.refresher = Refresher(self.connection, self.model, self.post)
        self.operator = Operator(self.connection, self.connection.read_only, self.post)
        self._notices = Notices(self.context.thresholds)
        self.navigation = Navigation(self, lambda: self.view)
        self.frozen = False
        self.last_key = time.monotonic()
        self.touched = False
        self.offer: SignatureChoice | None = None
        self.offered: set[int] = set()
        self._palettes: dict[tuple[str, bool], Palette] = {}
        for scheme in SCHEMES.values():
            self.register_theme(textual_theme(scheme))
        self.theme = NIGHT.name
        self.stylesheet = Stylesheet(variables=self.get_css_variables())

    def on_mount(self) -> None:
        spawn(self, "refresher", self.refresher.run)
        spawn(self, "operator", self.operator.run)
        self.set_interval(1.0, self._ring)

    def on_ready(self) -> None:
        if self.link is not None:
            self.navigation.go(self.link)

    async def on_unmount(self) -> None:
        await end(self, "operations")
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

    def render_context(self) -> RenderContext:
        """Return what drawing depends on."""
        return RenderContext(self.model.now, self.glyphs)

    def hint_for(self, group: SignatureInfo) -> str:
        """Return how to repair what killed this group; "" when there is no hint."""
        return hint_of(self.hints, group)

    def post(self, message: Message) -> None:
        """Post a message to the view that is on the screen."""
        if self.view is not None:
            self.view.post_message(message)

    def availability(self, small: bool) -> Availability:
        """Return what decides which actions are possible now."""
        return Availability(self.operator.unchangeable, "the window is too small" if small else "")

    def show_notice(self, text: str, tone: str = "text") -> None:
        """Show a sentence in the line above the keys."""
        if self.view is not None:
            self.view.notice.show(text, tone)

    async def pause(self, seconds: float) -> None:
        """Wait; for reads that are given up when the cursor moves on."""
        await asyncio.sleep(seconds)

    def run_plan(self, plan: Plan | None) -> None:
        """Carry a plan out that a sheet gave back."""
        if plan is None:
            return
        if not plan.ids:
            self.show_notice(f"nothing to {plan.verb}: no job is in that state any more", "warn")
        else:
            if self.view is not None:
                self.view.begin(plan)
            # A sentence about the change before would be taken for one about this.
            self.show_notice("")
            spawn(self, "operations", self.operator.run_plan, plan)

    def pop_screen(self) -> AwaitComplete:
        """Take the sheet on top away; of two keys that come at once, the second finds none there any more."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def set_theme(self, name: str) -> None:
        """Change the colours, of later consoles, too."""
        self.theme = name
        keep_theme(name, self.console.color_system)
        if self.view is not None:
            self.view.repaint_all()

    def alarm(self, snapshot: Snapshot) -> None:
        """Note which thresholds were crossed, and which signatures are new or back."""
        if (over := self._notices.take(snapshot)) and self.view is not None:
            self.view.notice.drop(over)
        self._ring()

    def _ring(self) -> None:
        """Show what was noted, ring the bell and notify the desktop as configured; not too often."""
        text = self._notices.due(time.monotonic())
        if not text:
            return
        if self.view is not None:
            self.view.notice.show_next(text, "bad")
        thresholds = self.context.thresholds
        if thresholds.bell:
            self.bell()
        if thresholds.notify and self._driver is not None:
            self._driver.write(notification(safe(self.context.word, 24) or "jobconsole", text, os.environ))

    def get_driver_class(self) -> type[Driver]:
        """The way to the terminal, which may be a slow one."""
        return compress_styles(mend_suspension(super().get_driver_class()))

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Draw, in few bytes."""
        super()._display(screen, changes_only(renderable))

    def refusal_of(self, action: str) -> str | None:
        """Why an action is off; "" when it is on, None when there is no such thing here."""
        return None if self.view is None else Refusals(self.view).of(action)

    def refusals_shown(self) -> Callable[[str], str | None]:
        """Return the same for the key bar and the help, as it is now, for any number of actions."""
        return (lambda _: None) if self.view is None else Refusals(self.view).shown

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual asks whether a binding is on: None greys it out."""
        if action != "do":
            return True
        reason = self.refusal_of(str(parameters[0]))
        return False if reason is None else not reason or None

    async def action_do(self, action: str) -> None:
        """Carry out an action of the table."""
        self.perform(action)

    def perform(self, action: str) -> None:
        """Carry an action out, or show why it is off."""
        self.last_key, self.touched = time.monotonic(), True
        self._asked_to_quit = self._asked_to_quit and action == "quit"
        reason = self.refusal_of(action)
        if BY_ID[action].group != CONSOLE and action != "resolve":
            self.offer = None
        if BY_ID[action].group != MOVE:
            # A sentence about what was done before would be taken for the answer to this key.
            self.show_notice("")
        if reason:
            self.show_notice(reason, "warn")
        elif reason == "" and self.view is not None:
            if BY_ID[action].changes and self.places.unnamed:
                self._ask_where(action)
            else:
                self.view.perform(action)

    def _ask_where(self, action: str) -> None:
        """Ask before a change in a context that was not named."""
        from jobconsole.tui.sheets.confirm import Confirm

        label, places = BY_ID[action].label, self.places
        why = f"{places.unnamed}. 0 goes to one of them."
        words = ImmediateWords("", "", f"{label.capitalize()} here?", why, label.capitalize())

        def go_on(agreed: bool | None) -> None:
            if agreed and self.view is not None:
                self.view.perform(action)

        self.push_screen(Confirm(words, f"{label} on {safe(places.target, 200)}"), go_on)

    def on_key(self, event: events.Key) -> None:
        """Show why a key does nothing, or that it does nothing here."""
        active = bound(self.screen, event.key)
        if active is not None and not active.enabled and active.node is self:
            self.perform(active.binding.action.removeprefix("do('").removesuffix("')"))
        elif active is None and self.screen is self.view and not self.view.filter_line.is_open:
            key = safe(event.character, 8) if event.is_printable and event.character else show_key(event.key)
            self.show_notice(f"{key} does nothing here; ? lists the keys", "muted")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that is possible here, by its name, and the themes."""
        for action in ACTIONS:
            if action.id != "palette" and self.refusal_of(action.id) == "":
                yield SystemCommand(
                    f"{action.label} ({action.key})", action.tooltip, lambda id=action.id: self.choose(id, first=True)
                )
        for name in SCHEMES:
            yield SystemCommand(f"theme {name}", "Change the colours", lambda name=name: self.set_theme(name))

    # -- actions of the application

    def do_undo(self) -> None:
        """Take the last change back."""
        self.show_notice("")
        change(self, "operations", self._undo)

    async def _undo(self) -> None:
        try:
            sentence = await self.operator.take_back()
        except QueueCoreError as error:
            if self.view is not None:
                self.view.notice.fail(error)
        else:
            if sentence:
                self.show_notice(sentence, "good")
                self.refresher.resync()

    def do_freeze(self) -> None:
        """Hold the picture, or show live updates again."""
        self.frozen = not self.frozen
        self.show_notice("screen held, p resumes; verbs act on live data" if self.frozen else "live again", "muted")
        if not self.frozen:
            self.refresher.resync()

    def do_window(self) -> None:
        """Count growth over the next time window."""
        window = next_window(self.refresher.needs.window)
        self.refresher.set_lookback(window)
        self.show_notice(f"growth is counted over the last {word(window)}", "muted")

    def do_palette(self) -> None:
        """Find an action by its name."""
        if not isinstance(self.screen, Commands):
            self.push_screen(Commands(placeholder="find an action"))

    def do_help(self) -> None:
        """Show the keys that work here."""
        shown = self.refusals_shown()
        offered = [
            (action, keys_of(self._keymap.get(action.id, action.keys)), reason)
            for action in ACTIONS
            if (reason := shown(action.id)) is not None
        ]
        deaf = self.connection.deaf and f"read each second, for notifications do not arrive: {self.connection.deaf}"
        problem = self.refresher.problem or self.operator.problem or deaf
        self.push_screen(HelpScreen(offered, [hint.line for hint in self.hints], problem))

    def do_quit(self) -> None:
        """Leave."""
        snapshot = self.model.snapshot
        question = self.operator.left_behind(snapshot is not None and snapshot.totals.workers > 0)
        if question and not self._asked_to_quit:
            self._asked_to_quit = True
            self.show_notice(question, "warn")
            return
        self.exit(0)

    def on_hang_up(self, call: Callable[[], None]) -> None:
        """Have `call` called, in a thread, when the terminal is gone."""
        end_with_terminal(STDIN, call)


for _view in VIEWS:
    setattr(ConsoleApp, f"do_{_view.action}", partialmethod(ConsoleApp.switch_mode, _view.name))
