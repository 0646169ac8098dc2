"""Orders to workers: quiet, resume, stop."""

from __future__ import annotations

from functools import partial

from jobconsole.core.humanize import plural
from jobconsole.tui.atonce import Order
from jobconsole.tui.background import spawn
from jobconsole.tui.screens.base import View
from jobconsole.tui.screens.confirm import Confirm
from jobconsole.tui.widgets.workerlist import WorkerTable
from queue_core.errors import QueueCoreError
from queue_core.inspection import WorkerInfo

STOP = "It finishes what it runs, within its grace, and ends. A service starts another one in its place."


class WorkerActions(View):
    """Give the worker under the cursor an order, which its next heartbeat brings."""

    def missing(self) -> frozenset[str]:
        """There are no orders where no worker is under the cursor."""
        return super().missing() if isinstance(self.pane, WorkerTable) else super().missing() | {"quiet", "stop"}

    def do_quiet(self) -> None:
        """Let the worker claim no more jobs, or let it claim again."""
        row = self.query_one(WorkerTable).selection.row
        if row is not None:
            spawn(self, "order", self._order, row, "resume" if row.quiet else "quiet")

    def do_stop(self) -> None:
        """Let the worker end, after a question."""
        row = self.query_one(WorkerTable).selection.row
        if row is not None:
            what = f"{row.host}:{row.pid}, which runs {plural(row.busy, 'job')}"
            self.app.push_screen(Confirm("Stop a worker", what, STOP, "Stop"), partial(self._stop, row))

    def _stop(self, worker: WorkerInfo, agreed: bool | None) -> None:
        if agreed:
            spawn(self, "order", self._order, worker, "stop")

    async def _order(self, worker: WorkerInfo, order: Order) -> None:
        try:
            sentence = await self.console.operator.order(worker.id, f"{worker.host}:{worker.pid}", order)
        except QueueCoreError as error:
            self.notice.say(str(error), "bad")
        else:
            self.notice.say(sentence, "good")
        self.console.refresher.resync()
