"""The list of operations, the facts of one, and the strip that shows those under way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.message import Message

from jobconsole.actions.plan import Choice, Target, one_job
from jobconsole.core.progress import OperationLine, OperationPages, matching, operations_line
from jobconsole.core.rows import JobLine
from jobconsole.format.spans import Line, Spans
from jobconsole.present.operation import MEMBERS, OPERATIONS, operation_lines, strip_line
from jobconsole.tui.base.host import Renewal, replace
from jobconsole.tui.base.links import Link
from jobconsole.tui.base.operations import PAGE_OPERATIONS, OperationDetail
from jobconsole.tui.widgets.pane import Pane, off_for_jobs
from jobconsole.tui.widgets.scroll import ScrollPane
from jobconsole.tui.widgets.table import NO_MATCH, Table
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter
from queue_core.model.operation import VERBS

EMPTY = "nothing yet; every change is kept here: who, when, why and its outcome"
CHOOSE = "choose a job, not an operation: Enter shows those that it has changed"
AHEAD = 50
"""Rows before the end of what is loaded at which the next page is wanted."""


class OperationTable(Table[OperationLine]):
    """One line for each operation; those under way are kept up to date."""

    NEVER: ClassVar[dict[str, str]] = off_for_jobs(CHOOSE, "cancel")

    empty = EMPTY
    heads = True

    class Read(Message):
        """A page has been read; `problem` is the reason when it was not."""

        def __init__(self, page: Sequence[OperationLine], before: int | None, problem: str = "") -> None:
            super().__init__()
            self.page = page
            self.before = before
            self.problem = problem

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(OPERATIONS, lambda line: line.key, id=id)
        self.pages = OperationPages()
        self.where = Filter()
        # an operation that the cursor is to go to once it is there
        self.sought = 0
        self._renewal = Renewal(self, "operations")

    def heading(self) -> Spans:
        """Title, with how many there are."""
        if not self.pages.loaded:
            return (("Operations", "title"), ("  reading ...", "muted"))
        more = "" if self.pages.complete else "+"
        return (("Operations", "title"), (f"  {len(self.selection.rows):,}{more} kept", "muted"))

    def note(self) -> Spans:
        """Return the counts of operations that are running, paused and stopped."""
        above, glyphs = self.selection.above, self.console.glyphs
        newer = ((f"{glyphs.up} {above:,} newer, g shows them  ", "accent"),) if above else ()
        spans = (*newer, *operations_line(self.console.model.active_operations.lines, glyphs))
        if not spans and self.pages.loaded:
            spans = (("none running", "muted"),)
        return spans

    @property
    def unread(self) -> bool:
        """Whether the newest page is being read."""
        return not self.pages.loaded and self.empty == EMPTY

    def read(self, before: int | None = None) -> None:
        """Read the newest page, or the one before a number."""
        if before is None:
            self._renewal.read("newest", partial(self._read, None))
        else:
            replace(self, "operations-before", self._read, before)

    async def read_through(self) -> None:
        """Read the newest page, and return once it is read."""
        await self._read(None)

    def read_more(self) -> None:
        """Read the next page when the screen comes near the end of what is loaded."""
        last = self.selection.top + self.visible_rows
        near = last + AHEAD >= len(self.selection.rows)
        if self.pages.loaded and not self.pages.full and (near or self.sought):
            self.read(self.pages.oldest)

    async def _read(self, before: int | None) -> None:
        try:
            page = await self.console.refresher.operations.page(before)
        except QueueCoreError as error:
            self.post_message(self.Read((), before, str(error)))
        else:
            self.post_message(self.Read(page, before))

    def on_operation_table_read(self, message: Read) -> None:
        if message.problem:
            # What was read before stays on the screen.
            self.empty = self.empty if self.pages.loaded else message.problem
            self.repaint()
            return
        self.pages.take(message.page, message.before, PAGE_OPERATIONS)
        self.narrow()
        self.read_more()

    def follow(self) -> None:
        """Adopt the progress of operations under way, and read those again whose end was missed."""
        if not self.pages.loaded:
            return
        for before in self.pages.follow(self.console.model.active_operations.lines, PAGE_OPERATIONS):
            self.read(before)
        self.narrow()

    def narrow_to(self, where: Filter, text: str) -> None:
        """Show only what matches; `text` is the filter as it was written."""
        self.where, self.filter_text = where, text
        self.begin_again()
        self.narrow()
        self.read_more()

    def narrow(self) -> None:
        """Show what matches the filter."""
        lines = self.pages.newest_first
        found = matching(lines, self.where)
        self.empty = NO_MATCH if lines and not found else EMPTY
        self.show(found, follow=False)
        self._seek()

    def move_to(self, place: int) -> None:
        super().move_to(place)
        self.read_more()

    def seek(self, number: int) -> None:
        """Put the cursor on an operation, as soon as it is there."""
        self.sought = number
        if self.pages.loaded:
            self._seek()
            self.read_more()

    def _seek(self) -> None:
        if str(self.sought) in self.selection.places:
            place, self.sought = self.selection.places[str(self.sought)], 0
            self.move_to(place)
        elif self.sought and (self.pages.full or self.sought > (self.pages.oldest or 0)):
            self.console.show_notice(f"there is no operation #{self.sought}", "warn")
            self.sought = 0

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        row = self.selection.row
        if row is None:
            return self.nothing() if action in {"pause", "cancel", "open", "full"} else ""
        return refuses_steering(row, action)

    def link(self) -> Link | None:
        """The place of the operation under the cursor."""
        return None if self.selection.row is None else Link("operation", self.selection.row.key)


def refuses_steering(line: OperationLine, action: str) -> str:
    """Return why an operation can be neither paused nor cancelled; "" when it can."""
    state = line.operation.state
    if action not in {"pause", "cancel"}:
        return ""
    if line.operation.ended:
        return f"#{line.number} has ended: it is {state}"
    return f"#{line.number} is still saving" if action == "pause" and state == "preparing" else ""


class MemberTable(Table[JobLine]):
    """Some of the jobs that an operation has changed, as they are now."""

    empty = "nothing selected"
    still = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(MEMBERS, lambda job: job.id, id=id)
        self.line: OperationLine | None = None

    def heading(self) -> Spans:
        """Title, with how many they are of how many."""
        shown, changed = len(self.selection.rows), self.line.operation.processed if self.line else 0
        some = f"  the first {shown} of {changed:,}" if changed > shown > 0 else ""
        return (("Jobs it changed", "title"), (some, "muted"))

    def await_jobs(self, line: OperationLine | None) -> None:
        """Show no jobs of another operation than this one, whose jobs are still to be read."""
        if line is None or self.line is None or line.number != self.line.number:
            self.begin_again()
            self.line, self.empty = line, "nothing selected" if line is None else "not loaded yet"
            self.show(())

    def take(self, line: OperationLine | None, rows: Sequence[JobLine]) -> None:
        """Show the jobs of an operation."""
        self.await_jobs(line)
        self.line = line
        gone = line is not None and line.operation.processed and not rows
        self.empty = "the jobs that it changed are not kept any more" if gone else "it has changed no jobs"
        self.show(rows)

    def target(self, verb: Choice) -> Target | None:
        """The job under the cursor."""
        job = self.selection.row
        return None if job is None else one_job(job.id, job.type, job.status)

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        if action not in VERBS and action not in {"export", "open", "full"}:
            return ""
        row = self.selection.row
        if row is None:
            return self.nothing()
        return f"this job is {row.status}" if action in VERBS and row.status not in VERBS[action].states else ""

    def link(self) -> Link | None:
        """The place of the job under the cursor; of the operation, where there is none."""
        if self.selection.row is not None:
            return Link("job", self.selection.row.id)
        return None if self.line is None else Link("operation", self.line.key)


AGAIN_SECONDS = 2.0
"""Between two reads of an operation that is shown."""


class OperationFacts(ScrollPane):
    """All options of an operation, its progress and its results."""

    GLANCE = 10
    NEVER: ClassVar[dict[str, str]] = {
        **off_for_jobs(CHOOSE, "cancel"),
        "filter": "go back to the list to filter it",
    }

    class Read(Message):
        """An operation has been read in detail; `problem` is the reason when it was not."""

        def __init__(self, number: int, detail: OperationDetail | None, problem: str = "") -> None:
            super().__init__()
            self.number = number
            self.detail = detail
            self.problem = problem

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.line: OperationLine | None = None
        self.detail: OperationDetail | None = None
        self._problem = ""
        self._read_at = 0.0
        self._renewal = Renewal(self, "operation")

    def heading(self) -> Spans:
        """Whose facts these are."""
        return (("Operation", "title"), (f"  #{self.line.number}" if self.line else "", "muted"))

    def about(self, line: OperationLine | None) -> None:
        """Show another operation, or the same one as it is now."""
        other = line is None or self.line is None or line.number != self.line.number
        self.line = line
        if other:
            self.top, self.detail, self._problem, self._read_at = 0, None, "", 0.0
            self.read(0.08)
        elif time.monotonic() - self._read_at > AGAIN_SECONDS:
            self.read()
        self.repaint()

    def read(self, delay: float = 0.0) -> None:
        """Read the operation; `delay` seconds later, so that a moving cursor reads only where it stops."""
        if self.line is not None:
            self._renewal.read(self.line.number, partial(self._read, self.line.number, delay))

    async def _read(self, number: int, delay: float) -> None:
        await self.console.pause(delay)
        try:
            detail = await self.console.refresher.operations.detail(number)
        except QueueCoreError as error:
            self.post_message(self.Read(number, None, str(error)))
        else:
            self.post_message(self.Read(number, detail))

    def on_operation_facts_read(self, message: Read) -> None:
        if self.line is None or message.number != self.line.number:
            message.stop()
            return
        self._read_at = time.monotonic()
        self._problem = message.problem
        self.detail = message.detail or self.detail
        self.repaint()

    def content(self, width: int) -> list[Line]:
        """The facts."""
        if self.line is None:
            return [(("nothing selected", "muted"),)]
        snapshot = self.console.model.snapshot
        alone = snapshot is not None and all(worker.lost for worker in snapshot.workers)
        outcomes = self.detail.outcomes if self.detail else None
        lines = operation_lines(self.line, outcomes, alone, self.console.render_context(), width)
        if self._problem:
            lines.append(((self._problem, "warn"),))
        return [line for line in lines if line] if self.glance else lines

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this operation."""
        if self.line is None:
            return "nothing selected" if action in {"pause", "cancel", "open", "full", "copy"} else ""
        return refuses_steering(self.line, action)

    def link(self) -> Link | None:
        """The place of the operation."""
        return None if self.line is None else Link("operation", self.line.key)

    def do_copy(self) -> None:
        """Copy the operation's number."""
        if self.line is not None:
            self.console.navigation.copy(self.line.key)


class OperationStrip(Pane):
    """Only to be looked at: the keys for operations work in their own view."""

    can_focus = False

    @property
    def needed(self) -> bool:
        """Whether there is one to show."""
        return bool(self._shown())

    def heading(self) -> Spans:
        """Title, and how many there are, for there may be more than lines."""
        going = operations_line(self._shown(), self.console.glyphs) or (("none running", "muted"),)
        return (("Operations  ", "title"), *going)

    def note(self) -> Spans:
        """Where they are paused and cancelled."""
        return (("4 shows them all", "muted"),)

    def body(self, width: int, height: int) -> list[Line]:
        """Draw operations under way first, the newest on top."""
        context = self.console.render_context()
        return [strip_line(line, context, width) for line in self._shown()[:height]]

    def _shown(self) -> list[OperationLine]:
        """Return those with jobs, the running ones first, then the stopped; one without jobs ends at once."""
        lines = [line for line in self.console.model.active_operations.lines if line.operation.total]
        return sorted(lines, key=lambda line: (line.waits, line.operation.state != "stopped"))
