"""Which job types get a label of their own: a few, always the same ones, and the rest is `other`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from queue_core.inspection import Tally, WorkerInfo
from queue_core.text import safe

MOST_TYPES = 100
"""Labels of types; each costs some 25 time series, and who enqueues chooses the names."""
LONGEST = 120
"""Characters of a label."""
OTHER = "other"


class TypeNames:
    """Chooses labels and keeps to them: a type that moved to `other` later would make two counters wrong."""

    def __init__(self, allowed: Collection[str] = (), most: int = MOST_TYPES) -> None:
        self._allowed = frozenset(allowed)
        self._most = most
        self._chosen: dict[str, str] = {}

    def label(self, tallies: Iterable[Tally], workers: Iterable[WorkerInfo]) -> Mapping[str, str]:
        """Return the label of every type in the tallies or announced by a worker.

        Without an allow-list, types that workers announce come first, then those with the most jobs.
        """
        counts: Counter[str] = Counter()
        for tally in tallies:
            counts[tally.type] += tally.count
        announced = {name for worker in workers for name in worker.types or ()}
        names = sorted(counts.keys() | announced, key=lambda name: (name not in announced, -counts[name], name))
        for name in names:
            if name not in self._chosen and self._may(name):
                self._chosen[name] = safe(name, LONGEST)
        return {name: self._chosen.get(name, OTHER) for name in names}

    def _may(self, name: str) -> bool:
        return name in self._allowed if self._allowed else len(self._chosen) < self._most
