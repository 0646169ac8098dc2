"""Run times and failures by type since this console began to read, from the exact totals of the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from jobconsole.core.rows import LONGEST_NAME
from queue_core.model.report import HISTOGRAM_BOUNDS, Tally
from queue_core.model.text import safe

KEPT_SECONDS = 900.0
"""How far back the totals are kept against which the newest ones are held."""
EVERY_SECONDS = 60.0
"""Between two totals that are kept."""
NARROW = 2.5
"""Times in a bucket that ends at so many times its beginning, or less, are taken as evenly spread."""
_ENDED = frozenset({"completed", "retried", "dead"})


@dataclass(slots=True)
class TypeTotals:
    """Totals of one type's attempts, by outcome."""

    completed: int = 0
    failed: int = 0
    # index into HISTOGRAM_BOUNDS -> attempts
    buckets: dict[int, int] = field(default_factory=dict)

    def minus(self, older: TypeTotals) -> TypeTotals:
        """Return what has happened since an older reading."""
        buckets = {index: count - older.buckets.get(index, 0) for index, count in self.buckets.items()}
        return TypeTotals(self.completed - older.completed, self.failed - older.failed, buckets)


class Quantile(NamedTuple):
    """The time within which a part of the attempts ended: about so many seconds, or only that it is less or more."""

    seconds: float
    bound: Literal["", "<", ">"] = ""


@dataclass(frozen=True, slots=True)
class TypeLine:
    """One type as a list shows it; None where nothing ended."""

    type: str
    ended: int
    failed: int
    p50: Quantile | None
    p95: Quantile | None
    p99: Quantile | None

    @property
    def ratio(self) -> float:
        """Which part of the attempts failed."""
        return self.failed / self.ended if self.ended else 0.0


class Latency:
    """Totals of the last minutes; what is shown is the newest less the oldest."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, dict[str, TypeTotals]]] = deque()
        self._newest: tuple[float, dict[str, TypeTotals]] | None = None

    def update(self, tallies: Iterable[Tally], steady: float) -> None:
        """Take the totals as they were just read."""
        totals = by_type(tallies)
        self._newest = (steady, totals)
        if not self._kept or steady - self._kept[-1][0] >= EVERY_SECONDS:
            self._kept.append((steady, totals))
        while len(self._kept) > 1 and steady - self._kept[0][0] > KEPT_SECONDS:
            self._kept.popleft()

    @property
    def seconds(self) -> float:
        """Over how long what is shown was counted; 0 before there are two readings: then it is of all time."""
        return self._newest[0] - self._kept[0][0] if self._newest and self._recent() else 0.0

    def lines(self) -> list[TypeLine]:
        """Return the types that ended attempts, those that fail most first, then the slowest."""
        if self._newest is None:
            return []
        totals = self._recent() or self._newest[1]
        found = [type_line(name, one) for name, one in totals.items()]
        return sorted(
            (line for line in found if line.ended),
            key=_order,
        )

    def _recent(self) -> dict[str, TypeTotals]:
        """What has happened since the oldest reading; nothing when nothing ended since."""
        if self._newest is None:
            return {}
        older = self._kept[0][1]
        fresh = {name: one.minus(older.get(name, TypeTotals())) for name, one in self._newest[1].items()}
        return {name: one for name, one in fresh.items() if one.completed + one.failed > 0}


def _order(line: TypeLine) -> tuple[float, float, str]:
    """Those that fail most come first, then the slowest."""
    return -line.ratio, 0.0 if line.p95 is None else -line.p95.seconds, line.type


def by_type(tallies: Iterable[Tally]) -> dict[str, TypeTotals]:
    """Return the totals of each type over all queues."""
    found: dict[str, TypeTotals] = {}
    for tally in tallies:
        if tally.outcome not in _ENDED:
            continue
        one = found.setdefault(tally.type, TypeTotals())
        if tally.outcome == "completed":
            one.completed += tally.count
        else:
            one.failed += tally.count
        for index, count in tally.run_buckets.items():
            one.buckets[index] = one.buckets.get(index, 0) + count
    return found


def type_line(name: str, totals: TypeTotals) -> TypeLine:
    """Return a type as a list shows it."""
    p50, p95, p99 = (quantile(totals.buckets, part) for part in (0.5, 0.95, 0.99))
    return TypeLine(safe(name, LONGEST_NAME), totals.completed + totals.failed, totals.failed, p50, p95, p99)


def quantile(buckets: Mapping[int, int], part: float, bounds: Sequence[float] = HISTOGRAM_BOUNDS) -> Quantile | None:
    """Return the time within which a part of the attempts ended, evenly spread within a narrow bucket; None for none.

    Of a wide one its end alone is known, and beyond the last bound only that it was more.
    """
    total = sum(buckets.values())
    if total <= 0:
        return None
    left = part * total
    for index in sorted(buckets):
        count = buckets[index]
        if count and left <= count:
            if index >= len(bounds):
                break
            low, high = bounds[index - 1] if index else 0.0, bounds[index]
            if low and high > NARROW * low:
                return Quantile(high, "<")
            return Quantile(low + (high - low) * left / count)
        left -= count
    return Quantile(bounds[-1], ">")


WINDOWS: tuple[float, ...] = (300.0, 900.0, 3600.0, 21_600.0, 86_400.0)
"""Seconds; a minute is the smallest time that a store knows growth for."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def next_window(seconds: float) -> float:
    """Return the next longer window, and the shortest after the longest."""
    return next((window for window in WINDOWS if window > seconds), WINDOWS[0])


def word(seconds: float) -> str:
    """Return 5m, 15m, 1h, 6h or 1d."""
    whole = round(seconds)
    return next((f"{whole // size}{unit}" for size, unit in _UNITS if whole % size == 0 and whole >= size), f"{whole}s")
