"""What leaves Redis because nobody wants to keep it any longer; the totals go on counting it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queue_core.redis.scripts import Call
from queue_core.rules import Rules
from queue_core.settings import RetentionSettings
from queue_core.stores.redis.forgetting import Forgetting
from queue_core.stores.redis.link import CHUNK, Link
from queue_core.stores.redis.presence import Presence
from queue_core.stores.redis.records import entries_of
from queue_core.stores.redis.schedules import schedule_keys
from queue_core.stores.redis.verbs import LOOK, Verbs, seen

ROUNDS = 20
"""Parts of one kind and queue removed in one go: 10,000 jobs a second at the least."""
SERIES_SECONDS = 2 * 86400
"""How long minutes are kept."""
LOST_SECONDS = 86400
"""How long the entry of a lost worker is shown."""
SELDOM = 60.0
"""Seconds between two looks at what grows slowly."""
AT_ONCE = 100
"""Sets looked at in one round. While none of them has anything to remove, that is all."""
AGAIN_US = 3600 * 1_000_000
"""Microseconds after which a set is looked at again at the latest. What comes to it is newer than what is there, so it
is known when the next one leaves; but an operator may restore what died long ago."""

_Set = tuple[str, str]
"""A queue and the name of one of its sets."""
_BY_MINUTE = ("minutes", "deaths")
_NOTHING = ("",) * len(LOOK)


class _Kept(NamedTuple):
    """How long jobs stay in a set."""

    # what they count as afterwards
    outcome: str
    microseconds: int


class _Agenda:
    """When each set of a queue next has something to remove, as far as is known: it need not be asked before."""

    def __init__(self, link: Link, kept: Mapping[str, int]) -> None:
        self._link = link
        # set -> how long its members stay, in microseconds
        self._kept = kept
        # microseconds of the server's clock
        self._next: dict[_Set, int] = {}
        self._last: _Set = ("", "")

    async def due(self, queues: Sequence[str], now: int) -> list[_Set]:
        """Return sets whose first member is over its time, of those of which that is not known to be otherwise."""
        sets = ((queue, name) for queue in queues for name in self._kept)
        wanted = self._turn([one for one in sets if self._next.get(one, 0) <= now])
        commands = self._link.batch()
        for queue, name in wanted:
            commands.zrange(self._link.keys.of(queue, name), 0, 0, withscores=True)
        firsts = await self._link.send(commands) if wanted else []
        due: list[_Set] = []
        for one, first in zip(wanted, firsts, strict=True):
            # What comes to an empty set comes now or later.
            over = (_moment(one[1], first[0][1]) if first else now) + self._kept[one[1]]
            if first and over < now:
                due.append(one)
            else:
                self._next[one] = min(over + 1, now + AGAIN_US)
        return due

    def _turn(self, wanted: Sequence[_Set]) -> Sequence[_Set]:
        if len(wanted) > AT_ONCE:
            turn = [one for one in wanted if one > self._last] + [one for one in wanted if one <= self._last]
            wanted = turn[:AT_ONCE]
            self._last = wanted[-1]
        return wanted

    def forget(self) -> None:
        """Know nothing."""
        self._next.clear()


def _moment(name: str, score: float) -> int:
    """Return the time of a member in microseconds."""
    return (int(score) >> 27) * 60_000_000 if name in _BY_MINUTE else int(score)


class Upkeep:
    """One bounded round at a time."""

    def __init__(self, link: Link, retention: RetentionSettings, rules: Rules) -> None:
        self._link = link
        self._verbs = Verbs(link, rules)
        self._forgetting = Forgetting(link, retention.operations)
        retentions = {
            "completed": ("expired_completed", retention.completed),
            "cancelled": ("expired_cancelled", retention.completed),
            "dlq": ("expired_dead", retention.dead),
            "trash": ("expired_dead", retention.trash),
        }
        self._kept = {
            place: _Kept(outcome, round(seconds * 1e6))
            for place, (outcome, seconds) in retentions.items()
            if seconds is not None
        }
        lasting = dict.fromkeys(_BY_MINUTE, (SERIES_SECONDS + 60) * 1_000_000)
        self._agenda = _Agenda(link, {place: kept.microseconds for place, kept in self._kept.items()} | lasting)
        self._keyed = Presence(link, "unique_ends")
        self._seldom_at = float("-inf")

    async def run(self) -> None:
        """Remove what is over its retention."""
        queues, now = await self._link.look()
        due = await self._agenda.due(queues, now)
        await self._expire([one for one in due if one[1] in self._kept], now)
        await self._trim([one for one in due if one[1] in _BY_MINUTE], now)
        await self._forget_keys(sorted(await self._keyed.find(queues)))
        await self._forgetting.run(now)
        if time.monotonic() - self._seldom_at >= SELDOM:
            self._seldom_at = time.monotonic()
            await self._forget_workers(now)
            await self._forget_ticks(now)

    def forget(self) -> None:
        """Look at all sets again."""
        self._agenda.forget()

    async def _expire(self, wanted: Sequence[_Set], now: int) -> None:
        for _ in range(ROUNDS):
            commands = self._link.batch()
            for queue, place in wanted:
                before = now - self._kept[place].microseconds
                commands.zrangebyscore(self._link.keys.of(queue, place), "-inf", f"({before}", start=0, num=CHUNK)
            found = await self._link.send(commands) if wanted else []
            over = {key: ids for key, ids in zip(wanted, found, strict=True) if ids}
            for (queue, place), ids in over.items():
                await self._remove(queue, place, ids)
            wanted = [key for key, ids in over.items() if len(ids) == CHUNK]

    async def _remove(self, queue: str, place: str, ids: Sequence[str]) -> None:
        """Remove jobs of a queue that are in this set. Whom these let through by ordering keys, the audit finds."""
        found = await self._link.read({queue: ids}, LOOK)
        # An entry whose hash somebody deleted goes, too.
        jobs = [seen(job_id, queue, found.get((queue, job_id), _NOTHING)) for job_id in ids]
        await self._link.run_many([self._verbs.remove(queue, place, jobs, self._kept[place]).call])

    async def _forget_keys(self, queues: Sequence[str]) -> None:
        """Forget unique keys whose time is over; those that hold while a job is unfinished go with their job."""
        for _ in range(ROUNDS):
            calls = [Call("forget", self._link.of(queue, ("unique", "unique_ends")), [CHUNK]) for queue in queues]
            found = await self._link.run_many(calls)
            queues = [queue for queue, n in zip(queues, found, strict=True) if n == CHUNK]

    async def _trim(self, sets: Sequence[_Set], now: int) -> None:
        """Drop the minutes that no series shows any more."""
        first = (now // 1_000_000 - SERIES_SECONDS) // 60
        for queue, name in sets:
            await self._drop_below(self._link.keys.of(queue, name), first << 27)

    async def _forget_ticks(self, now: int) -> None:
        """Drop the ticks of schedules that passed before the completed jobs that are kept."""
        kept = self._kept.get("completed")
        if kept is None:
            return
        commands = self._link.batch()
        commands.hgetall(self._link.keys.schedules)
        (homes,) = await self._link.send(commands)
        for name, queue in homes.items():
            await self._drop_below(schedule_keys(self._link, queue, name)[2], now - kept.microseconds)

    async def _drop_below(self, key: str, score: int) -> None:
        for _ in range(ROUNDS):
            commands = self._link.batch()
            commands.zrangebyscore(key, "-inf", f"({score}", start=0, num=CHUNK)
            (members,) = await self._link.send(commands)
            if members:
                commands = self._link.batch()
                commands.zrem(key, *members)
                await self._link.send(commands)
            if len(members) < CHUNK:
                break

    async def _forget_workers(self, now: int) -> None:
        commands = self._link.batch()
        commands.hgetall(self._link.keys.workers)
        (entries,) = await self._link.send(commands)
        first = now - LOST_SECONDS * 1_000_000
        heard = {worker for worker, entry in entries_of(entries).items() if entry.heartbeat_at >= first}
        gone = entries.keys() - heard
        if gone:
            commands = self._link.batch()
            commands.hdel(self._link.keys.workers, *gone)
            await self._link.send(commands)
