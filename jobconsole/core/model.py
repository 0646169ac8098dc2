"""The console's state between two snapshots: an event only updates dictionaries here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from jobconsole.core.events import EventTail
from jobconsole.core.latency import Latency
from jobconsole.core.progress import ActiveOperations
from jobconsole.core.rates import QueueHistory, RateMeter
from jobconsole.core.running import RunningJobs
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.glyphs import Ring
from queue_core.model.events import EventBatch

RATE_WINDOW = 5
"""Seconds over which a rate is averaged."""


class Model:
    """Running jobs and rates by events; counts only from a snapshot, since events do not carry them.

    Memory is bounded whatever comes in. Nothing here waits or draws.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self.running = RunningJobs()
        self.snapshot: Snapshot | None = None
        self.rate_meter = RateMeter()
        self.events = Ring()
        self.event_tail = EventTail()
        self.latency = Latency()
        self.queue_history = QueueHistory()
        self.active_operations = ActiveOperations(steady)
        # events may have been lost since the last snapshot
        self.gap = False
        # something happened that the last snapshot does not show
        self.stale = True
        self._offset = time.time() - steady()
        self._began = steady()

    @property
    def now(self) -> datetime:
        """The store's clock, carried on by this process's steady clock: a wrong clock here does not matter."""
        return datetime.fromtimestamp(self._offset + self._steady(), UTC)

    @property
    def heard_since(self) -> datetime:
        """When this process began to listen for events, by the store's clock."""
        return datetime.fromtimestamp(self._offset + self._began, UTC)

    @property
    def age(self) -> float | None:
        """Seconds since the last snapshot; None before the first."""
        return None if self.snapshot is None else self._steady() - self.snapshot.taken

    def apply(self, batch: EventBatch) -> None:
        """Apply the events of one message; a message that reports lost events asks for a snapshot."""
        steady = self._steady()
        if batch.gap:
            self.gap = self.stale = True
        if not batch.events:
            return
        at = self._offset + steady
        self.events.add(steady, len(batch.events))
        self.event_tail.add(batch)
        self.queue_history.hear(batch, steady)
        rates, running = self.rate_meter, self.running
        for event in batch.events:
            name = event.event
            rates.hear(name, steady)
            if event.token:
                running.apply(event, at, steady)
        self.stale = True

    def adopt(self, snapshot: Snapshot) -> None:
        """Adopt a snapshot: its counts as they are, its running jobs where no newer event contradicts."""
        self.running.adopt(snapshot.running, not snapshot.more_running, snapshot.began, self.gap)
        self.snapshot = replace(snapshot, queues=self.queue_history.update(snapshot.queues, snapshot.taken))
        self._offset = snapshot.now.timestamp() - (snapshot.began + snapshot.taken) / 2
        self.rate_meter.update(snapshot.series, snapshot.now, snapshot.taken)
        self.gap = False
        self.stale = False

    def rate(self, name: str) -> float:
        """Return how often per second an event of COUNTED came over the last seconds."""
        return self.rate_meter.rings[name].rate(self._steady(), RATE_WINDOW)

    def event_rate(self) -> float:
        """Return how many events per second came over the last seconds."""
        return self.events.rate(self._steady(), RATE_WINDOW)

    def history(self, name: str, seconds: int) -> list[float]:
        """Return the counts by the second of an event of COUNTED, oldest first."""
        return self.rate_meter.rings[name].tail(self._steady(), seconds)
