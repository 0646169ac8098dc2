"""A list of jobs over a window of pages, for the dead of one signature or for all jobs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from textual.message import Message

from jobconsole.actions import edit
from jobconsole.actions.plan import ACTS_ON, Choice, Target, changeable_only, facts_of
from jobconsole.core.listing import Window
from jobconsole.core.rows import JobLine
from jobconsole.format.humanize import exact, plural
from jobconsole.format.spans import Spans
from jobconsole.format.words import WORDS
from jobconsole.present.layout import Column
from jobconsole.tui.base.host import Renewal, replace
from jobconsole.tui.base.links import Link
from jobconsole.tui.widgets.table import NO_MATCH, MarkTable
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.report import Order
from queue_core.model.states import Status

NEW_SECONDS = 3.0
"""How long a row that has just come in is marked."""


class JobTable(MarkTable[JobLine]):
    """Jobs by the time of their last change. The cursor is on an id; pages are read as one comes to them."""

    class Read(Message, bubble=False):
        """A window has been read; `problem` is the reason when it was not."""

        def __init__(self, window: Window, problem: str = "") -> None:
            super().__init__()
            self.window = window
            self.problem = problem

    def __init__(self, columns: Sequence[Column[JobLine]], title: str, *, id: str | None = None) -> None:
        super().__init__(columns, lambda job: job.id, id=id)
        self.title = title
        self.order: Order = "newest"
        self.window: Window | None = None
        # the number of jobs by another source; None: unknown
        self.total: int | None = None
        # of what a search of texts is; "" without one
        self.searched = ""
        # the last read found no store, and nothing was shown yet
        self.failed = False
        # id of a row that is held -> when it came in, 0 where it was there before
        self._seen: dict[str, float] = {}
        # when the list was read last, by the store's clock
        self._read_at: datetime | None = None
        self._renewal = Renewal(self, f"read-{id}")

    @property
    def where(self) -> Filter:
        """What the list is narrowed to."""
        return self.window.where if self.window else Filter()

    @property
    def in_trash(self) -> bool:
        """Whether the list is of deleted jobs."""
        return self.where.trash

    def heading(self) -> Spans:
        """Title with how many there are."""
        window, shown = self.window, len(self.selection.rows)
        if window is None or not window.loaded:
            return ((self.title, "title"), ("  reading ..." if window else "", "muted"))
        known = self.total if self.total is not None and self.total > shown else shown
        whole = window.complete and not window.behind
        more = "" if whole or self.total is not None else "+"
        full = f", the first {exact(shown)} shown: narrow with /" if window.full else ""
        return ((self.title, "title"), (f"  {exact(known)}{more} {'job' if known == 1 else 'jobs'}{full}", "muted"))

    def note(self) -> Spans:
        """What is marked, and what came in above."""
        selection = self.selection
        if selection.everything:
            return (("all that match are marked", "warn"),)
        if selection.marks:
            return ((f"{exact(len(selection.marks))} marked", "warn"),)
        searched = ((self.searched, "warn"),) if self.searched else ()
        if self.order == "oldest":
            return (*searched, ("  " if searched else "", "muted"), ("oldest first", "muted"))
        if self.window is not None and self.window.behind:
            return ((f"{self.console.glyphs.up} many newer, g shows them", "accent"),)
        if selection.above:
            return ((f"{self.console.glyphs.up} {exact(selection.above)} newer", "accent"),)
        return searched

    def list_jobs(self, where: Filter, total: int | None = None) -> None:
        """Show another list, or the same with another total."""
        self.total = total
        if self.window is None or self.window.where != where:
            self.window = Window(where, self.order)
            self.begin_again()
            self._seen.clear()
            self._read_at = None
            self.repaint()
            self.read()

    def list_nothing(self) -> None:
        """Show no list: there is nothing that it would be of."""
        if self.window is not None:
            self.empty = self._none()
            self.window = self.total = None
            self.begin_again()
            self.show(())

    def show_fields(self, fields: tuple[str, ...]) -> None:
        """Show these fields of the payloads, too."""
        if self.window is not None and self.window.fields != fields:
            self.window.fields = fields
            self.read()

    def read(self) -> None:
        """Read what is shown again; a read that is under way for another list is given up."""
        if self.window is not None:
            self._renewal.read(id(self.window), partial(self._read, self.window))

    def read_more(self) -> None:
        """Read the next page when the screen comes near the end of what is loaded."""
        last = self.selection.top + self.visible_rows
        if self.window is not None and self.window.loaded and self.window.wants(last):
            replace(self, f"more-{self.id}", self._more, self.window)

    async def _read(self, window: Window) -> None:
        try:
            top = self.selection.top
            shown = range(top, top + max(1, self.visible_rows))
            await self.console.refresher.again(window, shown, hold=self.anchored)
        except QueueCoreError as error:
            self.post_message(self.Read(window, str(error)))
        else:
            self.post_message(self.Read(window))

    async def _more(self, window: Window) -> None:
        try:
            await self.console.refresher.more(window)
        except QueueCoreError as error:
            self.post_message(self.Read(window, str(error)))
        else:
            self.post_message(self.Read(window))

    def on_job_table_read(self, message: Read) -> None:
        if message.window is not self.window:
            return
        self.failed = bool(message.problem)
        if message.problem:
            self.empty = message.problem
            self.repaint()
            return
        if self.filter_text:
            self.empty = f"nothing found {self.searched}" if self.searched.startswith("in ") else NO_MATCH
        else:
            self.empty = self._none()
        self._note_new(self.window.rows)
        self.show(self.window.rows)

    def _none(self) -> str:
        """That there is no job, without a filter of the user's."""
        states = self.where.statuses()
        if self.where.trash:
            return "the trash is empty"
        return f"no {next(iter(states))} jobs" if len(states) == 1 else "no jobs"

    def _note_new(self, rows: Sequence[JobLine]) -> None:
        """Note when rows came in: those above others that were there before, and those changed since the last read.

        Others were there all the time, and are only read now that the cursor has come to them.
        """
        now, since, self._read_at = time.monotonic(), self._read_at, self.console.model.now
        last = max((place for place, job in enumerate(rows) if job.id in self._seen), default=-1)
        fresh = {job.id for place, job in enumerate(rows) if place < last or (since and job.updated_at > since)}
        self._seen = {job.id: self._seen.get(job.id, now if job.id in fresh else 0.0) for job in rows}

    def current(self, row: JobLine) -> JobLine:
        """How far a running job is comes with its events, before the list is read again."""
        if row.status is not Status.RUNNING:
            return row
        running = self.console.model.running.progress_of(row.id, row.token, row.progress)
        return row if running is None else dataclasses.replace(row, progress=running[0], message=running[1])

    def is_new(self, row: JobLine) -> bool:
        """A row is marked for a moment after it came in."""
        return time.monotonic() - self._seen.get(row.id, 0.0) < NEW_SECONDS

    def move_to(self, place: int) -> None:
        super().move_to(place)
        self.read_more()

    def forget(self, ids: Sequence[str]) -> None:
        """Take jobs out that were just changed by this console."""
        if self.window is not None:
            self.selection.expect_gone(ids)
            self.window.forget(frozenset(ids))
            self.show(self.window.rows)

    def target(self, verb: Choice) -> Target | None:
        """Everything that matches, the marked jobs, or the one under the cursor."""
        selection = self.selection
        if selection.everything:
            where = self.where if verb == "export" else changeable_only(verb, self.where)
            facts = (("filter", self.filter_text),) if self.filter_text else ()
            return Target("everything that matches", wheres=(where,), about=self.total, facts=facts)
        rows = list(selection.marks.values()) or ([selection.row] if selection.row else [])
        if not rows:
            return None
        label = plural(len(rows), "marked job") if selection.marks else f"{rows[0].type} {rows[0].id}"
        ids = tuple(row.id for row in rows)
        types = tuple(dict.fromkeys(row.type for row in rows))
        states = tuple(dict.fromkeys(row.status for row in rows))
        # Marks, and a screen that is held, keep rows of jobs that others have retried or deleted since.
        dead = Filter((Term("status", "=", Status.DEAD.value),), self.where.trash)
        still = dead if states == (Status.DEAD,) else None
        return Target(
            label, ids=ids, about=len(ids), keys=ids, facts=facts_of(rows), types=types, statuses=states, still=still
        )

    def nothing(self) -> str:
        """Why there is nothing under the cursor."""
        return "the jobs are still being read" if self.unread else super().nothing()

    @property
    def unread(self) -> bool:
        """Whether the first jobs of the list are being read."""
        return self.window is not None and not self.window.loaded and not self.failed

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        if action == "export" and not (self.selection.row or self.selection.marks or self.selection.everything):
            return self.nothing()
        if action == "edit":
            return self._refuses_edit()
        if action not in ACTS_ON or (self.selection.marks and not self.selection.everything):
            return ""
        if self.selection.everything:
            states = self.where.statuses()
            here = " and ".join(sorted(states)) or "in no state"
            return "" if states & ACTS_ON[action] else f"all that match are {here}; {_only(action)}"
        row = self.selection.row
        if row is None:
            return self.nothing()
        if row.status in ACTS_ON[action]:
            return ""
        return f"this job is {row.status}; {_only(action)}"

    def _refuses_edit(self) -> str:
        row = self.sample()
        if row is None:
            several = self.selection.everything or self.selection.marks
            return "E edits one job at a time; Backspace takes the marks away" if several else self.nothing()
        reason = edit.refusal(row.status)
        return f"not edited: {reason}" if reason else ""

    def sample(self) -> JobLine | None:
        """The one job that is chosen: the one marked job, or the one under the cursor without marks."""
        selection = self.selection
        if selection.everything or len(selection.marks) > 1:
            return None
        return next(iter(selection.marks.values()), selection.row)

    def do_sort(self) -> None:
        """The newest change first, or the oldest."""
        self.order = "oldest" if self.order == "newest" else "newest"
        where, self.window = self.where, None
        self.list_jobs(where, self.total)

    def read_again(self) -> None:
        """Read again, from the newest on where a flood has cut the rows off."""
        if self.window is not None and self.window.behind:
            self.window.restart()
            self.begin_again()
        self.read()

    def do_top(self) -> None:
        """To the first row, the newest there is."""
        if self.window is not None and self.window.behind:
            self.read_again()
        super().do_top()

    def link(self) -> Link | None:
        """The place of the row under the cursor."""
        return None if self.selection.row is None else Link("job", self.selection.row.id)


def _only(action: str) -> str:
    states = _SEVERAL.get(action) or " and ".join(sorted(ACTS_ON[action]))
    return f"only {states} jobs can be {WORDS[action].past}"


_SEVERAL = {"move": "waiting and dead", "cancel": "unfinished"}
"""Names of several states, where a list of them would be cut."""
