"""The tail of what happens: it follows the newest event until somebody moves down, then it holds still and counts."""

from __future__ import annotations

import time
from typing import ClassVar

from jobconsole.core.columns import EVENTS, Spans
from jobconsole.core.humanize import exact, plural
from jobconsole.core.links import Link
from jobconsole.core.operations import Choice, Target
from jobconsole.core.selection import Selection
from jobconsole.core.tail import EventLine
from jobconsole.tui.widgets.table import Table
from queue_core.filters import Filter

SHOWN = 1_000
"""Events that one can go back through."""
CALM_RATE = 20.0
"""Events a second from which the list is drawn once a second: nobody reads faster, and each drawing costs bytes."""
CALM_SECONDS = 1.0


class EventTable(Table[EventLine]):
    """Newest first."""

    NEVER: ClassVar[dict[str, str]] = {
        "retry": "open the job first (Enter)",
        "delete": "open the job first (Enter)",
    }

    empty = "nothing has happened since this console began to listen"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(EVENTS, Selection(lambda line: line.key), id=id)
        self.where = Filter()
        self.filter_text = ""
        # the total of events when it was held still; None while it follows
        self.held: int | None = None
        self._seen = -1
        self._flushed = 0.0

    def heading(self) -> Spans:
        """Title, with how many there were."""
        total = self.console.model.tail.total
        return (("Events", "title"), (f"  {plural(total, 'event')} heard", "muted"))

    def note(self) -> Spans:
        """How many wait while it is held; the filter."""
        if self.held is not None:
            pending = self.console.model.tail.total - self.held
            return ((f"{self.console.glyphs.pause} held, {exact(pending)} pending, g follows", "warn"),)
        text = f"/{self.filter_text}  " if self.filter_text else ""
        return ((text, "accent"), (f"{self.console.glyphs.dot} following", "good"))

    def flush(self) -> None:
        """Take over the newest events, unless the list is held."""
        tail, now = self.console.model.tail, time.monotonic()
        calm = self.console.model.event_rate() > CALM_RATE and now - self._flushed < CALM_SECONDS
        if self.held is None and tail.total != self._seen and not calm:
            self._seen, self._flushed = tail.total, now
            self.show(tail.newest(self.where, SHOWN), follow=True)

    def narrow(self, where: Filter, text: str) -> None:
        """Show only what matches, from the newest on."""
        self.where, self.filter_text = where, text
        self.do_top()

    def move_to(self, place: int) -> None:
        super().move_to(place)
        if place > 0 and self.held is None:
            self.held = self._seen

    def do_top(self) -> None:
        """To the newest event, and follow."""
        super().do_top()
        self.held, self._seen, self._flushed = None, -1, 0.0
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

    def do_copy(self) -> None:
        """Copy the id of the event's job."""
        if self.selection.row is not None:
            self.console.copy(self.selection.row.id)
