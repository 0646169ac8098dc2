"""What leaves Redis because nobody wants to keep it any longer; the totals go on counting it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from queue_core.redis.scripts import Call
from queue_core.settings import RetentionSettings
from queue_core.stores.redis.link import CHUNK, Link
from queue_core.stores.redis.records import entries_of

ROUNDS = 20
"""Parts of one kind and queue removed in one go: 10,000 jobs a second at the least."""
SERIES_SECONDS = 2 * 86400
"""How long minutes are kept."""
LOST_SECONDS = 86400
"""How long the entry of a lost worker is shown."""
SELDOM = 60.0
"""Seconds between two looks at what grows slowly."""

_REMOVE = ("causes", "tallies", "minutes")


class _Kept(NamedTuple):
    """How long jobs stay in a set."""

    # what they count as afterwards
    outcome: str
    microseconds: int


class Upkeep:
    """One bounded round at a time."""

    def __init__(self, link: Link, retention: RetentionSettings) -> None:
        self._link = link
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
        if time.monotonic() - self._seldom_at >= SELDOM:
            self._seldom_at = time.monotonic()
            await self._trim(queues, now)
            await self._forget_workers(now)

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
                await remove(self._link, queue, place, ids, *self._kept[place])
            wanted = [key for key, ids in over.items() if len(ids) == CHUNK]

    async def _trim(self, queues: Sequence[str], now: int) -> None:
        """Drop the minutes that no series shows any more."""
        first = (now // 1_000_000 - SERIES_SECONDS) // 60
        keys = [key for queue in queues for key in self._link.of(queue, ("minutes", "deaths"))]
        for key in keys:
            for _ in range(ROUNDS):
                commands = self._link.batch()
                commands.zrangebyscore(key, "-inf", f"({first << 27}", start=0, num=CHUNK)
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


async def remove(link: Link, queue: str, place: str, ids: Sequence[str], outcome: str, keep: int | None) -> list[str]:
    """Remove jobs of a queue, at most a script's, that are in this set for so long (us); return which were removed."""
    types = await link.read({queue: ids}, ["type"])
    # An entry whose hash somebody deleted goes, too.
    named = [(job_id, types.get((queue, job_id), [""])[0]) for job_id in ids]
    keys = link.of(queue, (place, *_REMOVE))
    for job_id, type_ in named:
        keys += link.of(queue, (f"job:{job_id}", f"attempts:{job_id}", f"by_type:{type_}"))
    args = [outcome, "" if keep is None else keep, *(part for pair in named for part in pair)]
    (answers,) = await link.run_many([Call("remove", keys, args)])
    return [job_id for job_id, removed in zip(ids, answers, strict=True) if removed]
