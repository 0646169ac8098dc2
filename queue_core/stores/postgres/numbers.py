"""The numbers of queues, by which their jobs are stored; a queue never changes its number."""

from __future__ import annotations

from collections.abc import Iterable

from queue_core.stores.postgres.lane import Lane
from queue_core.stores.postgres.sql import text_array


class Numbers:
    """What has been looked up once is remembered."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    async def create(self, names: set[str], lane: Lane) -> dict[str, int]:
        """Return the numbers of queues, among others, after creating those that do not exist."""
        missing = sorted(names - self._known.keys())
        if missing:
            for name, number in await lane.run("insert/queues", {"names": text_array(missing)}):
                self._known[name] = number
        if not names <= self._known.keys():
            return await self.create(names, lane)  # another producer was creating the same queue at this moment
        return self._known

    async def find(self, queue: str, lane: Lane) -> int | None:
        """Return the number of a queue, or None when there is no such queue."""
        if queue not in self._known:
            self.remember((name, number) for name, number, _ in await lane.run("sweep/queues"))
        return self._known.get(queue)

    def remember(self, rows: Iterable[tuple[str, int]]) -> None:
        """Take down names and numbers that have been read."""
        self._known.update(rows)
