"""Live: queues with their depth by priority, running jobs with their progress, workers, throughput."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.core.live_filter import FIELDS, unknown
from jobconsole.core.rows import worst_first
from jobconsole.core.snapshot import Snapshot
from jobconsole.present.columns import QUEUES
from jobconsole.present.job import DetailSubject
from jobconsole.tui.screens.row_actions import JobActions, QueueActions, WorkerActions
from jobconsole.tui.screens.view import View
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.live import (
    HOUR_SECONDS,
    Chart,
    LiveTable,
    QueueTable,
    RunningTable,
    TypeTable,
    WorkerTable,
)
from jobconsole.tui.widgets.table import Table
from queue_core.model.filters import Filter

LISTS = ("running", "types", "workers")
"""Lists of which small screens show one, by their ids; the smallest one turns to the queues, too."""


class LiveView(View):
    """What happens now."""

    # which of the lists a small screen shows
    which = LISTS[0]

    PLACE = "live"
    ROWS = (JobActions, QueueActions, WorkerActions)
    STAGES: ClassVar[dict[str, str]] = {
        "queues": "home",
        "running": "home",
        "types": "home",
        "workers": "home",
        "detail": "detail",
    }
    ORDER: ClassVar[tuple[str, ...]] = ("home", "detail")

    def panes(self) -> ComposeResult:
        """Queues and throughput at the left, running jobs and workers at the right."""
        with Vertical(id="queues-side"):
            yield QueueTable(QUEUES, id="queues")
            yield Chart(HOUR_SECONDS, id="chart")
        with Vertical(id="running-side"):
            yield RunningTable(id="running")
            yield TypeTable(id="types")
            yield WorkerTable(id="workers")
        yield Detail(id="detail")

    def adopt(self, snapshot: Snapshot, restart: bool = False) -> None:
        """Show a snapshot."""
        queues, workers = self.query_one(QueueTable), self.query_one(WorkerTable)
        queues.show(queues.narrowed(snapshot.queues))
        workers.show(workers.narrowed(worst_first(snapshot.workers)))
        if restart:
            self.query_one(RunningTable).sort()
        if self.stage == "detail":
            self.query_one(Detail).refresh_if_changed()

    def missing(self) -> frozenset[str]:
        """There is no detail of what is no job."""
        pane = self.pane
        gone = super().missing()
        if self.has_class("-narrow", "-short") and self.stage != "detail":
            gone -= {"next_tab", "previous_tab"}
        if not isinstance(pane, RunningTable | Detail):
            gone |= {"full", "export"}
        return gone

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow each list by what its rows have."""
        field = unknown(where)
        if field:
            reason = f"nothing here has '{field}'; queues, jobs and workers have {', '.join(FIELDS)} and words"
            self.notice.show(reason, "warn")
        for table in self.query(LiveTable):
            table.narrow_to(where, text)
        if self.console.model.snapshot is not None:
            self.adopt(self.console.model.snapshot)
        self.flush()

    def flush(self) -> None:
        """Running jobs follow the events."""
        self.query_one(RunningTable).flush()
        self.query_one(TypeTable).flush()

    def do_next_tab(self) -> None:
        """Where there is room for one list only: the next one; else the detail's next tab."""
        self._turn_tab(1)

    def do_previous_tab(self) -> None:
        """The list before, or the detail's tab before."""
        self._turn_tab(-1)

    def _turn_tab(self, step: int) -> None:
        if self.stage == "detail":
            self.query_one(Detail).turn(step)
            return
        lists = (*LISTS, "queues") if self.has_class("-low") else LISTS
        at = lists.index(self.which) if self.which in lists else 0
        self.remove_class(f"-list-{self.which}")
        self.which = lists[(at + step) % len(lists)]
        self.add_class(f"-list-{self.which}")
        self.call_after_refresh(self.query_one(f"#{self.which}", Table).focus)

    def show_detail(self) -> None:
        """Show the running job under the cursor."""
        pane = self.pane
        if isinstance(pane, RunningTable) and pane.selection.row is not None:
            self.query_one(Detail).about(DetailSubject(pane.selection.row.id))

    def do_open(self) -> None:
        """To the running job."""
        pane = self.pane
        if isinstance(pane, RunningTable) and pane.selection.row is not None:
            self.show_detail()
            self.enter("detail")
