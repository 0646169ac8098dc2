"""Queues with their depth by priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jobconsole.core.columns import Column, Spans
from jobconsole.core.humanize import exact, plural
from jobconsole.core.rows import QueueLine
from jobconsole.core.selection import Selection
from jobconsole.tui.widgets.table import Table


class QueueTable(Table[QueueLine]):
    """One line for each queue, by name."""

    NEVER: ClassVar[dict[str, str]] = dict.fromkeys(
        ("retry", "delete", "edit", "move", "cancel"), "choose a job, not a queue"
    )

    empty = "no queues yet"
    cursor_always = False

    def __init__(self, columns: Sequence[Column[QueueLine]], *, id: str | None = None) -> None:
        super().__init__(columns, Selection(lambda queue: queue.name), id=id)

    def heading(self) -> Spans:
        """Title."""
        if self.console.model.snapshot is None:
            return (("Queues", "title"),)
        return (("Queues", "title"), (f"  {plural(len(self.selection.rows), 'queue')}", "muted"))

    def note(self) -> Spans:
        """How many jobs are ready over all."""
        ready = sum(queue.queued for queue in self.selection.rows)
        return ((exact(ready), "strong" if ready else "faint"), (" ready", "muted"))

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        return "" if action != "pause" or self.selection.row else self.nothing()

    def do_copy(self) -> None:
        """Copy the queue's name."""
        if self.selection.row is not None:
            self.console.copy(self.selection.row.label)
