"""How often things happen: at once by events, and put right by what the store counted, where events are lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jobconsole.core.series import Ring
from queue_core.inspection import SeriesPoint

COUNTED = {"created": "enqueued", "completed": "completed", "retrying": "retried", "dead": "dead"}
"""Events whose rate is kept, and what the store calls their number in a minute."""


class Rates:
    """One ring for each kind of event.

    The store counts exactly, by the minute, but late; events come at once, but some may be lost and some modes send
    only part of them. What the store has counted and no event said by the next look is added at that time.
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

    def look(self, series: Sequence[SeriesPoint], now: datetime, steady: float) -> None:
        """Take the store's counts by the minute as they stand `now`, which is `steady` by this process's clock."""
        for name, field in COUNTED.items():
            if self._started:
                self._correct(name, self._grown(series, field), steady)
            else:
                self._begin(name, series, field, now, steady)
        self._minutes = {point.minute: point for point in series}
        self._started = True

    def _grown(self, series: Sequence[SeriesPoint], field: str) -> int:
        before = self._minutes
        return sum(
            getattr(point, field) - (getattr(before[point.minute], field) if point.minute in before else 0)
            for point in series
        )

    def _correct(self, name: str, grown: int, steady: float) -> None:
        """Add what was missing at the last look already and has not been heard since; the rest may be on its way."""
        overdue = self._missing[name]
        self._missing[name] += grown
        if overdue > 0:
            self.rings[name].add(steady, overdue)
            self._missing[name] -= overdue
        elif overdue < 0 and self._missing[name] < 0:
            # Events of before the first look, or some that came twice: they are no debt of later ones.
            self._missing[name] = 0.0

    def _begin(self, name: str, series: Sequence[SeriesPoint], field: str, now: datetime, steady: float) -> None:
        """Count what happened before anybody looked as if each minute had been even."""
        self._missing[name] = 0.0
        for point in series:
            start = int(steady - (now - point.minute).total_seconds())
            seconds = range(start, min(start + 60, int(steady)))
            for second in seconds:
                self.rings[name].add(second, getattr(point, field) / len(seconds))
