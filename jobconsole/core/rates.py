"""What snapshots and events add up to over time: rates of events, depths of queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from jobconsole.core.rows import QueueLine
from jobconsole.format.glyphs import Ring
from queue_core.model.events import EventBatch, EventName
from queue_core.model.report import SeriesPoint

COUNTED = {"created": "enqueued", "completed": "completed", "retrying": "retried", "dead": "dead"}
"""Events whose rate is kept, and what the store calls their number in a minute."""


class RateMeter:
    """One ring for each kind of event.

    The store counts exactly, by the minute, but late; events come at once, but some may be lost and some modes send
    only part of them. The difference between the store's count and the events is added at the next look.
    """

    def __init__(self) -> None:
        self.rings = {name: Ring() for name in COUNTED}
        self._minutes: dict[datetime, SeriesPoint] = {}
        # what the store counted more than the rings, at the last look
        self._missing = dict.fromkeys(COUNTED, 0.0)
        self._started = False

    def hear(self, name: str, steady: float) -> None:
        """Count an event."""
        ring = self.rings.get(name)
        if ring is not None:
            ring.add(steady)
            self._missing[name] -= 1

    def update(self, series: Sequence[SeriesPoint], now: datetime, steady: float) -> None:
        """Take the store's counts by the minute as of `now`, which is `steady` seconds by this process's clock."""
        for name, counted in COUNTED.items():
            if self._started:
                self._correct(name, self._grown(series, counted), steady)
            else:
                self._begin(name, series, counted, now, steady)
        self._minutes = {point.minute: point for point in series}
        self._started = True

    def _grown(self, series: Sequence[SeriesPoint], field: str) -> int:
        before = self._minutes
        return sum(
            getattr(point, field) - (getattr(before[point.minute], field) if point.minute in before else 0)
            for point in series
        )

    def _correct(self, name: str, grown: int, steady: float) -> None:
        """Add what was missing at the last look already and has not arrived since; the rest may be on its way."""
        overdue = self._missing[name]
        self._missing[name] += grown
        if overdue > 0:
            self.rings[name].add(steady, overdue)
            self._missing[name] -= overdue
        elif overdue < 0 and self._missing[name] < 0:
            # Events of before the first look, or some that came twice: they are no debt of later ones.
            self._missing[name] = 0.0

    def _begin(self, name: str, series: Sequence[SeriesPoint], field: str, now: datetime, steady: float) -> None:
        """Count what happened before the first look as if each minute had been even."""
        self._missing[name] = 0.0
        ring = self.rings[name]
        for point in series:
            counted: int = getattr(point, field)
            if not counted:
                continue
            start = int(steady - (now - point.minute).total_seconds())
            seconds = range(start, min(start + 60, int(steady)))
            for second in seconds:
                ring.add(second, counted / len(seconds))


KEPT_DEPTHS = 60
"""Depths that are kept of a queue."""
DEPTH_SECONDS = 60.0
"""Between two of them: together an hour."""
MAX_QUEUES = 1_000
"""Queues that are recorded."""
RATE_SECONDS = 10
"""Over which the rate of a queue is averaged."""


class QueueHistory:
    """Depth by the minute and completed jobs by the second, for each queue."""

    def __init__(self) -> None:
        self._depths: dict[str, deque[float]] = {}
        self._rates: dict[str, Ring] = {}
        self._sampled: float | None = None

    def hear(self, batch: EventBatch, steady: float) -> None:
        """Count what was completed."""
        done = sum(event.event == EventName.COMPLETED for event in batch.events)
        ring = self._rates.get(batch.queue)
        if ring is None:
            if not done or len(self._rates) >= MAX_QUEUES:
                return
            ring = self._rates[batch.queue] = Ring(2 * RATE_SECONDS)
        ring.add(steady, done)

    def update(self, queues: Sequence[QueueLine], steady: float) -> tuple[QueueLine, ...]:
        """Return the queues with their rate and history; the depths are kept once a minute."""
        due = self._sampled is None or steady - self._sampled >= DEPTH_SECONDS
        if due:
            self._sampled = steady
            names = {queue.name for queue in queues}
            self._depths = {name: kept for name, kept in self._depths.items() if name in names}
        return tuple(self._with_history(queue, steady, due) for queue in queues)

    def _with_history(self, queue: QueueLine, steady: float, due: bool) -> QueueLine:
        if due and (queue.name in self._depths or len(self._depths) < MAX_QUEUES):
            self._depths.setdefault(queue.name, deque(maxlen=KEPT_DEPTHS)).append(queue.queued)
        ring = self._rates.get(queue.name)
        history = (*self._depths.get(queue.name, ()), float(queue.queued))
        return replace(queue, rate=ring.rate(steady, RATE_SECONDS) if ring else 0.0, history=history)
