"""The numbers of queues, by which their jobs are stored; a queue never changes its number.

But a failover to a server that lacks the last commits loses the row of a queue that was just made, and its number may
then be given to another one. So whoever writes or claims names the queue, too, and numbers that differ are read again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from queue_core.stores.postgres.lane import Lane
from queue_core.stores.postgres.sql import text_array

AGAIN = 30.0
"""Seconds between two looks at the numbers because nothing was found under one."""


class Numbers:
    """What has been looked up once is remembered."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        # time.monotonic at which all numbers were last read
        self._read_at = float("-inf")

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
            await self._read(lane)
        return self._known.get(queue)

    async def doubt(self, lane: Lane) -> None:
        """Read all numbers again, if that is some time ago: nothing was found under one."""
        if time.monotonic() - self._read_at >= AGAIN:
            await self._read(lane)

    async def _read(self, lane: Lane) -> None:
        rows = await lane.run("sweep/queues")
        self._known = {name: number for name, number, _ in rows}
        self._read_at = time.monotonic()

    def remember(self, rows: Iterable[tuple[str, int]]) -> None:
        """Take down names and numbers that have been read."""
        self._known.update(rows)

    def forget(self, names: Iterable[str]) -> None:
        """Look these queues up again before their numbers are used."""
        for name in names:
            self._known.pop(name, None)
