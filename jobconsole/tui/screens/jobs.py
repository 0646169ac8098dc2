"""Jobs: all of them, by state and filter, with one in detail."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from jobconsole.core.columns import JOBS
from jobconsole.core.humanize import short
from jobconsole.core.snapshot import Snapshot
from jobconsole.tui.drawing.spans import Line, fit
from jobconsole.tui.drawing.subject import Subject
from jobconsole.tui.screens.base import View
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.joblist import JobTable
from jobconsole.tui.widgets.lines import LineWidget
from jobconsole.tui.widgets.pane import Pane
from jobconsole.tui.widgets.table import Table
from queue_core.filters import Filter, Term
from queue_core.states import Status

TABS: tuple[Status | None, ...] = (
    None, Status.DEAD, Status.RUNNING, Status.QUEUED, Status.RETRYING, Status.SCHEDULED, Status.COMPLETED,
    Status.CANCELLED,
)  # fmt: skip


class StateTabs(LineWidget):
    """The states as tabs, with how many jobs are in those that can be counted."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tab = 0

    def lines(self, width: int, height: int) -> list[Line]:
        """All tabs in one line; counts where there is room."""
        spans: list[tuple[str, str]] = [(" ", "text")]
        for index, status in enumerate(TABS):
            here = index == self.tab
            count = self._count(status) if width >= 100 else ""
            word = f"{status or 'all'}{' ' + count if count else ''}"
            spans.append((f"[{word}]" if here else f" {word} ", "title" if here else "muted"))
        return [fit(spans, width)]

    def _count(self, status: Status | None) -> str:
        snapshot = self.console.model.snapshot
        if snapshot is None or status in {None, Status.COMPLETED, Status.CANCELLED}:
            return ""
        return short(getattr(snapshot.totals, str(status)))


class JobsView(View):
    """One list with a filter, and the job under its cursor."""

    PLACE = "jobs"
    STAGES: ClassVar[dict[str, str]] = {"all-jobs": "home", "detail": "detail"}
    ORDER: ClassVar[tuple[str, ...]] = ("home", "detail")

    def panes(self) -> ComposeResult:
        """Tabs over the list; the detail beside it."""
        yield StateTabs(id="states")
        yield JobTable(JOBS, "Jobs", id="all-jobs")
        yield Detail(id="detail")

    @property
    def jobs(self) -> JobTable:
        """The list."""
        return self.query_one(JobTable)

    def adopt(self, snapshot: Snapshot, anew: bool = False) -> None:
        """Read the list again; its first page when nothing was read yet."""
        if self.jobs.window is None:
            self._look()
        elif self.jobs.window.loaded or self.jobs.failed:
            self.jobs.total = self._total()
            self.jobs.read()
        self.look_at_detail()

    def missing(self) -> frozenset[str]:
        """The list has tabs of its own."""
        return super().missing() - {"next_tab", "previous_tab"}

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow the list."""
        self._look()

    @on(Table.Moved)
    def look_at_detail(self) -> None:
        """Show the job under the cursor, and what has become of the one that is shown."""
        detail = self.query_one(Detail)
        row = self.jobs.selection.row
        if self.pane is detail:
            detail.refresh_if_changed()
        elif row is not None:
            detail.about(Subject(row.id))
            detail.refresh_if_changed()
        elif not self.jobs.selection.rows:
            detail.about(Subject())

    def pane_entered(self, pane: Pane) -> None:
        """The detail follows the list."""
        super().pane_entered(pane)
        self.look_at_detail()

    def narrowing(self) -> Filter:
        """The filter that holds."""
        return self.jobs.where

    def show_job(self, job_id: str) -> None:
        """Narrow the list to one job and go into it."""
        self.filter_line.hold(Filter((Term("id", "=", job_id.replace("-", "")),)), f"id:{job_id}")
        self.query_one(Detail).about(Subject(job_id))
        self.enter("detail")

    def do_open(self) -> None:
        """Into the job."""
        if self.pane is self.jobs:
            self.enter("detail")

    def do_next_tab(self) -> None:
        """The next state, or the detail's next tab."""
        self._turn_tab(1)

    def do_previous_tab(self) -> None:
        """The previous state, or the detail's previous tab."""
        self._turn_tab(-1)

    def _turn_tab(self, step: int) -> None:
        if self.pane is self.query_one(Detail):
            self.query_one(Detail).turn(step)
            return
        tabs = self.query_one(StateTabs)
        tabs.tab = (tabs.tab + step) % len(TABS)
        tabs.repaint()
        self._look()

    def _look(self) -> None:
        status = TABS[self.query_one(StateTabs).tab]
        where = self.filter_line.where
        if status is not None:
            where = where.having(Term("status", "=", status.value))
        self.jobs.filter_text = self.filter_line.text
        self.jobs.look_at(where, self._total())

    def _total(self) -> int | None:
        """How many there are, where a snapshot knows it: in one state and without a filter."""
        snapshot = self.console.model.snapshot
        status = TABS[self.query_one(StateTabs).tab]
        if snapshot is None or status in {None, Status.COMPLETED, Status.CANCELLED} or self.filter_line.text:
            return None
        return int(getattr(snapshot.totals, str(status)))
