"""What leaves Redis because nobody wants to keep it any longer; the totals go on counting it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from queue_core.redis.scripts import Call
from queue_core.rules import Rules, rules_of
from queue_core.settings import RetentionSettings
from queue_core.stores.redis.link import CHUNK, Link
from queue_core.stores.redis.records import entries_of
from queue_core.stores.redis.ruling import GATES, told
from queue_core.stores.redis.schedules import schedule_keys

ROUNDS = 20
"""Parts of one kind and queue removed in one go: 10,000 jobs a second at the least."""
SERIES_SECONDS = 2 * 86400
"""How long minutes are kept."""
LOST_SECONDS = 86400
"""How long the entry of a lost worker is shown."""
SELDOM = 60.0
"""Seconds between two looks at what grows slowly."""

_REMOVE = ("causes", "tallies", "minutes", *GATES, "pending", "unique", "unique_ends")


class _Kept(NamedTuple):
    """How long jobs stay in a set."""

    # what they count as afterwards
    outcome: str
    microseconds: int


class Upkeep:
    """One bounded round at a time."""

    def __init__(self, link: Link, retention: RetentionSettings, rules: Rules) -> None:
        self._link = link
        self._rules = rules
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
        self._seldom_at = float("-inf")

    async def run(self) -> None:
        """Remove what is over its retention."""
        queues, now = await self._link.look()
        await self._expire(queues, now)
        await self._forget_keys(queues)
        if time.monotonic() - self._seldom_at >= SELDOM:
            self._seldom_at = time.monotonic()
            await self._trim(queues, now)
            await self._forget_workers(now)
            await self._forget_ticks(now)

    async def _expire(self, queues: Sequence[str], now: int) -> None:
        wanted = [(queue, place) for queue in queues for place in self._kept]
        for _ in range(ROUNDS):
            commands = self._link.batch()
            for queue, place in wanted:
                before = now - self._kept[place].microseconds
                commands.zrangebyscore(self._link.keys.of(queue, place), "-inf", f"({before}", start=0, num=CHUNK)
            found = await self._link.send(commands) if wanted else []
            over = {key: ids for key, ids in zip(wanted, found, strict=True) if ids}
            for (queue, place), ids in over.items():
                await remove(self._link, self._rules, queue, place, ids, self._kept[place])
            wanted = [key for key, ids in over.items() if len(ids) == CHUNK]

    async def _forget_keys(self, queues: Sequence[str]) -> None:
        """Forget unique keys whose time is over; those that hold while a job is unfinished go with their job."""
        for _ in range(ROUNDS):
            calls = [Call("forget", self._link.of(queue, ("unique", "unique_ends")), [CHUNK]) for queue in queues]
            found = await self._link.run_many(calls)
            queues = [queue for queue, n in zip(queues, found, strict=True) if n == CHUNK]

    async def _trim(self, queues: Sequence[str], now: int) -> None:
        """Drop the minutes that no series shows any more."""
        first = (now // 1_000_000 - SERIES_SECONDS) // 60
        keys = [key for queue in queues for key in self._link.of(queue, ("minutes", "deaths"))]
        for key in keys:
            await self._drop_below(key, first << 27)

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


async def remove(
    link: Link, rules: Rules, queue: str, place: str, ids: Sequence[str], kept: tuple[str, int | None]
) -> list[str]:
    """Remove jobs of a queue, at most a script's, that are in this set; return which were removed.

    `kept` is what they count as afterwards, and for how long (us) they must have been there. Whom these let through by
    their ordering keys, the audit finds.
    """
    read = await link.read({queue: ids}, ["type", "ordering_key", "unique_key"])
    # An entry whose hash somebody deleted goes, too.
    named = [(job_id, *(field or "" for field in read.get((queue, job_id), ("", "", "")))) for job_id in ids]
    keys = link.of(queue, (place, *_REMOVE))
    for job_id, type_, *_ in named:
        keys += link.of(queue, (f"job:{job_id}", f"attempts:{job_id}", f"log:{job_id}", f"by_type:{type_}"))
    outcome, us = kept
    args = [outcome, "" if us is None else us, rules_of(rules, queue).open_keys]
    (answers,) = await link.run_many([Call("remove", keys, [*args, *(part for one in named for part in one)])])
    return [job_id for job_id, answer in zip(ids, answers, strict=True) if told(queue, answer)[0]]
