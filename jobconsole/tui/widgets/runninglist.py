"""Running jobs, each on its own line until it ends."""

from __future__ import annotations

import time
from typing import ClassVar

from jobconsole.core.board import Board
from jobconsole.core.columns import RUNNING_JOBS, Spans
from jobconsole.core.humanize import exact, plural, rate
from jobconsole.core.links import Link
from jobconsole.core.operations import Choice, Target
from jobconsole.core.running import LIVE_LIMIT, RunningJob
from jobconsole.core.selection import Selection
from jobconsole.core.series import spark
from jobconsole.tui.widgets.table import Table

SPARK = 16
"""Cells of the throughput beside the title."""


class RunningTable(Table[RunningJob]):
    """What runs now, longest first when it is sorted; lines do not move while one looks."""

    NEVER: ClassVar[dict[str, str]] = {
        "retry": "a running job cannot be retried; X cancels it",
        "delete": "a running job cannot be deleted; X cancels it",
        "edit": "a running job cannot be edited; X cancels it",
        "move": "a running job cannot be moved; X cancels it",
    }

    empty = "nothing runs longer than a moment"
    cursor_always = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(RUNNING_JOBS, Selection(lambda job: job.id), id=id)
        self._board = Board()

    def heading(self) -> Spans:
        """Title with how many run, of how many that could."""
        snapshot = self.console.model.snapshot
        if snapshot is None:
            return (("Running", "title"),)
        totals = snapshot.totals
        watched = f", {exact(LIVE_LIMIT)} of them watched" if self.console.model.running.dropped else ""
        words = f"  {plural(totals.running, 'job')} on {plural(totals.slots, 'slot')}{watched}"
        return (("Running", "title"), (words, "muted"))

    def note(self) -> Spans:
        """Throughput as a sparkline and a number."""
        model = self.console.model
        line = spark(model.history("completed", SPARK), SPARK, self.console.glyphs.levels)
        return ((line, "chart"), (f" {rate(model.rate('completed')):>7}", "good"), (" done", "muted"))

    def flush(self) -> None:
        """Take over what the model knows now."""
        model = self.console.model
        pinned = self.selection.key if self.has_focus else None
        self._board.update(model.running.live.values(), model.now.timestamp(), time.monotonic(), pinned)
        self.show(self._board.lines)

    def sort(self) -> None:
        """Bring the longest running to the top."""
        self._board.sort()
        self.flush()

    def target(self, verb: Choice) -> Target | None:
        """The job under the cursor."""
        row = self.selection.row
        if row is None or row.outcome:
            return None
        return Target(f"{row.type} {row.id}", ids=(row.id,), about=1, keys=())

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        row = self.selection.row
        if action == "cancel":
            return "" if row is not None and not row.outcome else self.nothing()
        return ""

    def link(self) -> Link | None:
        """The place of the row under the cursor."""
        return None if self.selection.row is None else Link("job", self.selection.row.id)

    def do_copy(self) -> None:
        """Copy the job's id."""
        if self.selection.row is not None:
            self.console.copy(self.selection.row.id)
