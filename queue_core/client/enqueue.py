"""Enqueueing: checks jobs and writes them to the store in natural batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from queue_core.client.effects import CreationEffects
from queue_core.client.lock_waiters import BATCH_LOCK_SECONDS, Answer, LockWaiters, Refusal, needs_locks
from queue_core.client.tasks import EnqueueOptions
from queue_core.errors import InvalidJob, QueueClosed, StoreUnavailable
from queue_core.model.codec import encode_payload
from queue_core.model.job import NO_HEADERS, Inserted, NewJob, new_id, random_source, weight_of
from queue_core.model.rules import Priority, parse_priority, rules_of
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import (
    check_delay,
    check_headers,
    check_key,
    check_max_retries,
    check_name,
    check_queue_name,
    check_run_at,
    check_tags,
)
from queue_core.ports.backend import Backend
from queue_core.ports.locks import LockHeld, LockingStore
from queue_core.ports.offers import OfferingStore
from queue_core.ports.replicas import ReplicatedStore, RestoringStore
from queue_core.ports.store import JoiningStore
from queue_core.runtime import ENCODED_AT_ONCE, Batcher, Pacing

PAYLOADS_PER_CHECK = 16
"""Payloads that are encoded before their sizes are checked."""
MAX_BATCH_JOBS = 1000
"""Jobs of different callers that one statement gathers at most; a single caller's list is never torn apart."""

MAX_SEPARATE_QUEUES = 1000
"""Queues whose batches are kept apart while they are idle."""

_new = tuple.__new__
_Checked = tuple[str, tuple[Any, ...], dict[str, str]]
"""A queue, priority to tags as a job has them, and headers."""
Dump = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]]


_Later = asyncio.Future[Answer]
"""The answer to a call that waits for a lock."""


class _Batches(NamedTuple):
    """Batches of jobs, and of the lists of callers that need locks, or that a queue may refuse."""

    plain: Batcher[NewJob, Inserted]
    locking: Batcher[Sequence[NewJob], Answer | _Later]

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return self.plain.is_idle and self.locking.is_idle


class Enqueuer:
    """Turns payloads into stored jobs; nothing is written before everything has been checked."""

    def __init__(self, backend: Backend, settings: JobsSettings) -> None:
        self._backend = backend
        self._offering = backend.store if isinstance(backend.store, OfferingStore) else None
        self._locking = backend.store if isinstance(backend.store, LockingStore) else None
        self._settings = settings
        self._rules = settings.rules
        self._seconds = settings.store_timeout
        # Calls of different queues share a batch, but not where a queue may be away that others need not wait for.
        self._apart = self._offering is not None and self._offering.apart
        self._held = LockWaiters(self._flush_held, self._rules, self._seconds)
        self._batches = self._make_batches()
        # by queue, where they are apart
        self._apart_batches: dict[str, _Batches] = {}
        self._pacing = Pacing()
        # the type and options that were checked last, and what came of it
        self._checked: tuple[str | None, EnqueueOptions | None, _Checked] = (None, None, ("", (), NO_HEADERS))
        self._effects = CreationEffects(lambda: self._backend)
        if isinstance(backend.store, RestoringStore):
            backend.store.on_restored(self._effects.add)

    def _make_batches(self) -> _Batches:
        plain: Batcher[NewJob, Inserted] = Batcher(self._flush, MAX_BATCH_JOBS, weight_of)
        # A list that a closed queue refuses must not take the others of its batch with it.
        plain.separate(QueueClosed, self._flush_again)
        locking: Batcher[Sequence[NewJob], Answer | _Later] = Batcher(
            self._flush_locking, MAX_BATCH_JOBS, lambda lists: sum(map(weight_of, lists))
        )
        for batcher in (plain, locking):
            batcher.limit_waits(self._seconds, self._no_answer)
        return _Batches(plain, locking)

    def _batches_of(self, jobs: Sequence[NewJob]) -> _Batches:
        queue = jobs[0].queue
        if not self._apart or any([job.queue != queue for job in jobs]):
            return self._batches
        if (batches := self._apart_batches.get(queue)) is None:
            if len(self._apart_batches) >= MAX_SEPARATE_QUEUES:
                self._apart_batches = {name: one for name, one in self._apart_batches.items() if not one.is_idle}
            batches = self._apart_batches[queue] = self._make_batches()
        return batches

    def _no_answer(self) -> StoreUnavailable:
        return StoreUnavailable(self._backend.store.name, f"no answer within {self._seconds:g} s")

    async def build(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions, dump: Dump
    ) -> list[NewJob]:
        """Return the jobs of a call, whose payloads `dump` brings into their JSON form; nothing is written yet.

        Raises:
            InvalidJob: an item cannot become a job; the message names it.
        """
        jobs: list[NewJob] = []
        payloads, step = tuple(payloads), PAYLOADS_PER_CHECK
        while True:
            if self._pacing.due:
                await self._pacing.turn()
            made = self._build(type_, dump(payloads[len(jobs) : len(jobs) + step]), options)
            jobs += made
            size = weight_of(made)
            self._pacing.note(size)
            if len(jobs) >= len(payloads):
                return jobs
            step = max(1, step * ENCODED_AT_ONCE // size) if size >= ENCODED_AT_ONCE else 4 * step

    def _build(self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions) -> list[NewJob]:
        known_type, known_options, checked = self._checked
        if options is not known_options or type_ != known_type:
            checked = self._check(type_, options)
            # What can be changed from outside, or may be over by the next call, is checked each time.
            # And what belongs to the caller is not kept beyond its call: an open transaction would stay open with it.
            if (
                options.tags is None
                and options.headers is None
                and options.run_at is None
                and options.connection is None
            ):
                self._checked = type_, options, checked
        queue, given, headers = checked
        limit = self._settings.limits.payload
        given = (*given, self._ordering_key(queue, options), *_unique_key(type_, options), headers)
        if len(payloads) == 1:
            return [NewJob(new_id(), queue, type_, encode_payload(payloads[0], limit), *given)]
        texts = [encode_payload(payload, limit) for payload in payloads]
        # As `NewJob(…)` makes them, in half of the time.
        return [
            _new(NewJob, (i, queue, type_, text, *given)) for i, text in zip(new_ids(len(texts)), texts, strict=True)
        ]

    def _check(self, type_: str, options: EnqueueOptions) -> _Checked:
        queue = check_queue_name("default" if options.queue is None else options.queue)
        check_name(type_, "the type's name")
        priority = int(Priority.NORMAL) if options.priority is None else parse_priority(options.priority)
        if options.delay is not None and options.run_at is not None:
            raise InvalidJob("give either delay or run_at, not both")
        delay = 0.0 if options.delay is None else check_delay(options.delay)
        run_at = None if options.run_at is None else check_run_at(options.run_at)
        retries = options.max_retries
        retries = self._settings.defaults.max_retries if retries is None else check_max_retries(retries)
        tags = check_tags(options.tags or ())
        headers = NO_HEADERS if options.headers is None else check_headers(options.headers)
        return queue, (priority, delay, run_at, retries, tags), headers

    def _ordering_key(self, queue: str, options: EnqueueOptions) -> str | None:
        given = None if options.ordering_key is None else check_key(options.ordering_key, "ordering_key")
        return rules_of(self._rules, queue).key_of(given)

    async def insert(self, jobs: Sequence[NewJob], connection: Any = None) -> Sequence[Inserted]:
        """Write jobs, all or none; when this returns they are durable, and are offered meanwhile.

        On a caller's own connection they become durable when its transaction commits, and are offered to workers then.

        Raises:
            InvalidJob: there is no such store, or this is no connection to one.
            QueueFull, QueueClosed: a queue refuses them; nothing was written.
            LockHeld: another transaction has a key, or a queue's limit, for too long; nothing was written.
            StoreUnavailable: nothing was written, or it is not known whether it was.
        """
        if not jobs:
            return []
        if connection is not None:
            return await self._joining().insert_on(connection, jobs)
        # A caller that gives up takes only its own wait with it: a batch that is on its way has a task of its own.
        if not needs_locks(jobs, self._rules):
            return await self._batches_of(jobs).plain.put(jobs)
        (given,) = await self._batches_of(jobs).locking.put([jobs])
        answer = await given if isinstance(given, asyncio.Future) else given
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def prepare(self, jobs: Sequence[NewJob]) -> Callable[[Any], Coroutine[Any, Any, list[Inserted]]]:
        """Return what writes jobs on a blocking connection; it is to run in the thread of that connection's owner."""
        store = self._joining()
        prepared = await store.prepare(jobs)
        return lambda connection: store.insert_on(connection, jobs, prepared)

    def _joining(self) -> JoiningStore:
        store = self._backend.store
        if not isinstance(store, JoiningStore):
            raise InvalidJob(f"connection= needs a store in PostgreSQL or SQLite; this one is {store.name}")
        return store

    async def _flush_locking(self, lists: list[Sequence[NewJob]]) -> list[Answer | _Later]:
        """Write the lists of callers; those that need what a call waits for wait with it, and no other list does."""
        held = [self._held.must_wait(jobs) for jobs in lists]
        written = iter(await self._flush_free([jobs for jobs, one in zip(lists, held, strict=True) if not one]))
        return [self._held.put(jobs) if one else next(written) for jobs, one in zip(lists, held, strict=True)]

    async def _flush_free(self, lists: list[Sequence[NewJob]]) -> list[Answer | _Later]:
        """Write lists all at once, or each alone when a queue refuses one or a lock is held."""
        try:
            inserted = await self._flush([job for jobs in lists for job in jobs], BATCH_LOCK_SECONDS)
        except LockHeld:
            return [self._held.put(jobs) for jobs in lists]
        except Refusal as refusal:
            return [refusal] if len(lists) == 1 else [(await self._flush_free([jobs]))[0] for jobs in lists]
        ends = list(accumulate(map(len, lists)))
        return [inserted[end - len(jobs) : end] for end, jobs in zip(ends, lists, strict=True)]

    async def _flush_held(self, jobs: Sequence[NewJob], patience: float) -> list[Inserted]:
        return await self._flush(list(jobs), patience, again=True)

    async def _flush(self, jobs: list[NewJob], patience: float | None = None, again: bool = False) -> list[Inserted]:
        if not jobs:
            return []
        inserted, offered = await self._insert(jobs, patience, again)
        # The caller waits for durability only; offers and events are sent meanwhile.
        if not offered:
            await self._effects.add(jobs, inserted)
        return inserted

    async def _flush_again(self, jobs: list[NewJob]) -> list[Inserted]:
        inserted = await self._insert_rest(jobs)
        await self._effects.add(jobs, inserted)
        return inserted

    async def _insert(self, jobs: list[NewJob], patience: float | None, again: bool) -> tuple[list[Inserted], bool]:
        """Write jobs; return, too, whether the store has offered them and published their events.

        `patience`: seconds to wait for a lock, where the store has any; `again`: they have waited before.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        try:
            if self._offering is not None:
                if self._offering.offers(jobs):
                    return await self._offering.insert_offered(jobs), True
                return await self._offering.insert_new(jobs), False
            if self._locking is not None and patience is not None:
                return await self._locking.insert_soon(jobs, patience, again), False
            return await self._backend.store.insert(jobs), False
        except LockHeld:
            raise  # nothing was written
        except StoreUnavailable:
            if loop.time() >= ends:
                raise  # the callers' time is over, too
        return await self._insert_rest(jobs), False

    async def _insert_rest(self, jobs: list[NewJob]) -> list[Inserted]:
        """Write those of these jobs that an earlier call, which raised an error, has not written."""
        store = self._backend.store
        # The reply may have been lost after the commit. The ids are ours alone, so all records of them in the store
        # now were written then (and may have run since); the rest is written again.
        known = {final.id for final in await store.results([job.id for job in jobs])}
        if known and isinstance(store, ReplicatedStore):
            # It may be its replicas that have not answered: what they do not have, a failover loses.
            await store.confirm({job.queue for job in jobs if job.id in known})
        if known and isinstance(store, RestoringStore):
            store.remember([job for job in jobs if job.id in known])
        # Their answers may have other ids: those of the holders of their unique keys.
        again = iter(await store.insert([job for job in jobs if job.id not in known]))
        return [Inserted(job.id, job.queue, None, None, True) if job.id in known else next(again) for job in jobs]

    async def drain(self) -> None:
        """Wait until all added jobs are written and offered."""
        for one in (self._batches, *self._apart_batches.values()):
            await one.plain.drain()
            await one.locking.drain()
        await self._held.drain()
        await self._effects.drain()


def new_ids(count: int) -> list[str]:
    """Return so many ids, as `new_id` does, in half of the time; in order, so that they fill the pages of indexes.

    In any order of the random part, pages split in their middle: that took a tenth of what PostgreSQL writes ahead.
    """
    begin = f"{time.time_ns() // 1_000_000:012x}"
    begin, end = f"{begin[:8]}-{begin[8:]}-7", f"{random_source.getrandbits(76 * count):0{19 * count}x}"
    # Three digits, one of the variant, of which two bits are given, fifteen.
    ids = [
        f"{begin}{end[at : at + 3]}-{_VARIANT[end[at + 3]]}{end[at + 4 : at + 7]}-{end[at + 7 : at + 19]}"
        for at in range(0, 19 * count, 19)
    ]
    ids.sort()
    return ids


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def _unique_key(type_: str, options: EnqueueOptions) -> tuple[str | None, float | None]:
    if options.unique is None:
        if options.unique_for is not None:
            raise InvalidJob("unique_for says how long, and needs unique=, which says what")
        return None, None
    key = f"{type_}:{check_key(options.unique, 'unique')}"
    if options.unique_for is None:
        return key, None
    seconds = check_delay(options.unique_for, "unique_for")
    if not seconds:
        raise InvalidJob("unique_for: 0 is no time; leave it out for as long as the first job is unfinished")
    return key, seconds
