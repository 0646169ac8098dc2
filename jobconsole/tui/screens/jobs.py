"""Jobs: all of them, by state and filter, with one in detail."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from jobconsole.core.snapshot import Snapshot
from jobconsole.format.humanize import short
from jobconsole.format.spans import Line, around, fit
from jobconsole.present.columns import JOBS
from jobconsole.present.job import DetailSubject
from jobconsole.tui.screens.filter_actions import FilterActions
from jobconsole.tui.screens.row_actions import JobActions
from jobconsole.tui.screens.view import View
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.jobs import JobTable
from jobconsole.tui.widgets.pane import LineWidget, Pane
from jobconsole.tui.widgets.table import Table
from queue_core.model.filters import Filter, Term
from queue_core.model.states import Status

ALL, TRASH = "all", "trash"
TABS: tuple[str, ...] = (
    ALL, Status.DEAD, Status.RUNNING, Status.QUEUED, Status.RETRYING, Status.SCHEDULED, Status.COMPLETED,
    Status.CANCELLED, TRASH,
)  # fmt: skip
"""States, all of them, and the deleted jobs, which are in none of the other tabs."""
UNCOUNTED = frozenset({ALL, Status.COMPLETED, Status.CANCELLED})


class StateTabs(LineWidget):
    """The states as tabs, with how many jobs are in those that can be counted."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tab = 0

    def lines(self, width: int, height: int) -> list[Line]:
        """All tabs in one line; counts where there is room."""
        spans: list[tuple[str, str]] = []
        for index, tab in enumerate(TABS):
            here = index == self.tab
            count = self._count(tab) if width >= 100 else ""
            word = f"{tab}{' ' + count if count else ''}"
            spans.append((f"[{word}]" if here else f" {word} ", "title" if here else "muted"))
        return [fit(((" ", "text"), *around(spans, width - 2, self.console.glyphs.ellipsis)), width)]

    def _count(self, tab: str) -> str:
        number = count_of(tab, self.console.model.snapshot)
        return "" if number is None else short(number)


def count_of(tab: str, snapshot: Snapshot | None) -> int | None:
    """Return how many jobs a tab has; None without a snapshot that has the count."""
    if snapshot is None or tab in UNCOUNTED:
        return None
    return int(getattr(snapshot.totals, "trashed" if tab == TRASH else tab))


class JobsView(View):
    """One list with a filter, and the job under its cursor."""

    PLACE = "jobs"
    ROWS = (JobActions, FilterActions)
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

    def adopt(self, snapshot: Snapshot, restart: bool = False) -> None:
        """Read the list again; its first page when not loaded yet."""
        if self.jobs.window is None:
            self._list()
        elif self.jobs.window.loaded or self.jobs.failed:
            self.jobs.total = self._total()
            self.jobs.read()
        self.show_detail()

    def missing(self) -> frozenset[str]:
        """The list has tabs of its own."""
        return super().missing() - {"next_tab", "previous_tab"}

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow the list."""
        self._list()
        self.search(self.jobs.where)

    def searched(self, words: str) -> None:
        """Show beside the filter of what a search of texts is."""
        self.jobs.searched = words
        self.jobs.repaint()

    @on(Table.Moved)
    def show_detail(self) -> None:
        """Show the job under the cursor, and what has become of the one that is shown."""
        detail = self.query_one(Detail)
        row = self.jobs.selection.row
        if self.pane is detail:
            detail.refresh_if_changed()
        elif row is not None:
            detail.about(DetailSubject(row.id))
            detail.refresh_if_changed()
        elif not self.jobs.selection.rows:
            detail.about(DetailSubject())

    def pane_entered(self, pane: Pane) -> None:
        """The detail follows the list."""
        super().pane_entered(pane)
        self.show_detail()

    def narrowing(self) -> Filter:
        """The filter that holds."""
        return self.jobs.where

    def show_item(self, item: str) -> None:
        """Narrow the list to one job and go into it."""
        self.filter_line.hold(Filter((Term("id", "=", item.replace("-", "")),)), f"id:{item}")
        self.query_one(Detail).about(DetailSubject(item))
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
        self._list()

    def _list(self) -> None:
        tab = TABS[self.query_one(StateTabs).tab]
        where = self.filter_line.where
        if tab == TRASH:
            where = Filter(where.terms, trash=True)
        elif tab != ALL:
            where = where.having(Term("status", "=", tab))
        self.jobs.filter_text = self.filter_line.text
        self.jobs.list_jobs(where, self._total())

    def _total(self) -> int | None:
        """How many there are, where a snapshot knows it: in one state and without a filter."""
        if self.filter_line.text:
            return None
        return count_of(TABS[self.query_one(StateTabs).tab], self.console.model.snapshot)
