"""Hints beside the queues: which has something due when, and where a lease may end when. They are never the truth.

They spare the leader from reading each queue. Their sets have hash tags of their own, and a cluster refuses them
in one script or transaction with the keys of a queue, so that a crash in between loses a hint. A repair finds it again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from redis.exceptions import ClusterCrossSlotError

from queue_core.errors import StoreRefused, StoreUnavailable
from queue_core.stores.redis.delivery import DUE
from queue_core.stores.redis.session import RedisLink, chunks, microseconds

logger = logging.getLogger("queue_core.worker")


# Which queues have a key of some name, asked for many of them in few commands.
#
# Most queues are empty most of the time, and then their sets are not there. A server in cluster mode refuses keys of
# several slots in one command: there each queue is asked by itself, a page of them at a time.

KEYS_PER_COMMAND = 1000
"""Keys in one command: some 0.1 ms of Redis."""
DENSE_ONE_IN = 8
"""Up to one in so many, those that are there are looked for by halves; beyond, or in parts of so few, one by one."""
PRESENCE_PAGE = 50
"""Queues looked at in turn in cluster mode, besides those that had such a key the last time."""


class Presence:
    """Remembers which queues had the key, so that those are not looked for among the others."""

    def __init__(self, link: RedisLink, name: str) -> None:
        self._link = link
        self._name = name
        self._had: set[str] = set()
        # the server is in cluster mode; the last queue of its last page
        self._apart = False
        self._last = ""

    async def any(self, queues: Sequence[str]) -> bool:
        """Return whether one of these queues has the key."""
        if not self._apart:
            try:
                return any(await self._count(list(chunks(queues, KEYS_PER_COMMAND))))
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
        # Older versions of the client have the class only for their own client of a cluster.
        if not isinstance(error.__cause__, ClusterCrossSlotError) and not error.reason.startswith("CROSSSLOT"):
            raise error
        self._apart = True

    def _turn(self, queues: Sequence[str]) -> Sequence[str]:
        names = sorted(queues)
        turn = [name for name in names if name > self._last] + [name for name in names if name <= self._last]
        self._last = turn[min(PRESENCE_PAGE, len(turn)) - 1] if turn else ""
        return turn[:PRESENCE_PAGE]

    async def _halve(self, queues: Sequence[str]) -> set[str]:
        parts = list(chunks(queues, KEYS_PER_COMMAND))
        found: set[str] = set()
        while parts:
            halves: list[Sequence[str]] = []
            single: list[str] = []
            for part, count in zip(parts, await self._count(parts), strict=True):
                if count == len(part):
                    found.update(part)
                elif count and (len(part) <= DENSE_ONE_IN or count * DENSE_ONE_IN > len(part)):
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


REPAIR_INTERVAL = 10.0
"""Seconds between two repairs. The leader does such upkeep each second, or each 20 s while idle."""
QUEUES_PER_REPAIR = 50
"""Queues with a hint that one repair checks, in turn: the hint may be too late. All queues without one are checked."""
MAX_QUEUES = 1000
"""Queues taken at a time."""
KNOWN_SHARE = 0.8
"""Part of the time until a queue is looked at for which a process does not note again that it has leases: a look that
finds none removes the hint, so that a process that claims during this read must not rely on it."""

WAITING = ("scheduled", "retrying")


class FirstTimes(NamedTuple):
    """The earliest hints, in microseconds of the server's clock."""

    now: int
    due: float | None
    lease: float | None


class DueQueues(NamedTuple):
    """Queues to be looked at, as of a time in microseconds."""

    now: int
    queues: list[str]


class _Kind:
    """One set of hints, and the sets of a queue that it describes."""

    def __init__(self, link: RedisLink, name: str, sets: Sequence[str]) -> None:
        self.key = link.keys.hints(name)
        self.sets = sets
        self.presence = [Presence(link, one) for one in sets]
        # the last queue of those that had a hint whose hint was compared
        self.last = ""

    def turn(self, queues: Iterable[str]) -> list[str]:
        """Return the next page of these queues."""
        names = sorted(queues)
        turn = [name for name in names if name > self.last] + [name for name in names if name <= self.last]
        self.last = turn[min(QUEUES_PER_REPAIR, len(turn)) - 1] if turn else ""
        return turn[:QUEUES_PER_REPAIR]


class DueHints:
    """Anybody notes; the leader takes the queues whose time has come, looks at them, and puts them back."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._due = _Kind(link, "due", WAITING)
        self._leases = _Kind(link, "leases", ("running",))
        # queue -> time.monotonic until which its hint is known to be there, and by which the hint's time has come
        self._known: dict[str, tuple[float, float]] = {}
        self._putting: asyncio.Task[None] | None = None
        # hints may have been lost: all queues are looked at in the next repair
        self.doubtful = True
        self._repaired_at = float("-inf")

    def forget(self) -> None:
        """Know of no hint that it is there."""
        self._known.clear()
        self.doubtful = True

    # -- noting

    async def due(self, times: Mapping[str, int]) -> None:
        """Note when queues have something due, in microseconds. What cannot be noted now, a repair notes."""
        if times:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._link.seconds_apart):
                    await self._note(self._due, times, self._link.keys.notifications, "")

    async def waiting(self, queues: Iterable[str]) -> None:
        """Note what is due in queues in which it is not known."""
        with suppress(StoreUnavailable):
            await self.due({queue: at for queue, at in (await self._firsts(self._due, queues)).items() if at})

    async def leased(self, queue: str, lease: float) -> None:
        """Note that a queue is about to have a lease of so many seconds, unless this process has lately.

        What others have noted may be looked at, and removed, before that: the hint is known until then and no longer.
        """
        now = time.monotonic()
        until, ends = self._known.get(queue, (now, now))
        if now < until and ends <= now + lease:
            return
        self._known.pop(queue, None)
        noted = await self._note(self._leases, {queue: round(lease * 1e6)}, "", "1")
        if noted is not None:
            self._known[queue] = now + KNOWN_SHARE * noted, time.monotonic() + noted

    async def ended(self, queues: Iterable[str]) -> None:
        """Note that leases have ended in these queues."""
        if times := dict.fromkeys(queues, 0):
            await self._note(self._leases, times, self._link.keys.notifications, "1")

    async def _note(self, kind: _Kind, times: Mapping[str, int], channel: str, from_now: str) -> float | None:
        """Note times; return the seconds until the last of these queues is looked at, None where that failed."""
        pairs = (part for queue, at in times.items() for part in (at, queue))
        try:
            now, at = await self._link.run("hint", [kind.key], [channel, DUE, from_now, *pairs])
        except StoreUnavailable:
            return None
        return (float(at) - float(now)) / 1e6

    # -- the leader

    async def first(self) -> FirstTimes:
        """Return the earliest hints."""
        await self.settled()
        commands = self._link.batch()
        for kind in (self._due, self._leases):
            commands.zrange(kind.key, 0, 0, withscores=True)
        commands.time()
        try:
            due, lease, now = await self._link.send(commands)
        except StoreRefused:
            await self._remove_strangers()
            raise
        return FirstTimes(microseconds(now), _finite(due), _finite(lease))

    @asynccontextmanager
    async def due_now(self) -> AsyncIterator[DueQueues]:
        """Give the queues that have something due; what is due there next is noted afterwards."""
        async with self._taken(self._due) as taken:
            yield taken

    @asynccontextmanager
    async def lapsed(self) -> AsyncIterator[DueQueues]:
        """Give the queues whose leases may have ended; what ends there next is noted afterwards."""
        async with self._taken(self._leases) as taken:
            yield taken

    @asynccontextmanager
    async def _taken(self, kind: _Kind) -> AsyncIterator[DueQueues]:
        try:
            await self.settled()
            now, *queues = await self._link.run("hints_take", [kind.key], [MAX_QUEUES])
            yield DueQueues(int(now), queues)
        except StoreRefused:
            await self._remove_strangers()
            raise
        except BaseException:
            self.doubtful = True
            raise
        if queues:
            # The jobs that have become ready are not to wait for this.
            self._putting = asyncio.create_task(self._put_back(kind, queues))

    async def settled(self) -> None:
        """Wait until what was taken is put back."""
        putting, self._putting = self._putting, None
        if putting is not None:
            await putting

    async def _put_back(self, kind: _Kind, queues: Sequence[str]) -> None:
        done = False
        try:
            await self._note_next(kind, queues)
            done = True
        except StoreUnavailable:
            logger.debug("hints are left to their repair")
        finally:
            self.doubtful = self.doubtful or not done

    async def _note_next(self, kind: _Kind, queues: Sequence[str]) -> None:
        firsts = await self._firsts(kind, queues)
        commands = self._link.batch()
        if there := {queue: at for queue, at in firsts.items() if at is not None}:
            commands.zadd(kind.key, there, lt=True)
        # What others note of these queues meanwhile is before that, and stays.
        commands.zremrangebyscore(kind.key, "+inf", "+inf")
        await self._link.send(commands)

    async def _firsts(self, kind: _Kind, queues: Iterable[str]) -> dict[str, int | None]:
        """Return the earliest time in each queue."""
        names = list(dict.fromkeys(queues))
        commands = self._link.batch()
        for queue in names:
            for key in self._link.of(queue, kind.sets):
                commands.zrange(key, 0, 0, withscores=True)
        found = iter(await self._link.send(commands) if names else ())
        firsts: dict[str, int | None] = {}
        for queue in names:
            scores = [int(score) for _ in kind.sets for _, score in next(found)]
            firsts[queue] = min(scores, default=None)
        return firsts

    # -- what was lost

    async def repair(self, queues: Sequence[str]) -> None:
        """Note what has no hint, and of some queues what has one that is too late, when it is time for it.

        All queues are looked at when hints may have been lost, above all by a leader that was killed.
        """
        whole = self.doubtful
        if not whole and time.monotonic() - self._repaired_at < REPAIR_INTERVAL:
            return
        self._repaired_at = time.monotonic()
        await self.settled()
        for kind in (self._due, self._leases):
            await self._repair(kind, queues, whole)
        self.doubtful = False

    async def _repair(self, kind: _Kind, queues: Sequence[str], whole: bool) -> None:
        commands = self._link.batch()
        commands.zrange(kind.key, 0, -1, withscores=True)
        try:
            (entries,) = await self._link.send(commands)
        except StoreRefused:
            await self._remove_strangers()
            entries = []
        hinted = [queue for queue, at in entries if at != float("inf")]
        without = sorted(set(queues).difference(hinted))
        checked = set(hinted if whole else kind.turn(hinted))
        for presence in kind.presence:
            checked |= await presence.find(without, whole)
        before = dict(entries)
        firsts = (await self._firsts(kind, checked)).items()
        lost = {queue: at for queue, at in firsts if at is not None and at < before.get(queue, float("inf"))}
        if lost:
            await self._note(kind, lost, self._link.keys.notifications, "")

    async def _remove_strangers(self) -> None:
        """Remove foreign values stored in the place of hints."""
        self.doubtful = True
        for kind in (self._due, self._leases):
            commands = self._link.batch()
            commands.type(kind.key)
            (found,) = await self._link.send(commands)
            if found not in ("zset", "none"):
                logger.warning("removed what somebody else wrote into Redis: %s", kind.key)
                commands = self._link.batch()
                commands.delete(kind.key)
                await self._link.send(commands)


def _finite(entries: Sequence[tuple[str, float]]) -> float | None:
    return entries[0][1] if entries and entries[0][1] != float("inf") else None
