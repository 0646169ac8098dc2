"""What the console knows between two snapshots: events touch dictionaries here, and nothing else happens for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from jobconsole.core.running import RunningJobs
from jobconsole.core.series import Ring
from jobconsole.core.snapshot import Snapshot
from queue_core.events import EventBatch, EventName
from queue_core.inspection import SeriesPoint

COUNTED = ("created", "completed", "retrying", "dead")
"""Events whose rate is kept by the second."""
RATE_WINDOW = 5
"""Seconds over which a rate is averaged."""

_COUNTS = {"created": "enqueued", "completed": "completed", "retrying": "retried", "dead": "dead"}
# what a list of dead jobs, or of any jobs, may have become wrong by
_TOUCH_DEAD = frozenset({EventName.DEAD, EventName.RETRIED, EventName.DELETED, EventName.RESTORED})


class Model:
    """Running jobs and rates by events; counts only ever from a snapshot, since an event cannot know them.

    Memory is bounded whatever comes in. Nothing here waits or draws.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self.running = RunningJobs()
        self.snapshot: Snapshot | None = None
        self.rates = {name: Ring() for name in COUNTED}
        self.events = Ring()
        # events may have been lost since the last snapshot
        self.gap = False
        # how often that happened
        self.gaps = 0
        # something happened that a snapshot or a list of dead jobs does not show yet
        self.stale = True
        self.dead_changed = 0
        # no events come: rates are made of what snapshots counted
        self.polling = False
        self._counted: dict[datetime, SeriesPoint] = {}
        self._offset = time.time() - steady()

    @property
    def now(self) -> datetime:
        """The store's clock, carried on by this process's steady clock: a wrong clock here does not matter."""
        return datetime.fromtimestamp(self._offset + self._steady(), UTC)

    @property
    def age(self) -> float | None:
        """Seconds since the last snapshot; None before the first."""
        return None if self.snapshot is None else self._steady() - self.snapshot.taken

    def apply(self, batch: EventBatch) -> None:
        """Apply the events of one message; a message that says that others were lost asks for a snapshot."""
        steady = self._steady()
        if batch.gap:
            self.gap = self.stale = True
            self.gaps += 1
        if not batch.events:
            return
        at = self._offset + steady
        self.events.add(steady, len(batch.events))
        rates, running = self.rates, self.running
        for event in batch.events:
            name = event.event
            if (ring := rates.get(name)) is not None:
                ring.add(steady)
            if name in _TOUCH_DEAD:
                self.dead_changed += 1
            if event.token:
                running.apply(event, at, steady)
        self.stale = True

    def adopt(self, snapshot: Snapshot) -> None:
        """Take over a snapshot: counts as they stand in it, running jobs where no newer event spoke."""
        self.running.adopt(snapshot.running, not snapshot.more_running, snapshot.began, self.gap)
        first, self.snapshot = self.snapshot is None, snapshot
        self._offset = snapshot.now.timestamp() - (snapshot.began + snapshot.taken) / 2
        self._count(snapshot, first)
        self.gap = False
        self.stale = False

    def rate(self, name: str) -> float:
        """Return how often per second an event of COUNTED came over the last seconds."""
        return self.rates[name].rate(self._steady(), RATE_WINDOW)

    def event_rate(self) -> float:
        """Return how many events per second came over the last seconds."""
        return self.events.rate(self._steady(), RATE_WINDOW)

    def history(self, name: str, seconds: int) -> list[float]:
        """Return the counts by the second of an event of COUNTED, oldest first."""
        return self.rates[name].tail(self._steady(), seconds)

    def _count(self, snapshot: Snapshot, first: bool) -> None:
        """Make rates of the store's counts by the minute: before the first event, and while none come."""
        for point in snapshot.series:
            before = self._counted.get(point.minute)
            for name, field in _COUNTS.items():
                number = getattr(point, field)
                if first:
                    self._spread(name, point.minute, number, snapshot)
                elif self.polling:
                    self.rates[name].add(snapshot.taken, max(0, number - (getattr(before, field) if before else 0)))
        self._counted = {point.minute: point for point in snapshot.series}

    def _spread(self, name: str, minute: datetime, number: int, snapshot: Snapshot) -> None:
        """Count what happened in a minute before this console looked as if it had happened evenly."""
        start = snapshot.taken - (snapshot.now - minute).total_seconds()
        seconds = range(int(start), min(int(start) + 60, int(snapshot.began)))
        for second in seconds:
            self.rates[name].add(second, number / max(1, len(seconds)))
