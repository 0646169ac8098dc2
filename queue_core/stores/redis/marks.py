"""Members of operations, and which of them an operation has changed: a text with a 1 at the place of each."""

from __future__ import annotations

from collections.abc import Sequence

from queue_core.operations import MemberJob
from queue_core.stores.redis.link import CHUNK, Link, chunks
from queue_core.stores.redis.operationrows import Member, member_of

LOOK = 10_000
"""Marks looked at in one go."""


class Members:
    """Reads the members of operations."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def range(self, number: int, first: int, last: int) -> list[Member]:
        """Return members between two places, from 0, both included."""
        key, found = self._link.keys.operation(number, "members"), []
        for start in range(first, last + 1, LOOK):
            commands = self._link.batch()
            commands.lrange(key, start, min(last, start + LOOK - 1))
            found += (await self._link.send(commands))[0]
        return [member_of(text) for text in found]

    async def changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return members that were changed, in their order, behind a place."""
        places: list[int] = []
        first, size = max(after, 0), await self._size(number)
        while first < size and len(places) < limit:
            places += await self._marked(number, first, first + LOOK - 1)
            first += LOOK
        return await self._at(number, places[: max(limit, 0)])

    async def last_changed(self, number: int, last: int) -> list[MemberJob]:
        """Return the last members that were changed, in their order."""
        places: list[int] = []
        end = await self._size(number)
        while end > 0 and len(places) < last:
            places = await self._marked(number, max(0, end - LOOK), end - 1) + places
            end -= LOOK
        return await self._at(number, places[-last:] if last > 0 else [])

    async def note(self, number: int, ids: Sequence[str], changed: bool = True) -> None:
        """Note with jobs that an operation has changed them, or that it has not."""
        for part in chunks(ids):
            commands = self._link.batch()
            for key in self._link.keys.changes(part):
                if changed:
                    commands.zadd(key, {str(number): number})
                else:
                    commands.zrem(key, number)
            await self._link.send(commands)

    async def _size(self, number: int) -> int:
        commands = self._link.batch()
        commands.strlen(self._link.keys.operation(number, "marks"))
        return int((await self._link.send(commands))[0])

    async def _marked(self, number: int, first: int, last: int) -> list[int]:
        """Return the places of marks between two places."""
        commands = self._link.batch()
        commands.getrange(self._link.keys.operation(number, "marks"), first, last)
        (marks,) = await self._link.send(commands)
        return [place for place, mark in enumerate(marks, first) if mark == "1"]

    async def _at(self, number: int, places: Sequence[int]) -> list[MemberJob]:
        """Return the members at places in ascending order."""
        found: list[MemberJob] = []
        for part in chunks(places, CHUNK):
            key, commands = self._link.keys.operation(number, "members"), self._link.batch()
            spans = _spans(part)
            for first, last in spans:
                commands.lrange(key, first, last)
            for (first, _), texts in zip(spans, await self._link.send(commands), strict=True):
                members = enumerate(map(member_of, texts), first + 1)
                found += [MemberJob(place, member.id, member.queue) for place, member in members]
        return found


def _spans(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of places without gaps."""
    spans: list[tuple[int, int]] = []
    for place in places:
        if spans and spans[-1][1] == place - 1:
            spans[-1] = (spans[-1][0], place)
        else:
            spans.append((place, place))
    return spans
