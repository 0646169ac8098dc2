"""The way of jobs into Redis: one script a queue, all of a call together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from queue_core.errors import InvalidJob
from queue_core.job import Inserted, NewJob
from queue_core.priorities import parse_priority
from queue_core.redis.scripts import Call
from queue_core.stores.redis.link import TOGETHER, Link, chunks, portions

_SETS = ("pending", "scheduled", "unfinished", "seq", "types", "tallies", "minutes")

_Place = tuple[str, str]
"""Queue and id."""


class Inserting:
    """Writes jobs, and knows the names of the queues."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # all queues as last seen
        self._queues: set[str] = set()

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order."""
        for job in jobs:
            _check(job)
        known = await self._known_elsewhere(jobs) if jobs else set()
        groups: dict[str, list[NewJob]] = {}
        for job in jobs:
            if (job.queue, job.id) not in known:
                groups.setdefault(job.queue, []).append(job)
        parts = [(queue, part) for queue, group in groups.items() for part in portions(group, _weight)]
        written = await self._write(parts)
        return [_inserted(job, "k" if (job.queue, job.id) in known else next(written[job.queue])) for job in jobs]

    async def _known_elsewhere(self, jobs: Sequence[NewJob]) -> set[_Place]:
        """Name the queues in the store; return those jobs whose ids stand in another queue than their own."""
        queues = {job.queue for job in jobs}
        if len(queues) == 1 and queues == self._queues:
            return set()  # the script itself sees an id that is known in its queue
        before = frozenset(self._queues)
        known, _ = await asyncio.gather(self._known(jobs, before), self._look(queues))
        if new := self._queues - before:
            known |= await self._known(jobs, new)
        homes = {job_id: queue for queue, job_id in known}
        first = {job.id: job.queue for job in reversed(jobs)}
        return {(job.queue, job.id) for job in jobs if homes.get(job.id, first[job.id]) != job.queue}

    async def _known(self, jobs: Sequence[NewJob], queues: Iterable[str]) -> set[_Place]:
        """Return those of the ids that these queues know of jobs of other queues."""
        others = {queue: [job.id for job in jobs if job.queue != queue] for queue in queues}
        return set(await self._link.read({queue: ids for queue, ids in others.items() if ids}, ["status"]))

    async def _look(self, queues: set[str]) -> None:
        """Name these queues in the store, and learn the names of the others."""
        commands = self._link.batch()
        if new := queues - self._queues:
            commands.sadd(self._link.keys.queues, *new)
        commands.smembers(self._link.keys.queues)
        self._queues = set((await self._link.send(commands))[-1])

    async def _write(self, parts: Sequence[tuple[str, Sequence[NewJob]]]) -> dict[str, Iterator[str]]:
        answers: dict[str, list[str]] = {}
        # Lists of more than 10,000 jobs are written in several transactions.
        for some in chunks(parts, TOGETHER):
            calls = [self._call(queue, part) for queue, part in some]
            for (queue, _), (before, *found) in zip(some, await self._link.run_many(calls, together=True), strict=True):
                answers.setdefault(queue, []).extend(found)
                if before == 0:
                    await self._name(queue)
        return {queue: iter(found) for queue, found in answers.items()}

    def _call(self, queue: str, jobs: Sequence[NewJob]) -> Call:
        of = self._link.keys.of
        keys = self._link.of(queue, _SETS)
        hashes = self._link.keys.jobs(queue, (job.id for job in jobs))
        for job, key in zip(jobs, hashes, strict=True):
            keys += (key, of(queue, f"by_type:{job.type}"))
        return Call("insert", keys, [part for job in jobs for part in _arguments(job)])

    async def _name(self, queue: str) -> None:
        """Name a queue that was new to the store, although perhaps not to this process: everything was flushed."""
        commands = self._link.batch()
        commands.sadd(self._link.keys.queues, queue)
        await self._link.send(commands)


def _weight(job: NewJob) -> int:
    return len(job.payload)


def _arguments(job: NewJob) -> tuple[Any, ...]:
    return (
        job.id,
        job.type,
        job.payload,
        job.priority,
        job.max_retries,
        json.dumps(job.tags, ensure_ascii=False) if job.tags else "",
        round(job.delay * 1e6),
        "" if job.run_at is None else round(job.run_at * 1e6),
    )


def _inserted(job: NewJob, answer: str) -> Inserted:
    if answer == "k":
        return Inserted(job.id, job.queue, None, None, False)
    if answer[0] == "r":
        return Inserted(job.id, job.queue, int(answer[1:]), None, True)
    return Inserted(job.id, job.queue, None, int(answer[1:]) / 1e6, True)


def _check(job: NewJob) -> None:
    """Refuse a row that no store may hold, as the constraints of a database do."""
    parse_priority(job.priority)
    if not 0 < len(job.queue) <= 200:
        raise InvalidJob("a queue's name has 1 to 200 characters")
