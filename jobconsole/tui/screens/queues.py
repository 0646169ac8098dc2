"""What the views with queues have in common."""

from __future__ import annotations

from jobconsole.tui.background import spawn
from jobconsole.tui.screens.rework import ReworkActions
from jobconsole.tui.widgets.queuelist import QueueTable
from queue_core.errors import QueueCoreError
from queue_core.filters import Filter, Term


class QueueActions(ReworkActions):
    """Pause and open the queue under the cursor, and what can be done with the jobs beside it."""

    def missing(self) -> frozenset[str]:
        """There is no pausing where no queue is under the cursor."""
        return super().missing() if isinstance(self.pane, QueueTable) else super().missing() | {"pause"}

    def do_pause(self) -> None:
        """Pause the queue, or let it go on."""
        pane = self.pane
        if isinstance(pane, QueueTable) and pane.selection.row is not None:
            queue = pane.selection.row
            spawn(self, "pause", self._pause, queue.name, queue.paused)

    async def _pause(self, queue: str, paused: bool) -> None:
        try:
            self.notice.say(await self.console.operator.toggle_pause(queue, paused), "good")
        except QueueCoreError as error:
            self.notice.say(str(error), "bad")
        self.console.refresher.resync()

    def open_queue(self, pane: QueueTable) -> None:
        """Go to the jobs of the queue."""
        if pane.selection.row is not None:
            queue = pane.selection.row
            self.console.open_jobs(Filter((Term("queue", "=", queue.name),)), f'queue:"{queue.label}"')
