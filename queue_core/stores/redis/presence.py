"""Which queues have a key of some name, asked for many of them in few commands.

Most queues are empty most of the time, and then their sets are not there. A server in cluster mode refuses keys of
several slots in one command: there each queue is asked by itself, a page of them at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import ClusterCrossSlotError

from queue_core.errors import StoreRefused
from queue_core.stores.redis.link import Link, chunks

TOGETHER = 1000
"""Keys in one command: some 0.1 ms of Redis."""
DENSE = 8
"""Up to one in so many, those that are there are looked for by halves; beyond, or in parts of so few, one by one."""
PAGE = 50
"""Queues looked at in turn in cluster mode, besides those that had such a key the last time."""


class Presence:
    """Remembers which queues had the key, so that those are not looked for among the others."""

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self._name = name
        self._had: set[str] = set()
        # the server is in cluster mode; the last queue of its last page
        self._apart = False
        self._last = ""

    async def any(self, queues: Sequence[str]) -> bool:
        """Tell whether one of these queues has the key."""
        if not self._apart:
            try:
                return any(await self._count(list(chunks(queues, TOGETHER))))
            except StoreRefused as error:
                self._refused(error)
        return bool(await self.find(queues))

    async def find(self, queues: Sequence[str], whole: bool = False) -> set[str]:
        """Return those that have the key; in cluster mode of a page of them, unless all are wanted."""
        known = [queue for queue in queues if queue in self._had]
        others = [queue for queue in queues if queue not in self._had]
        if not self._apart:
            try:
                found = await self._halve(others)
            except StoreRefused as error:
                self._refused(error)
        if self._apart:
            found = await self._one_by_one(others if whole else self._turn(others))
        self._had = found | await self._one_by_one(known)
        return set(self._had)

    def _refused(self, error: StoreRefused) -> None:
        if not isinstance(error.__cause__, ClusterCrossSlotError):
            raise error
        self._apart = True

    def _turn(self, queues: Sequence[str]) -> Sequence[str]:
        names = sorted(queues)
        turn = [name for name in names if name > self._last] + [name for name in names if name <= self._last]
        self._last = turn[min(PAGE, len(turn)) - 1] if turn else ""
        return turn[:PAGE]

    async def _halve(self, queues: Sequence[str]) -> set[str]:
        parts = list(chunks(queues, TOGETHER))
        found: set[str] = set()
        while parts:
            halves: list[Sequence[str]] = []
            single: list[str] = []
            for part, count in zip(parts, await self._count(parts), strict=True):
                if count == len(part):
                    found.update(part)
                elif count and (len(part) <= DENSE or count * DENSE > len(part)):
                    single += part
                elif count:
                    middle = len(part) // 2
                    halves += [part[:middle], part[middle:]]
            found |= await self._one_by_one(single)
            parts = halves
        return found

    async def _one_by_one(self, queues: Sequence[str]) -> set[str]:
        counts = await self._count([[queue] for queue in queues])
        return {queue for queue, count in zip(queues, counts, strict=True) if count}

    async def _count(self, parts: Sequence[Sequence[str]]) -> list[int]:
        """Return how many queues of each part have the key."""
        if not parts:
            return []
        commands = self._link.batch()
        for part in parts:
            commands.exists(*(self._link.keys.of(queue, self._name) for queue in part))
        return await self._link.send(commands)
