"""Live: queues with their depth by priority, running jobs with their progress, workers, throughput."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.core.columns import QUEUES
from jobconsole.core.snapshot import Snapshot
from jobconsole.tui.screens.queues import QueueActions
from jobconsole.tui.widgets.chart import Chart
from jobconsole.tui.widgets.detail import Detail, Subject
from jobconsole.tui.widgets.queuelist import QueueTable
from jobconsole.tui.widgets.runninglist import RunningTable
from jobconsole.tui.widgets.workerlist import WorkerTable


class LiveView(QueueActions):
    """What happens now."""

    STAGES: ClassVar[dict[str, str]] = {"queues": "home", "running": "home", "workers": "home", "detail": "detail"}
    ORDER: ClassVar[tuple[str, ...]] = ("home", "detail")

    def panes(self) -> ComposeResult:
        """Queues and throughput at the left, running jobs and workers at the right."""
        with Vertical(id="queues-side"):
            yield QueueTable(QUEUES, id="queues")
            yield Chart(id="chart")
        with Vertical(id="running-side"):
            yield RunningTable(id="running")
            yield WorkerTable(id="workers")
        yield Detail(id="detail")

    def adopt(self, snapshot: Snapshot, anew: bool = False) -> None:
        """Show what a snapshot says."""
        self.query_one(QueueTable).show(snapshot.queues)
        self.query_one(WorkerTable).show(snapshot.workers)
        if anew:
            self.query_one(RunningTable).sort()
        if self.stage == "detail":
            self.query_one(Detail).refresh_if_changed()

    def missing(self) -> frozenset[str]:
        """There is nothing to filter."""
        return super().missing() | {"filter"}

    def flush(self) -> None:
        """Running jobs follow the events."""
        self.query_one(RunningTable).flush()

    def do_open(self) -> None:
        """To the jobs of a queue, or to the running job."""
        pane = self.pane
        if isinstance(pane, QueueTable):
            self.open_queue(pane)
        elif isinstance(pane, RunningTable) and pane.selection.row is not None:
            self.query_one(Detail).about(Subject(pane.selection.row.id))
            self.enter("detail")
