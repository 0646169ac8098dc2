"""The application: modes, bindings and whether they are possible now.

Screens show, the refresher reads, the operator writes.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Iterable
from functools import partialmethod
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.driver import Driver
from textual.screen import Screen

from jobconsole.core.connection import Connection, Surroundings
from jobconsole.tui.base.bindings import ACTIONS, BY_ID, bindings, refusal
from jobconsole.tui.base.host import spawn
from jobconsole.tui.base.links import Link
from jobconsole.tui.base.themes import SCHEMES
from jobconsole.tui.navigation import Travel
from jobconsole.tui.screens.help import Commands, HelpScreen, keys_of
from jobconsole.tui.terminal import end_with_terminal, thrifty
from jobconsole.tui.views import FIRST, VIEWS
from queue_core.errors import QueueCoreError

if TYPE_CHECKING:
    from queue_core.model.settings import JobsSettings
    from queue_core.queue import JobQueue


NOTHING_TO_UNDO = "nothing to undo yet; a retry that has ended cannot be undone"

_STDIN = 0


class ConsoleApp(Travel, inherit_bindings=False):
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

    # quitting was asked for while an operation was under way
    _asked_to_quit = False

    def get_driver_class(self) -> type[Driver]:
        """The way to the terminal, which may be a slow one."""
        return thrifty(super().get_driver_class())

    def refusal_of(self, action: str) -> str | None:
        """Why an action is off; "" when it is on, None when there is no such thing here."""
        if self.view is None:
            return None
        if action == "undo" and not self.operator.undoable:
            return refusal(BY_ID[action], self.standing(False)) or NOTHING_TO_UNDO
        return self.view.refusal_of(action)

    def refusal_shown(self, action: str) -> str | None:
        """The same for the key bar, which leaves out what never makes sense in the pane with the focus."""
        pane = self.view.pane if self.view is not None else None
        if self.view is None or (pane is not None and action in pane.NEVER):
            return None
        if action == "restore" and (pane is None or not pane.in_trash):
            return None
        return None if action == "back" and not self.view.can_go_back() else self.refusal_of(action)

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
        """Carry an action out, or say why it is off."""
        self.last_key = time.monotonic()
        reason = self.refusal_of(action)
        if reason:
            self.say(reason, "warn")
        elif reason == "" and self.view is not None:
            self.view.perform(action)

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing."""
        active = self.screen.active_bindings.get(event.key)
        if active is not None and not active.enabled and active.node is self:
            self.perform(active.binding.action.removeprefix("do('").removesuffix("')"))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that is possible here, by its name, and the themes."""
        for action in ACTIONS:
            if action.id != "palette" and self.refusal_of(action.id) == "":
                yield SystemCommand(
                    f"{action.label} ({action.key})", action.tooltip, lambda id=action.id: self.perform(id)
                )
        for name in SCHEMES:
            yield SystemCommand(f"theme {name}", "Change the colours", lambda name=name: self.set_theme(name))

    # -- actions of the application

    def do_undo(self) -> None:
        """Take the last change back."""
        self.say("")
        spawn(self, "operations", self._undo)

    async def _undo(self) -> None:
        try:
            sentence = await self.operator.take_back()
        except QueueCoreError as error:
            self.say(str(error), "bad")
        else:
            if sentence:
                self.say(sentence, "good")
                self.refresher.resync()

    def do_freeze(self) -> None:
        """Hold the picture, or let it go on."""
        self.frozen = not self.frozen
        self.say(
            "frozen: p lets it go on; keys act on the jobs as they are now" if self.frozen else "live again", "muted"
        )
        if not self.frozen:
            self.refresher.resync()

    def do_palette(self) -> None:
        """Find an action by its name."""
        if not isinstance(self.screen, Commands):
            self.push_screen(Commands(placeholder="find an action"))

    def do_help(self) -> None:
        """Show the keys that work here."""
        offered = [
            (action, keys_of(self._keymap.get(action.id, action.keys)), reason)
            for action in ACTIONS
            if (reason := self.refusal_shown(action.id)) is not None
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
            self.say(question, "warn")
            return
        self.exit(0)


for _view in VIEWS:
    setattr(ConsoleApp, f"do_{_view.action}", partialmethod(ConsoleApp.switch_mode, _view.name))


def run_console(
    settings: JobsSettings, *, read_only: bool = False, context: Surroundings | None = None, link: Link | None = None
) -> int:
    """Run the console in this terminal and return its exit code: 0, or 2 without a terminal.

    The first picture is drawn at once; the servers are reached afterwards, and again whenever they are lost.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__)):
        sys.stderr.write(
            "the console needs a terminal; without one use 'jobconsole job list' or 'jobconsole dlq groups'\n"
        )
        return 2
    # What drivers log would be written over the screen, and after it.
    logging.getLogger().addHandler(logging.NullHandler())
    app = ConsoleApp(Connection(lambda: _queue(settings)), read_only=read_only, context=context)
    app.link = link
    end_with_terminal(_STDIN)
    code = app.run()
    return app.return_code or code or 0


def _queue(settings: JobsSettings) -> JobQueue:
    """Make the queue, with the drivers that this loads; called once the first picture stands."""
    from queue_core.queue import JobQueue

    jobs = JobQueue.from_settings(settings)
    # What the start has made stays until the end: the collector need not look through it again and again.
    gc.freeze()
    gc.enable()
    return jobs
