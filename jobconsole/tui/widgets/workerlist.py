"""Workers: where they run, how busy they are, when they were last heard of."""

from __future__ import annotations

from typing import ClassVar

from jobconsole.core.columns import WORKERS, Spans
from jobconsole.core.humanize import plural
from jobconsole.core.selection import Selection
from jobconsole.tui.widgets.table import Table
from queue_core.inspection import WorkerInfo


class WorkerTable(Table[WorkerInfo]):
    """One line for each worker process that announced itself."""

    NEVER: ClassVar[dict[str, str]] = dict.fromkeys(
        ("retry", "delete", "edit", "move", "cancel", "open"), "choose a job, not a worker"
    )

    empty = "no worker has announced itself: start one with jobconsole worker run module:jobs"
    cursor_always = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(WORKERS, Selection(lambda worker: worker.id), id=id)

    def heading(self) -> Spans:
        """Title."""
        if self.console.model.snapshot is None:
            return (("Workers", "title"),)
        return (("Workers", "title"), (f"  {plural(len(self.selection.rows), 'process', 'processes')}", "muted"))

    def note(self) -> Spans:
        """How many are lost."""
        lost = sum(worker.lost for worker in self.selection.rows)
        return ((f"{self.console.glyphs.alert} {lost} lost", "bad"),) if lost else ()

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        row = self.selection.row
        if action not in {"quiet", "stop"}:
            return ""
        if row is None:
            return self.nothing()
        return "this worker is lost: it hears no orders" if row.lost else ""

    def do_copy(self) -> None:
        """Copy the worker's id."""
        if self.selection.row is not None:
            self.console.copy(self.selection.row.id)
