"""The editor: a job's payload as JSON, checked as one types, beside what is changed; and one button to enqueue it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.timer import Timer

from jobconsole.actions.edit import (
    UNCHANGED,
    Draft,
    Edited,
    Known,
    Original,
    OriginalChanged,
    Problem,
    check,
    diff,
    draft_of,
    editing,
)
from jobconsole.format.glyphs import Glyphs
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, fit, wrap
from jobconsole.format.words import IMMEDIATE
from jobconsole.tui.base import host
from jobconsole.tui.base.host import NARROW
from jobconsole.tui.sheets.confirm import Confirm
from jobconsole.tui.sheets.sheet import Sheet
from jobconsole.tui.widgets.fields import Field, Push, TextField
from jobconsole.tui.widgets.jsonarea import JsonArea
from jobconsole.tui.widgets.pane import Drawn, LineWidget
from jobconsole.tui.widgets.scroll import TextPane
from queue_core.errors import QueueCoreError, StoreUnavailable
from queue_core.model.job import Job
from queue_core.model.text import safe

LONGEST_NAME = 60
"""Characters of a name."""
LONGEST_TAGS = 80
LINES_OF_ONE = 3
"""On the screen, of one line that differs."""
# What is so before the first key is no mistake.
_MARKS = {UNCHANGED: ("muted", " ")}
_TONES = {"+": "good", "-": "bad", " ": "muted"}


def head_lines(job: Job, draft: Draft, sample: str) -> list[Line]:
    """Return which job is edited and what the new one takes over; `sample`: the group that it is a sample of."""
    kept = [
        f"queue {safe(draft.queue, LONGEST_NAME)}",
        f"priority {draft.priority}",
        plural(draft.max_retries, "retry", "retries"),
    ]
    if draft.tags:
        kept.append(f"tags {safe(' '.join(draft.tags), LONGEST_TAGS)}")
    if job.ordering_key is not None:
        kept.append(f"ordering key {safe(job.ordering_key, LONGEST_NAME)}")
    if job.headers:
        kept.append(plural(len(job.headers), "header"))
    lines: list[Line] = [
        (("Edit and retry ", "accent"), (safe(job.type, LONGEST_NAME), "strong"), (f" {job.id}", "muted")),
        ((f"a new job beside the {job.status} one: {', '.join(kept)}", "text"),),
    ]
    if sample:
        lines.append((("this job alone, out of ", "warn"), (sample, "text")))
    return lines


def problem_lines(problems: Sequence[Problem], known: Known, glyphs: Glyphs, width: int, height: int) -> list[Line]:
    """Return what is wrong, in at most so many lines; that nothing is, where nothing is."""
    if not problems:
        fits = "matches the type's schema" if known.schema is not None else "a JSON object; the type has no schema"
        return [((f"{glyphs.ok} ", "good"), (fits, "muted"))]
    lines: list[Line] = []
    for problem in problems:
        tone, mark = _MARKS.get(problem.text) or (
            ("bad", glyphs.alert) if problem.severity == "error" else ("warn", "!")
        )
        for number, part in enumerate(wrap(problem.sentence, width - 2, 2, glyphs.ellipsis)):
            lines.append(((f"{' ' if number else mark} ", tone), (part, tone)))
    if len(lines) > height:
        return [*lines[: height - 1], (("  ... and more", "muted"),)]
    return lines


def difference_lines(lines: Sequence[str], width: int) -> list[Line]:
    """Return the difference; of long lines the beginning."""
    if not lines:
        return [(("nothing is changed yet", "muted"),)]
    shown: list[Line] = []
    for line in lines:
        sign, text = line[0], line[2:].lstrip(" ")
        indent = " " * (len(line) - 2 - len(text))
        for number, part in enumerate(wrap(text, max(8, width - 2 - len(indent)), LINES_OF_ONE)):
            shown.append(((f"{' ' if number else sign} {indent}{part}", _TONES[sign]),))
    return shown


PAUSE_SECONDS = 0.2
"""How long the keys must rest before the text is checked."""
KEYS = (("Tab", "next field"), ("^T", "changes"), ("^Z", "undo"), ("^Y", "copy"), ("Esc", "back"))


class EditScreen(Sheet[Edited]):
    """Gives back the new job, or None. Whatever goes wrong, the text stays until it is thrown away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "turn", "changes"),
        # In the text, too, where it would redo.
        Binding("ctrl+y", "copy_command", "copy command", show=False, priority=True),
    ]

    # Textual declares it without ClassVar
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-wide")]  # noqa: RUF012

    class Checked(Message, bubble=False):
        """The text as it was at that moment has been looked at."""

        def __init__(self, problems: list[Problem], changes: list[str]) -> None:
            super().__init__()
            self.problems = problems
            self.changes = changes

    class Submitted(Message, bubble=False):
        """It was enqueued; `problem` is the reason when it was not."""

        def __init__(self, edited: Edited | None, problem: str = "") -> None:
            super().__init__()
            self.edited = edited
            self.problem = problem

    def __init__(self, original: Original, sample: str = "") -> None:
        """`sample`: the group of dead jobs that the job is a sample of; "" when the job itself was chosen."""
        super().__init__()
        self._original = original
        self._sample = sample
        self._draft = draft_of(original.job)
        self._problems: list[Problem] = []
        self._changes: list[str] = []
        # what kept the last try from being enqueued
        self._failure = self._draft.remark
        self._going = False
        # what became of the last key, beside the keys
        self._remark = ""
        self._timer: Timer | None = None

    @property
    def area(self) -> JsonArea:
        """Where the payload is written."""
        return self.query_one(JsonArea)

    @property
    def changed(self) -> bool:
        """Whether there is something to be lost."""
        return self.area.text != self._draft.text

    def compose(self) -> ComposeResult:
        """What it will be, the text and what is changed, what is wrong, the reason, the buttons, the keys."""
        with Vertical(id="edit"):
            yield Drawn(self._head, id="edit-head")
            with Horizontal(id="edit-body"):
                yield JsonArea(self._draft.text, id="edit-area")
                yield TextPane((("Changes", "title"),), (), self._difference, id="edit-diff")
            yield Drawn(self._findings, id="edit-said")
            yield TextField("reason", "", id="edit-why")
            yield from self.buttons(go="Enqueue as a new job")
            yield Drawn(self._keys, id="edit-keys")

    def on_mount(self) -> None:
        self.set_class(bool(self._sample), "-sample")
        self.area.border_title = "Payload"
        self.area.focus()
        self._check_soon()

    # -- checking

    @on(JsonArea.Changed)
    def wait_for_rest(self) -> None:
        """Check the text when no key was pressed for `PAUSE_SECONDS`; the message about the one before is cleared."""
        if self.changed:
            self._failure = self._remark = ""
        if self._timer is not None:
            self._timer.stop()
        self._timer = host.sure(self.set_timer(PAUSE_SECONDS, self._check_soon))

    def _check_soon(self) -> None:
        host.replace(self, "check", self._check)

    async def _check(self) -> None:
        self.post_message(self.Checked(*await self._judged()))

    async def _judged(self) -> tuple[list[Problem], list[str]]:
        """In a thread: a large text takes its time, and the keys must not wait for it."""
        draft, original = replace(self._draft, text=self.area.text), self._original
        problems = await asyncio.to_thread(check, draft, original.job, original.known, original.limit)
        return problems, await asyncio.to_thread(diff, self._draft.text, draft.text)

    def on_edit_screen_checked(self, message: Checked) -> None:
        self._problems, self._changes = message.problems, message.changes
        self._repaint()

    # -- enqueueing

    @on(Field.Left)
    def go_on(self) -> None:
        """From the reason to the button."""
        self.query_one("#go", Push).focus()

    def go(self, button: str) -> None:
        """Enqueue it."""
        if not self._going and not self.held():
            self._going = True
            host.spawn(self, "submit", self._submit)

    async def _submit(self) -> None:
        again = "the text is still here, look whether the job was enqueued before you try again"
        try:
            self.post_message(self.Submitted(await self._enqueued()))
        except OriginalChanged as error:
            self._original = replace(self._original, job=replace(self._original.job, status=error.now))
            self.post_message(self.Submitted(None, f"{error}; enqueue it once more for a new job all the same"))
        except StoreUnavailable as error:
            self.post_message(self.Submitted(None, f"{error}; {again}"))
        except QueueCoreError as error:
            self.post_message(self.Submitted(None, f"nothing was enqueued: {error}"))
        except Exception as error:  # noqa: BLE001 - the sheet must be left, or tried again, whatever happens
            self.post_message(self.Submitted(None, f"{type(error).__name__}: {error}; {again}"))

    async def _enqueued(self) -> Edited | None:
        """Enqueue the new job; None where what is wrong with it is shown instead."""
        problems, changes = await self._judged()
        self.post_message(self.Checked(problems, changes))
        if any(problem.severity == "error" for problem in problems):
            return None
        draft, why = replace(self._draft, text=self.area.text), self.query_one(TextField).typed.strip()
        return await self.console.operator.edit(self._original.job, draft, why)

    def on_edit_screen_submitted(self, message: Submitted) -> None:
        self._going = False
        if message.edited is not None:
            self.dismiss(message.edited)
            return
        self._failure = message.problem
        self._repaint()
        first = next((problem for problem in self._problems if problem.line is not None), None)
        if not message.problem and first is not None and first.line is not None and first.column is not None:
            self.remove_class("-changes")
            self.area.go_to(first.line, first.column)

    # -- keys

    def commands(self) -> list[list[str]]:
        """The new job, whatever is wrong with its payload but that it is no JSON."""
        return [editing(self._original.job.id, self.area.text, self.query_one(TextField).typed.strip())]

    def remark(self, text: str) -> None:
        """Show it in place of the keys, until the text is changed."""
        self._remark = text
        self._repaint()

    def action_leave(self) -> None:
        """Go back, after a question where something would be lost."""
        if self._going:
            return
        if not self.changed:
            self.dismiss(None)
            return
        what = "The payload was edited and is not enqueued."
        self.app.push_screen(Confirm(IMMEDIATE["job", "discard"], what, changes=False), self._throw_away)

    def _throw_away(self, agreed: bool | None) -> None:
        if agreed:
            self.dismiss(None)

    def action_turn(self) -> None:
        """Where there is no room for both: the changes in place of the text, or the text again."""
        self.toggle_class("-changes")
        shown = self.query_one(TextPane) if self.has_class("-changes") else self.area
        self.call_after_refresh(shown.focus)

    # -- drawing

    def _head(self, width: int, height: int) -> list[Line]:
        return [fit(line, width) for line in head_lines(self._original.job, self._draft, self._sample)]

    def _difference(self, width: int) -> list[Line]:
        return difference_lines(self._changes, width)

    def _findings(self, width: int, height: int) -> list[Line]:
        problems = [Problem("error", self._failure)] if self._failure else self._problems
        return problem_lines(problems, self._original.known, self.console.glyphs, width, height)

    def _keys(self, width: int, height: int) -> list[Line]:
        spans = [(" ", "text/bar")]
        for key, label in KEYS:
            spans += [(key, "key/bar"), (f" {label}  ", "text/bar")]
        if self._remark:
            spans = [(f" {safe(self._remark)}", "accent/bar")]
        return [fit(spans, width, fill="text/bar")]

    def _repaint(self) -> None:
        for widget in self.query(LineWidget):
            widget.repaint()
