"""Which types live workers have handlers for, queue by queue: decided alike by every store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable


class Announced:
    """What live workers announced, each as its queues and its types, or None for every type."""

    def __init__(self, workers: Iterable[tuple[Collection[str], Collection[str] | None]]) -> None:
        self._every: set[str] = set()
        self._types: dict[str, set[str]] = {}
        for queues, types in workers:
            for queue in queues:
                if types is None:
                    self._every.add(queue)
                else:
                    self._types.setdefault(queue, set()).update(types)

    def of(self, queue: str) -> frozenset[str] | None:
        """Return the types of a queue that somebody runs; None: every type."""
        return None if queue in self._every else frozenset(self._types.get(queue, ()))

    def has(self, queue: str, type_: str) -> bool:
        """Tell whether somebody runs this type from this queue."""
        return queue in self._every or type_ in self._types.get(queue, ())

    def orphans(self, waiting: Iterable[tuple[tuple[str, str], int]]) -> dict[str, int]:
        """Return, of waiting jobs counted by queue and type, those that nobody runs, by type."""
        found: Counter[str] = Counter()
        for (queue, type_), n in waiting:
            if not self.has(queue, type_):
                found[type_] += n
        return dict(found)
