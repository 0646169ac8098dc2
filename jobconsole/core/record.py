"""What queues were like over the last hour, in a bounded record for sparklines and rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from jobconsole.core.rows import QueueLine
from jobconsole.core.series import Ring
from queue_core.events import EventBatch, EventName

SAMPLES = 60
"""Depths that are kept of a queue."""
EVERY_SECONDS = 60.0
"""Between two of them: together an hour."""
QUEUES = 1_000
"""Queues that are recorded."""
RATE_SECONDS = 10
"""Over which the rate of a queue is averaged."""


class Record:
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
            if not done or len(self._rates) >= QUEUES:
                return
            ring = self._rates[batch.queue] = Ring(2 * RATE_SECONDS)
        ring.add(steady, done)

    def look(self, queues: Sequence[QueueLine], steady: float) -> tuple[QueueLine, ...]:
        """Return the queues with their rate and history; the depths are kept once a minute."""
        due = self._sampled is None or steady - self._sampled >= EVERY_SECONDS
        if due:
            self._sampled = steady
            names = {queue.name for queue in queues}
            self._depths = {name: kept for name, kept in self._depths.items() if name in names}
        return tuple(self._told(queue, steady, due) for queue in queues)

    def _told(self, queue: QueueLine, steady: float, due: bool) -> QueueLine:
        if due and (queue.name in self._depths or len(self._depths) < QUEUES):
            self._depths.setdefault(queue.name, deque(maxlen=SAMPLES)).append(queue.queued)
        ring = self._rates.get(queue.name)
        history = (*self._depths.get(queue.name, ()), float(queue.queued))
        return replace(queue, rate=ring.rate(steady, RATE_SECONDS) if ring else 0.0, history=history)
