"""The members of operations in a list, what they have changed in a text of marks; how operations move, and go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from queue_core.model.operation import ABANDONED_SECONDS, ENDED, MOVES, NEVER_STARTED, OperationState
from queue_core.ports.operations import MemberJob
from queue_core.redis.scripts import Call
from queue_core.stores.redis.records import FrozenMember, member_of, note_text, operation_of
from queue_core.stores.redis.session import JOBS_PER_SCRIPT, RedisLink, chunks

MARKS_STEP = 10_000
"""Marks read in one go."""
OPERATION_ROUNDS = 20
"""Parts of members, or of operations, that are looked at in one go."""


class Members:
    """Reads the members of operations."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def range(self, number: int, first: int, last: int) -> list[FrozenMember]:
        """Return members between two places, from 0, both included."""
        key, found = self._link.keys.operation(number, "members"), []
        for start in range(first, last + 1, MARKS_STEP):
            commands = self._link.batch()
            commands.lrange(key, start, min(last, start + MARKS_STEP - 1))
            found += (await self._link.send(commands))[0]
        return [member_of(text) for text in found]

    async def list_changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return members that were changed, in their order, behind a place."""
        places: list[int] = []
        first, size = max(after, 0), await self._size(number)
        while first < size and len(places) < limit:
            places += await self._marked(number, first, first + MARKS_STEP - 1)
            first += MARKS_STEP
        return await self._at(number, places[: max(limit, 0)])

    async def list_last_changed(
        self, number: int, last: int, behind: int = 0, until: int | None = None
    ) -> list[MemberJob]:
        """Return the last members that were changed, in their order: of all, or of those between two places."""
        places: list[int] = []
        size = await self._size(number)
        end = size if until is None else min(until, size)
        while end > behind and len(places) < last:
            places = await self._marked(number, max(0, behind, end - MARKS_STEP), end - 1) + places
            end -= MARKS_STEP
        return await self._at(number, places[-last:] if last > 0 else [])

    async def note(self, number: int, ids: Sequence[str], changed: bool = True) -> None:
        """Note with jobs that an operation has changed them, or that it has not."""
        for part in chunks(ids):
            commands = self._link.batch()
            for key in self._link.keys.operations_of(part):
                if changed:
                    commands.zadd(key, {str(number): number})
                else:
                    commands.zrem(key, number)
            await self._link.send(commands)

    async def _size(self, number: int) -> int:
        commands = self._link.batch()
        commands.strlen(self._link.keys.operation(number, "changed"))
        return int((await self._link.send(commands))[0])

    async def _marked(self, number: int, first: int, last: int) -> list[int]:
        """Return the places of marks between two places."""
        commands = self._link.batch()
        commands.getrange(self._link.keys.operation(number, "changed"), first, last)
        (marks,) = await self._link.send(commands)
        return [place for place, mark in enumerate(marks, first) if mark == "1"]

    async def _at(self, number: int, places: Sequence[int]) -> list[MemberJob]:
        """Return the members at places in ascending order."""
        found: list[MemberJob] = []
        for part in chunks(places, JOBS_PER_SCRIPT):
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


def state_keys(link: RedisLink, number: int) -> list[str]:
    """Return the keys of an operation that may end: its hash, those that have not ended, those that have."""
    return [link.keys.operation(number), link.keys.operations_in("unfinished"), link.keys.operations_in("ended")]


def move_call(
    link: RedisLink, number: int, state: OperationState, note: str,
    unchanged: int | None = None, members: int | None = None, release: str | None = None,
) -> Call:  # fmt: skip
    """Return the script that moves an operation.

    It does only when nothing has changed it for so many us, and when it has so many members, if these are given.
    `release`: which it waits for before its first step.
    """
    keys = [*state_keys(link, number), link.keys.operations_in("preparing")]
    keys += [link.keys.operation(number, name) for name in ("ids", "changed")]
    from_states = [before for before, after in MOVES.items() if state in after]
    if unchanged is not None:
        from_states = ["preparing"]
    conditions = ["" if one is None else one for one in (unchanged, members, release)]
    end = "1" if state in ENDED else ""
    return Call("operation_move", keys, [number, state, end, note_text(note), *conditions, *from_states])


ABANDONED_US = round(ABANDONED_SECONDS * 1e6)


async def abandon_operations(link: RedisLink, now: int) -> None:
    """Cancel operations that are still preparing long after their last change."""
    preparing = await older_operations(link, "preparing", now - ABANDONED_US)
    await link.run_many([move_call(link, number, "cancelled", NEVER_STARTED, ABANDONED_US) for number in preparing])


async def older_operations(link: RedisLink, name: str, until: int) -> list[int]:
    commands = link.batch()
    commands.zrangebyscore(link.keys.operations_in(name), "-inf", f"({until}", start=0, num=JOBS_PER_SCRIPT)
    (numbers,) = await link.send(commands)
    return [int(number) for number in numbers]


class OperationRemoval:
    """One bounded round at a time."""

    def __init__(self, link: RedisLink, kept: float | None) -> None:
        self._link = link
        # us that ended operations are kept; None: for ever
        self._kept = None if kept is None else round(kept * 1e6)

    async def run(self, now: int) -> None:
        """Cancel abandoned operations; delete those that ended before the retention."""
        await abandon_operations(self._link, now)
        if self._kept is None:
            return
        rounds = OPERATION_ROUNDS
        for number in await older_operations(self._link, "ended", now - self._kept):
            rounds -= await self.forget(number, rounds)
            if rounds <= 0:
                break

    async def forget(self, number: int, rounds: int = OPERATION_ROUNDS) -> int:
        """Delete an operation, or as many of its members; return how many parts of them there were."""
        await self._hide(number)
        keys = self._link.keys
        members = keys.operation(number, "members")
        for done in range(rounds):
            commands = self._link.batch()
            commands.lrange(members, 0, JOBS_PER_SCRIPT - 1)
            (texts,) = await self._link.send(commands)
            commands = self._link.snapshot()
            for key in keys.operations_of(member_of(text).id for text in texts):
                commands.zrem(key, number)
            commands.ltrim(members, len(texts), -1)
            if len(texts) < JOBS_PER_SCRIPT:
                # Last, since until then the next round continues here.
                commands.zrem(keys.operations_in("ended"), number)
                await self._link.send(commands)
                return done + 1
            await self._link.send(commands)
        return rounds

    async def _hide(self, number: int) -> None:
        """Remove an operation from the lists."""
        keys = self._link.keys
        commands = self._link.batch()
        commands.hgetall(keys.operation(number))
        (row,) = await self._link.send(commands)
        signatures: Iterable[str] = operation_of(number, row).request.signatures if row else ()
        commands = self._link.snapshot()
        commands.unlink(keys.operation(number), *(keys.operation(number, name) for name in ("ids", "changed")))
        names = ["unfinished", "preparing", "uncounted", *(f"of:{signature}" for signature in signatures)]
        for key in (keys.operations, *map(keys.operations_in, names)):
            commands.zrem(key, number)
        await self._link.send(commands)
