"""Help: the keys that work here with what they do, why some are off, how to repair what fails, and the words."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.screen import ModalScreen
from textual.worker import ResultType, Worker, WorkerError, WorkType

from jobconsole.format.spans import Line, Spans, wrap
from jobconsole.tui.base.bindings import CHANGE, CONSOLE, MOVE, SHOW, Action, show_key
from jobconsole.tui.widgets.scroll import TextPane

KEY, NAME = 9, 14
"""Cells of the columns with keys and names."""
BESIDE = 48
"""Cells of a line from which what a key or word means is beside it, and not below it."""
BELOW = "    "
"""What a line below begins with."""

WORDS = (
    ("queued", "ready: a worker may take it now"),
    ("scheduled", "runs at a later time"),
    ("running", "a worker holds its lease"),
    ("retrying", "failed, waits for its next attempt"),
    ("dead", "failed for good: in the dead-letter queue until retried or deleted"),
    ("signature", "dead jobs with the same cause: exception, message without its numbers and names, place in the code"),
    ("operation", "a change of many jobs, kept with who, when and why; workers and consoles carry it out"),
    ("canary", "the first jobs of a retry: their outcome decides about the others"),
    ("late", "of a schedule: its tick is due and has not passed, so no worker is running schedules"),
    ("trash", "deleted dead jobs, until they are restored, purged or too old"),
)
FILTERS = (
    ("type:send_email", "also queue:, tag:, worker:, host:, release:, status:, id:, sig:"),
    ("err:~smtp", "the error contains it; ~ ignores case"),
    ("text:mx-7", "error, payload or traceback of a dead job contain it"),
    ("age:<1h", "the last change is less than an hour ago; also s, m, d, w"),
    ("died:02:00..02:30", "died in this time, in UTC; died:15m is since then"),
    ("owner:me", "whose the signature is; owner:none is nobody's"),
    ("state:new", "of the signature; also regressed, known, resolved, muted"),
    ("payload.user.id=7", "a value in the payload"),
    ("retries:>2", "attempts after the first; also priority:"),
    ("trash:yes", "deleted jobs"),
    ("!tag:bulk", "! turns a term round; all terms must hold"),
)


class HelpScreen(ModalScreen[None]):
    """Scrolls; any of its keys goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "go back")]

    def __init__(self, offered: list[tuple[Action, str, str]], hints: list[str], problem: str) -> None:
        """`offered`: each action that exists here with its keys and why it is off."""
        super().__init__()
        self._offered = offered
        self._hints = hints
        self._problem = problem

    def compose(self) -> ComposeResult:
        """One pane with all lines."""
        yield TextPane((("Help", "title"),), (("Esc goes back", "muted"),), self.text, id="help")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()

    def text(self, width: int) -> list[Line]:
        """Keys by group, hints, words, filters."""
        lines: list[Line] = []
        for group in (CHANGE, SHOW, MOVE, CONSOLE):
            offered = [one for one in self._offered if one[0].group == group]
            if not offered:
                continue
            lines += [((group, "accent"),)]
            for action, keys, reason in offered:
                lines += _action(action, keys, reason, width)
            lines.append(())
        if self._hints:
            lines += _section("How to repair what fails here", tuple(("", hint) for hint in self._hints), width)
        lines += _section("Filter", FILTERS, width)
        lines += _section("Words", WORDS, width)
        if self._problem:
            lines += _section(
                "Something in this console failed and was started again or given up", (("", self._problem),), width
            )
        return lines


def keys_of(keys: str) -> str:
    """Return all keys of an action as people read them."""
    return " ".join(show_key(key) for key in keys.split(","))


def _action(action: Action, keys: str, reason: str, width: int) -> list[Line]:
    text = f"{action.tooltip} (off: {reason})" if reason else action.tooltip
    tone = "faint" if reason else "text"
    first: Spans = (
        (f"  {keys:<{KEY}}", "muted" if reason else "key"),
        (f"{action.label:<{NAME}}", "muted" if reason else "strong"),
    )
    if width < BESIDE:
        return [first, *(((BELOW + part, tone),) for part in wrap(text, width - len(BELOW)))]
    rest: Spans = ((" " * (2 + KEY + NAME), "text"),)
    parts = wrap(text, max(10, width - 2 - KEY - NAME))
    return [(*(rest if number else first), (part, tone)) for number, part in enumerate(parts)]


def _section(title: str, rows: tuple[tuple[str, str], ...], width: int) -> list[Line]:
    lines: list[Line] = [((title, "accent"),)]
    for label, text in rows:
        if label and width < BESIDE:
            lines += [
                ((f"  {label}", "strong"),),
                *(((BELOW + part, "text"),) for part in wrap(text, width - len(BELOW))),
            ]
            continue
        size = 20 if label else 0
        for number, part in enumerate(wrap(text, max(10, width - 2 - size))):
            lines.append(((f"  {'' if number else label:<{size}}", "strong"), (part, "text")))
    return [*lines, ()]


class Commands(CommandPalette):
    """Textual's own, with three of its traps closed."""

    _searching: Worker[Any] | None = None

    def _action_command_list(self, action: str) -> None:
        # Textual 8.2.8: a page key between a new list of commands and its first drawing looks up a line that is not
        # there yet, which would end the application.
        with suppress(KeyError, IndexError):
            super()._action_command_list(action)

    def run_worker(self, work: WorkType[ResultType], *args: Any, **kwargs: Any) -> Worker[ResultType]:
        # Textual 8.2.8: a search that begins while this is being closed looks up the list, which is gone already, and
        # that would end the application.
        self._searching = super().run_worker(partial(_unless_closed, work), *args, **kwargs)
        return self._searching

    async def prepared(self) -> None:
        """Wait for the search for what is typed: Enter would choose from the list of what was typed before."""
        if self._searching is not None:
            with suppress(WorkerError):
                await self._searching.wait()


async def _unless_closed(work: WorkType[Any]) -> Any:
    with suppress(NoMatches):
        found = work() if callable(work) else work
        return await found if isawaitable(found) else found
    return None
