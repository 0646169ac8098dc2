"""The latest events: the list follows the newest one until the cursor moves down, then it holds still and counts."""

from __future__ import annotations

import time
from typing import ClassVar

from jobconsole.actions.plan import Choice, Target
from jobconsole.core.events import KEPT, EventLine
from jobconsole.format.humanize import clock, exact, plural
from jobconsole.format.spans import Line, Spans, wrap
from jobconsole.present.columns import EVENTS
from jobconsole.tui.base.links import Link
from jobconsole.tui.widgets.pane import off_for_jobs
from jobconsole.tui.widgets.table import GUTTER, Table
from queue_core.model.filters import Filter
from queue_core.model.text import safe

ELSEWHERE = "3 lists the jobs, 2 shows queues and workers"
"""Where to see what no event shows."""
SHOWN_EVENTS = 1_000
"""Events that can be scrolled back to."""
CELLS_A_SECOND = 3_500
"""Cells of the list that are sent to the terminal in a second, on average: more cannot be read, and a flood of
events stays below 10 KB/s."""
SAVED_SECONDS = 2.0
"""Of cells that are saved up: what comes after a pause is drawn at once."""


class EventTable(Table[EventLine]):
    """Newest first."""

    NEVER: ClassVar[dict[str, str]] = off_for_jobs("open the job first (Enter)", "cancel", "export")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(EVENTS, lambda line: line.key, id=id)
        self.where = Filter()
        # the total of events when it was held still; None while it follows
        self.held: int | None = None
        # the number of the newest event that it shows
        self._seen = -1
        # how many there were when it showed all of them
        self._total = 0
        # cells that may be sent now
        self._cells = 0.0
        self._flushed = time.monotonic()

    def heading(self) -> Spans:
        """Title, with how many there were, and since when."""
        model = self.console.model
        return (("Events", "title"), (f"  {plural(model.event_tail.total, 'event')} since {self._since()}", "muted"))

    def note(self) -> Spans:
        """How many wait while it is held."""
        if self.held is not None:
            pending = self.console.model.event_tail.total - self.held
            return ((f"{self.console.glyphs.pause} held, {exact(pending)} pending, g follows", "warn"),)
        return ((f"{self.console.glyphs.dot} following", "good"),)

    def _nothing(self, width: int) -> list[Line]:
        """Why there is no event, and what to do."""
        model, connection = self.console.model, self.console.connection
        if model.snapshot is None:
            return super()._nothing(width)
        delivery = connection.delivery
        if connection.deaf:
            texts = [f"no event comes, for notifications do not arrive: {safe(connection.deaf)}", ELSEWHERE]
        elif delivery is not None and delivery.state == "lost":
            texts = [f"no event comes while {delivery.name} is lost", ELSEWHERE]
        elif self.where.terms and model.event_tail.total:
            last = plural(min(model.event_tail.total, KEPT), "event")
            texts = [f"nothing among the last {last} matches; Esc clears the filter"]
        else:
            started = f"no events since {self._since()} UTC, when this console connected"
            texts = [started, "an event comes when a job is enqueued, starts or ends, and is not stored", ELSEWHERE]
        return [(("   " + line, "muted"),) for text in texts for line in wrap(text, max(1, width - GUTTER))]

    def _since(self) -> str:
        return clock(self.console.model.heard_since)

    def flush(self) -> None:
        """Show the newest events, unless the list is held or has been drawn too often lately."""
        now = time.monotonic()
        self._cells = min(CELLS_A_SECOND * SAVED_SECONDS, self._cells + CELLS_A_SECOND * (now - self._flushed))
        self._flushed = now
        tail = self.console.model.event_tail
        latest = tail.latest(self.where)
        if self.held is not None:
            return
        if latest != self._seen and self._cells >= 0:
            self._seen = latest
            self.show(tail.newest(self.where, SHOWN_EVENTS), follow=True)
            self._cells -= self.inner_width * min(self.visible_rows, len(self.selection.rows))
        if latest == self._seen:
            self._total = tail.total
        if not self.selection.rows:
            self.repaint()  # why there are none may have changed

    def narrow(self, where: Filter, text: str) -> None:
        """Show only what matches, from the newest on."""
        self.where, self.filter_text = where, text
        self.do_top()

    def move_to(self, place: int) -> None:
        super().move_to(place)
        if place > 0 and self.held is None:
            self.held = self._total

    def do_top(self) -> None:
        """To the newest event, and follow."""
        self.selection.move_to(0)
        self.held, self._seen, self._cells = None, -1, 0.0
        self.flush()

    def target(self, verb: Choice) -> Target | None:
        """The job that the event is about."""
        row = self.selection.row
        if row is None or not row.type:
            return None
        return Target(f"{row.type} {row.id}", ids=(row.id,), about=1)

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        row = self.selection.row
        if action in {"cancel", "open", "export"} and (row is None or not row.type):
            return self.nothing() if row is None else "this event is about no job"
        return ""

    def link(self) -> Link | None:
        """The place of the event's job."""
        row = self.selection.row
        return Link("job", row.id) if row is not None and row.type else None

    def copied(self, row: EventLine) -> str:
        """The id of the job."""
        return row.id
