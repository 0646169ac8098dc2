"""Totals, gathered while a transaction does its work and written at its end, a row for each kind of outcome."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from queue_core.inspection import HISTOGRAM_BOUNDS
from queue_core.stores.sqlite.link import Transaction

_BOUNDS_US = [round(bound * 1_000_000) for bound in HISTOGRAM_BOUNDS]
_SERIES = frozenset({"enqueued", "completed", "retried", "dead"})
NOT_MEASURED = -1


def bucket(microseconds: int | None) -> int:
    """Return the index of the first bound that is not below the time."""
    return NOT_MEASURED if microseconds is None else bisect_left(_BOUNDS_US, microseconds)


class Tallying:
    """Counts by queue, type, outcome and buckets, by minute, and deaths by signature."""

    def __init__(self) -> None:
        # (queue, type, outcome, wait bucket, run bucket) -> [n, wait_us, run_us]
        self._sums: dict[tuple[int, str, str, int, int], list[int]] = {}
        self._deaths: Counter[tuple[str, int]] = Counter()

    def note(
        self,
        queue_id: int,
        type_: str,
        outcome: str,
        *,
        wait_us: int | None = None,
        run_us: int | None = None,
        n: int = 1,
    ) -> None:
        """Count an outcome, with its times where they were measured."""
        key = (queue_id, type_, outcome, bucket(wait_us), bucket(run_us))
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = [0, 0, 0]
        found[0] += n
        found[1] += wait_us or 0
        found[2] += run_us or 0

    def death(self, queue_id: int, signature: str) -> None:
        """Count a death under its signature."""
        self._deaths[signature, queue_id] += 1

    def write(self, transaction: Transaction) -> None:
        """Add everything to the totals."""
        minute = int(transaction.now // 60)
        series: Counter[tuple[int, str]] = Counter()
        for (queue_id, _, outcome, _, _), (n, _, _) in self._sums.items():
            if outcome in _SERIES:
                series[queue_id, outcome] += n
        transaction.run_many("settle/tally", [(*key, *sums) for key, sums in self._sums.items()])
        transaction.run_many("settle/tally_minute", [(minute, *key, n) for key, n in series.items()])
        transaction.run_many("settle/tally_death", [(minute, *key, n) for key, n in self._deaths.items()])
