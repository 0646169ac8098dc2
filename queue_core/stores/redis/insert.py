"""The way of jobs into Redis: one script a queue, all of a call together."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import Any

from queue_core.errors import InvalidJob, QueueClosed, StoreUnavailable
from queue_core.model.events import encode_queued, encode_text
from queue_core.model.job import Inserted, NewJob, headers_text, size_of, weight_of
from queue_core.model.rules import Rules, parse_priority, rank, rules_of
from queue_core.redis.scripts import Call
from queue_core.stores.redis.capacity import (
    ORDERING_KEYS,
    UNCHECKED,
    CapacityCheck,
    capacity_check,
    check_room,
    keys_text,
)
from queue_core.stores.redis.session import MAX_SCRIPT_LENGTH, SCRIPTS_PER_TRIP, RedisLink, chunks, portions

NAMES_SECONDS = 3600.0
"""Seconds after which the names of queues are looked up again: less than what a moved job leaves behind is kept."""
ROOM_TRIES = 3
"""How often a server is asked for room that has to load its scripts again each time."""

_SETS = (
    "pending", "scheduled", "unfinished", "seq", "types", "tallies", "minutes", "depths", *ORDERING_KEYS, "unique",
    "unique_expires", "arrival",
)  # fmt: skip

_PLAIN = ("pending", "unfinished", "seq", "types", "tallies", "minutes", "depths")
_OFFERED = (*_PLAIN, "offered", "event_seq", "generation", "sleepers", "closed")
JOBS_PER_SCRIPT = 50
"""Jobs that one script writes, offers and publishes; those of longer lists are offered behind the answer."""

_Place = tuple[str, str]
"""Queue and id."""
_Part = tuple[str, Sequence[NewJob]]
"""A queue and those of its jobs that one script writes."""


class RedisInserts:
    """Writes jobs, and knows the names of the queues."""

    def __init__(self, link: RedisLink, rules: Rules) -> None:
        self._link = link
        self._rules = rules
        # keys of a queue; a lone enqueue spends a fortieth of its time on spelling a dozen of them
        self._keys_of = lru_cache(maxsize=1_000)(link.of)
        # all queues as last seen
        self._queues: set[str] = set()
        # time.monotonic
        self._named_until = 0.0

    async def insert_new(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write jobs whose ids are new; see `insert`."""
        for job in jobs:
            _check(job)
        queues = {job.queue for job in jobs}
        if not queues <= self._queues or time.monotonic() >= self._named_until:
            await self.name_queues(queues)
        return await self._insert(jobs, set())

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order.

        Raises:
            QueueFull: a limit of a queue refuses them; nothing was written.
            QueueClosed: a queue is closed. On a cluster jobs of other queues may have been written.
        """
        for job in jobs:
            _check(job)
        return await self._insert(jobs, await self._known_elsewhere(jobs) if jobs else set())

    async def _insert(self, jobs: Sequence[NewJob], known: set[_Place]) -> list[Inserted]:
        several = not self._link.apart and len({job.queue for job in jobs}) > 1
        if not known and self._are_plain(jobs):
            with suppress(*([QueueClosed] if several else [])):
                return await self._insert_plain(jobs)
        groups: dict[str, list[NewJob]] = {}
        for job in jobs:
            if (job.queue, job.id) not in known:
                groups.setdefault(job.queue, []).append(job)
        parts = [(queue, part) for queue, group in groups.items() for part in portions(group, size_of)]
        limited = any(rules_of(self._rules, queue).limits for queue in groups)
        if limited and self._link.apart and len(groups) > 1:
            written = await self._write_apart(groups, parts)
        elif limited:
            written = await self._write_checked(groups, parts)
        else:
            try:
                written = await self._write(parts)
            except QueueClosed:
                if not several:
                    raise
                # Nothing is written. The script of another queue refused; the jobs of the closed one may all be known.
                written = await self._write_checked(groups, parts)
        return [inserted(job, "k" if (job.queue, job.id) in known else next(written[job.queue])) for job in jobs]

    def offers(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether `insert_offered` takes these jobs: a few of one known queue, ready at once, without rules.

        No other queue is asked for their ids, which are new.
        """
        queue = jobs[0].queue
        if len(jobs) > JOBS_PER_SCRIPT or queue not in self._queues or time.monotonic() >= self._named_until:
            return False
        if self._link.replicated or weight_of(jobs) > MAX_SCRIPT_LENGTH:
            return False
        return self._are_plain(jobs) and (len(jobs) == 1 or all([job.queue == queue for job in jobs]))

    async def insert_offered(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write jobs, offer them to workers and publish their events, in one script.

        Raises:
            QueueClosed: their queue is closed; nothing was written.
        """
        queue, link = jobs[0].queue, self._link
        for job in jobs:
            _check(job)
        args = [len(jobs), link.keys.events, encode_text(queue), f"{time.time():.3f}", link.wakeups, queue]
        args += [encode_queued(job) for job in jobs]
        call = self._plain_call("insert_offered", queue, jobs, [*self._keys_of(queue, _OFFERED)], args)
        (answer,) = await link.insert([call])
        return await self._taken([queue], queue, jobs, answer)

    async def restore(self, jobs: Sequence[NewJob]) -> tuple[list[NewJob], list[Inserted]]:
        """Write those of these jobs that no queue has, in their order; return them, and what became of them.

        They were accepted before: neither a limit nor a closed queue refuses them now.
        """
        ids: dict[str, list[str]] = {}
        for job in jobs:
            ids.setdefault(job.queue, []).append(job.id)
        # On a cluster the names are at another primary than a queue, and may be what is lost.
        commands = self._link.batch()
        commands.sadd(self._link.keys.queues, *ids)
        await self._link.send(commands)
        known = (await self._link.read(ids, ["status"])).keys()
        lacking = [job for job in jobs if (job.queue, job.id) not in known]
        elsewhere = await self._known_elsewhere(lacking) if lacking else set()
        lacking = [job for job in lacking if (job.queue, job.id) not in elsewhere]
        groups: dict[str, list[NewJob]] = {}
        for job in lacking:
            groups.setdefault(job.queue, []).append(job)
        answers: dict[str, list[str]] = {}
        for queue, group in groups.items():
            for part in portions(group, size_of):
                await self._take([(queue, part)], await self._link.run_many([self.call(queue, part)]), answers, [])
        found = {queue: iter(own) for queue, own in answers.items()}
        return lacking, [inserted(job, next(found[job.queue])) for job in lacking]

    async def _known_elsewhere(self, jobs: Sequence[NewJob]) -> set[_Place]:
        """Name the queues in the store; return the jobs whose ids exist in another queue than their own."""
        queues = {job.queue for job in jobs}
        if len(queues) == 1 and queues == self._queues and time.monotonic() < self._named_until:
            return set()  # the script itself sees an id that is known in its queue, or was until it has moved
        before = frozenset(self._queues)
        known, _ = await asyncio.gather(self._known(jobs, before), self.name_queues(queues))
        if new := self._queues - before:
            known |= await self._known(jobs, new)
        homes = {job_id: queue for queue, job_id in known}
        first = {job.id: job.queue for job in reversed(jobs)}
        return {(job.queue, job.id) for job in jobs if homes.get(job.id, first[job.id]) != job.queue}

    async def _known(self, jobs: Sequence[NewJob], queues: Iterable[str]) -> set[_Place]:
        """Return those of the ids that these queues know of jobs of other queues."""
        others = {queue: [job.id for job in jobs if job.queue != queue] for queue in queues}
        return set(await self._link.read({queue: ids for queue, ids in others.items() if ids}, ["status"]))

    async def name_queues(self, queues: set[str]) -> None:
        """Name these queues in the store, and learn the names of the others."""
        commands = self._link.batch()
        if new := queues - self._queues:
            commands.sadd(self._link.keys.queues, *new)
        commands.smembers(self._link.keys.queues)
        self._queues = set((await self._link.send(commands))[-1])
        self._named_until = time.monotonic() + NAMES_SECONDS

    async def _write(self, parts: Sequence[_Part]) -> dict[str, Iterator[str]]:
        answers: dict[str, list[str]] = {}
        # Lists of more than 10,000 jobs are written in several transactions.
        queues = dict.fromkeys(queue for queue, _ in parts)
        for place, some in enumerate(chunks(parts, SCRIPTS_PER_TRIP)):
            # What began before a queue was closed is written whole.
            first = place == 0 or self._link.apart
            closed = [queue for queue in queues if queue not in answers] if first else []
            calls = [self.call(queue, part, closed=closed) for queue, part in some]
            await self._take(some, await self._link.insert(calls), answers, closed)
        return {queue: iter(found) for queue, found in answers.items()}

    async def _write_checked(
        self, groups: Mapping[str, Sequence[NewJob]], parts: Sequence[_Part]
    ) -> dict[str, Iterator[str]]:
        """Write jobs that each of their queues is asked for before: in one transaction, however many they are."""
        for _ in range(ROOM_TRIES):
            check = self.check_capacity(groups, every=True)
            calls = [*check.calls, *(self.call(queue, part, check) for queue, part in parts)]
            found = await self._link.insert(calls)
            asked = len(check.calls)
            check_room(self._rules, check, found[:asked])
            # A server that did not know a script yet has run the others: then nothing was written.
            if all(one[0] != "ask" for one in found[asked:]):
                answers: dict[str, list[str]] = {}
                await self._take(parts, found[asked:], answers, ())
                return {queue: iter(one) for queue, one in answers.items()}
        raise StoreUnavailable("redis", "it forgets its scripts all the time")

    async def _write_apart(
        self, groups: Mapping[str, Sequence[NewJob]], parts: Sequence[_Part]
    ) -> dict[str, Iterator[str]]:
        """Write jobs queue by queue, where no transaction reaches several; one that is full now refuses all of them."""
        check = self.check_capacity(groups)
        for queue, call in zip(check.queues, check.calls, strict=True):
            # Each keeps its own answer.
            own = call._replace(keys=[self._link.keys.of(queue, "capacity_answer"), *call.keys[1:]])
            check_room(self._rules, check._replace(queues=[queue]), await self._link.run_many([own]))
        written: dict[str, Iterator[str]] = {}
        for queue, jobs in groups.items():
            written |= await self._write_checked({queue: jobs}, [part for part in parts if part[0] == queue])
        return written

    def check_capacity(self, groups: Mapping[str, Sequence[NewJob]], every: bool = False) -> CapacityCheck:
        """Return the check whether there is room for jobs, in every queue or in those with limits."""
        return capacity_check(self._link, self._rules, groups, every)

    async def _take(
        self, parts: Sequence[_Part], found: Sequence[Any], answers: dict[str, list[str]], closed: Sequence[str]
    ) -> None:
        for (queue, _), (before, *own) in zip(parts, found, strict=True):
            check_open([queue] if self._link.apart else closed, before, own)
            answers.setdefault(queue, []).extend(own)
            if before == 0:
                await self.name(queue)

    def _are_plain(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether all of them are ready at once, and no rule of a queue concerns them."""
        if self._rules:
            for rules in [rules_of(self._rules, queue) for queue in {job.queue for job in jobs}]:
                if rules.limits or rules.aging:
                    return False
        return all([_is_plain(job) for job in jobs])

    async def _insert_plain(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        groups: dict[str, list[NewJob]] = {}
        for job in jobs:
            groups.setdefault(job.queue, []).append(job)
        parts = [(queue, part) for queue, group in groups.items() for part in portions(group, size_of)]
        found: dict[str, list[Inserted]] = {queue: [] for queue in groups}
        for place, some in enumerate(chunks(parts, SCRIPTS_PER_TRIP)):
            # What began before a queue was closed is written whole.
            first = place == 0 or self._link.apart
            closed = [queue for queue in groups if not found[queue]] if first else []
            calls = []
            for queue, part in some:
                asked = [name for name in closed if name == queue or not self._link.apart]
                keys = [*self._keys_of(queue, _PLAIN), *(self._link.keys.of(name, "closed") for name in asked)]
                calls.append(self._plain_call("insert_plain", queue, part, keys, [len(part), len(asked)]))
            for (queue, part), answer in zip(some, await self._link.insert(calls), strict=True):
                found[queue] += await self._taken([queue] if self._link.apart else closed, queue, part, answer)
        if len(groups) == 1:
            return found[jobs[0].queue]
        each = {queue: iter(own) for queue, own in found.items()}
        return [next(each[job.queue]) for job in jobs]

    def _plain_call(self, name: str, queue: str, jobs: Sequence[NewJob], keys: list[str], args: list[Any]) -> Call:
        """Return one of the two scripts for plain jobs, given what it takes beside them."""
        start = self._link.keys.of(queue, "job:")
        kinds: dict[tuple[Any, ...], int] = {}
        own: list[Any] = []
        for job in jobs:
            kind = (job.type, job.priority, job.max_retries, _tags_text(job), headers_text(job) or "")
            own += (kinds.setdefault(kind, len(kinds) + 1), job.payload)
            keys.append(start + job.id)
        keys += [self._link.keys.of(queue, f"by_type:{kind[0]}") for kind in kinds]
        args += (len(start.encode()), len(kinds), *chain.from_iterable(kinds), *own)
        return Call(name, keys, args)

    async def _taken(
        self, closed: Sequence[str], queue: str, jobs: Sequence[NewJob], answer: Sequence[Any]
    ) -> list[Inserted]:
        """Read what such a script answers."""
        before, *places = answer
        check_open(closed, before, places)
        if before == 0:
            await self.name(queue)
        known = set(places)
        return [
            Inserted(job.id, queue, None, None, False)
            if known and place in known
            else Inserted(job.id, queue, rank(job.priority, before + place), None, True)
            for place, job in enumerate(jobs, 1)
        ]

    def call(
        self, queue: str, jobs: Sequence[NewJob], check: CapacityCheck = UNCHECKED, closed: Sequence[str] = ()
    ) -> Call:
        """Return the script that writes jobs of a queue; after a number, it answers what `inserted` reads.

        If there is a question, its scripts run before this one in the same transaction. `closed`: the queues of which
        none may be closed; on a cluster a script sees its own alone.
        """
        of, rules = self._link.keys.of, rules_of(self._rules, queue)
        keys = [*self._link.of(queue, _SETS), check.key or of(queue, "capacity_answer")]
        hashes = self._link.keys.jobs(queue, (job.id for job in jobs))
        for job, key in zip(jobs, hashes, strict=True):
            keys += (key, of(queue, f"by_type:{job.type}"))
        keys += [of(name, "closed") for name in closed if name == queue or not self._link.apart]
        args = [rules.aging_us, rules.open_keys, check.yes]
        return Call("insert", keys, [*args, *(part for job in jobs for part in _arguments(job))])

    async def name(self, queue: str) -> None:
        """Name a queue that was new to the store, although perhaps not to this process: everything was flushed."""
        commands = self._link.batch()
        commands.sadd(self._link.keys.queues, queue)
        await self._link.send(commands)


def _arguments(job: NewJob) -> tuple[Any, ...]:
    return (
        job.id,
        job.type,
        job.payload,
        job.priority,
        job.max_retries,
        _tags_text(job),
        round(job.delay * 1e6),
        "" if job.run_at is None else round(job.run_at * 1e6),
        keys_text(job),
        headers_text(job) or "",
    )


def _tags_text(job: NewJob) -> str:
    return json.dumps(job.tags, ensure_ascii=False) if job.tags else ""


def _is_plain(job: NewJob) -> bool:
    return job.ordering_key is None and job.unique_key is None and job.run_at is None and not job.delay > 0


def inserted(job: NewJob, answer: str) -> Inserted:
    """Convert the script's answer for a job."""
    if answer[0] == "k":
        return Inserted(answer[1:] or job.id, job.queue, None, None, False)
    if answer == "w":
        return Inserted(job.id, job.queue, None, None, True)
    if answer[0] == "r":
        return Inserted(job.id, job.queue, int(answer[1:]), None, True)
    return Inserted(job.id, job.queue, None, int(answer[1:]) / 1e6, True)


def check_open(closed: Sequence[str], before: Any, answers: Sequence[Any]) -> None:
    """Read whether a script has found a closed queue among these.

    Raises:
        QueueClosed: it has, and has written nothing.
    """
    if before == "closed":
        raise QueueClosed(closed[int(answers[0]) - 1])


def _check(job: NewJob) -> None:
    """Refuse a row that no store may hold, as the constraints of a database do."""
    parse_priority(job.priority)
    if not 0 < len(job.queue) <= 200:
        raise InvalidJob("a queue's name has 1 to 200 characters")
