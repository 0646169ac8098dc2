"""Enqueueing: checks jobs and writes them to the store in natural batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from queue_core.client.effects import CreationEffects
from queue_core.client.joblist import Dump, JobFactory, JobList, PartsEnded
from queue_core.client.lock_waiters import BATCH_LOCK_SECONDS, Answer, LockWaiters, Refusal, needs_locks
from queue_core.client.tasks import EnqueueOptions
from queue_core.errors import InvalidJob, QueueClosed, StoreUnavailable
from queue_core.model.job import Inserted, NewJob, weight_of
from queue_core.model.settings import JobsSettings
from queue_core.ports.backend import Backend
from queue_core.ports.locks import LockHeld, LockingStore
from queue_core.ports.offers import OfferingStore
from queue_core.ports.replicas import ReplicatedStore, RestoringStore
from queue_core.ports.store import JoiningStore
from queue_core.ports.streams import StreamingStore
from queue_core.runtime import MAX_STATEMENT_LENGTH, Batcher

MAX_BATCH_JOBS = 1000
"""Jobs of different callers that one statement gathers at most; a single caller's list is never torn apart."""

MAX_SEPARATE_QUEUES = 1000
"""Queues whose batches are kept apart while they are idle."""

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
        self._streaming = backend.store if isinstance(backend.store, StreamingStore) else None
        self._settings = settings
        self._rules = settings.rules
        self._seconds = settings.store_timeout
        # Calls of different queues share a batch, but not where a queue may be away that others need not wait for.
        self._apart = self._offering is not None and self._offering.apart
        self._held = LockWaiters(self._flush_held, self._rules, self._seconds)
        self._batches = self._make_batches()
        # One at a time, as the store writes them.
        self._lists: Batcher[JobList, Sequence[Inserted]] = Batcher(self._flush_list, 1)
        self._lists.limit_waits(self._seconds, self._no_answer)
        # by queue, where they are apart
        self._apart_batches: dict[str, _Batches] = {}
        self._factory = JobFactory(settings)
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

    def list_of(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions, dump: Dump
    ) -> JobList:
        """Return the jobs of a call, to be built; `dump` brings payloads into their JSON form."""
        return JobList(self._factory, type_, payloads, options, dump)

    async def insert_list(self, jobs: JobList, connection: Any = None) -> Sequence[Inserted]:
        """Build and write the jobs of a long list, all or none; see `insert`.

        A store that can do so begins to write it before all of it is built.

        Raises:
            InvalidJob: an item cannot become a job; the message names it. Nothing was written.
        """
        if self._streaming is not None and connection is None:
            first, weight = jobs.begin()
            if weight <= MAX_STATEMENT_LENGTH and not needs_locks(first, self._rules):
                (inserted,) = await self._lists.put([jobs])
                return inserted
        return await self.insert(await jobs.whole(), connection)

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

    async def _flush_list(self, lists: list[JobList]) -> list[Sequence[Inserted]]:
        """Write a list that the store takes in parts."""
        (jobs,) = lists
        assert self._streaming is not None
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        try:
            inserted = await self._streaming.insert_parts(jobs)
        except PartsEnded:
            return [await self._flush(await jobs.whole())]
        except StoreUnavailable:
            if loop.time() >= ends:
                raise
            inserted = await self._insert_rest(await jobs.whole())
        await self._effects.add(await jobs.whole(), inserted)
        return [inserted]

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
        await self._lists.drain()
        for one in (self._batches, *self._apart_batches.values()):
            await one.plain.drain()
            await one.locking.drain()
        await self._held.drain()
        await self._effects.drain()
