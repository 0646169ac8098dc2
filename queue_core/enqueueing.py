"""The way of a job into the store: checked, written in natural batches, then offered and announced."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from queue_core.batching import Batcher
from queue_core.codec import encode_payload
from queue_core.dispatch import DispatchUnavailable, Due
from queue_core.errors import InvalidJob, QueueFull, StoreUnavailable
from queue_core.events import Event, EventName
from queue_core.identifiers import new_id
from queue_core.job import Inserted, NewJob, Ready
from queue_core.opening import Parts
from queue_core.priorities import Priority, parse_priority
from queue_core.rules import rules_of
from queue_core.settings import JobsSettings
from queue_core.states import Status
from queue_core.store import TransactionalStore
from queue_core.tasks import EnqueueOptions
from queue_core.validation import check_delay, check_key, check_max_retries, check_name, check_run_at, check_tags

BATCH = 1000
"""Jobs of different callers that one statement gathers at most; a single caller's list is never torn apart."""
LIST = 50
"""Jobs that are written together, from which on telling of them takes longer than a few rounds of the event loop."""
ROUNDS = 12
"""Of the event loop, from the answer to a caller until the next insert of that caller is on its way; some 0.1 ms."""

logger = logging.getLogger("queue_core")


class Enqueueing:
    """Turns payloads into stored jobs; nothing is written before everything has been checked."""

    def __init__(self, parts: Parts, settings: JobsSettings) -> None:
        self._parts = parts
        self._settings = settings
        self._batcher: Batcher[NewJob, Inserted] = Batcher(self._flush, BATCH)
        # Lists of queues with limits: one that is refused must not take the others with it.
        self._limited: Batcher[Sequence[NewJob], Sequence[Inserted] | QueueFull] = Batcher(self._flush_limited, BATCH)
        self._telling: set[asyncio.Task[None]] = set()

    def build(self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions) -> list[NewJob]:
        """Return the jobs of a call.

        Raises:
            InvalidJob: something in it cannot become a job; the sentence says what.
        """
        queue = check_name("default" if options.queue is None else options.queue, "the queue's name")
        type_ = check_name(type_, "the type's name")
        priority = int(Priority.NORMAL) if options.priority is None else parse_priority(options.priority)
        if options.delay is not None and options.run_at is not None:
            raise InvalidJob("give either delay or run_at, not both")
        delay = 0.0 if options.delay is None else check_delay(options.delay)
        run_at = None if options.run_at is None else check_run_at(options.run_at)
        retries = options.max_retries
        retries = self._settings.defaults.max_retries if retries is None else check_max_retries(retries)
        tags = check_tags(options.tags or ())
        keys = (self._ordering_key(queue, options), *_unique_key(type_, options))
        limit = self._settings.limits.payload
        return [
            NewJob(
                new_id(), queue, type_, encode_payload(payload, limit), priority, delay, run_at, retries, tags, *keys
            )
            for payload in payloads
        ]

    def _ordering_key(self, queue: str, options: EnqueueOptions) -> str | None:
        given = None if options.ordering_key is None else check_key(options.ordering_key, "ordering_key")
        return rules_of(self._settings.queues, queue).key_of(given)

    async def put(self, jobs: Sequence[NewJob], connection: Any = None) -> Sequence[Inserted]:
        """Write jobs, all or none; when this returns they are durable and, while Redis answers, on their way to it.

        On a caller's own connection they become durable when its transaction commits, and workers hear of them then.

        Raises:
            InvalidJob: there is no such store, or this is no connection to one.
            QueueFull: a limit of a queue refuses them; nothing was written.
            StoreUnavailable: nothing was written, or it is not known whether it was.
        """
        if not jobs:
            return []
        if connection is not None:
            store = self._parts.store
            if not isinstance(store, TransactionalStore):
                raise InvalidJob(f"connection= needs a store in PostgreSQL; this one is {store.name}")
            return await store.insert_on(connection, jobs)
        # Shielded: a caller that gives up must not tear the others out of a batch that is on its way.
        if not any(rules_of(self._settings.queues, queue).limits for queue in {job.queue for job in jobs}):
            return await asyncio.shield(self._batcher.put(jobs))
        (answer,) = await asyncio.shield(self._limited.put([jobs]))
        if isinstance(answer, QueueFull):
            raise answer
        return answer

    async def _flush_limited(self, lists: list[Sequence[NewJob]]) -> list[Sequence[Inserted] | QueueFull]:
        """Write lists of which a limit may refuse some: all at once, or each alone when there is no room for all."""
        try:
            inserted = await self._flush([job for jobs in lists for job in jobs])
        except QueueFull as full:
            return [full] if len(lists) == 1 else [(await self._flush_limited([jobs]))[0] for jobs in lists]
        ends = list(accumulate(map(len, lists)))
        return [inserted[end - len(jobs) : end] for end, jobs in zip(ends, lists, strict=True)]

    async def _flush(self, jobs: list[NewJob]) -> list[Inserted]:
        inserted = await self._insert(jobs)
        # Durable is what the caller waits for; the news travels meanwhile. One batch's news at a time: a slow server
        # slows producers down instead of filling their memory.
        await self._told()
        telling = asyncio.create_task(self._tell(jobs, inserted))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        return inserted

    async def _tell(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        try:
            if len(jobs) < LIST:
                # A worker waits for the offer, nobody for the event.
                await self._offer(inserted)
                await self._parts.bus.publish(created(jobs, inserted))
                return
            # The caller may be about to hand in the next list. What is to be told of this one is put into words
            # while the server inserts that; if none comes, the rounds are over at once.
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
            await asyncio.gather(self._offer(inserted), self._parts.bus.publish(created(jobs, inserted)))
        except Exception:
            # Nobody waits for this any more: the rows are committed, and the audit offers them.
            logger.exception("enqueued jobs were not offered")

    async def _told(self) -> None:
        if self._telling:
            await asyncio.wait(list(self._telling))

    async def _insert(self, jobs: list[NewJob]) -> list[Inserted]:
        store = self._parts.store
        try:
            return await store.insert(jobs)
        except StoreUnavailable:
            # The reply may have been lost after the commit. The ids are ours alone, so whatever the store knows of them
            # now was written then (and may have run since); the rest is written again.
            known = {final.id for final in await store.finals([job.id for job in jobs])}
            again = {one.id: one for one in await store.insert([job for job in jobs if job.id not in known])}
            return [again.get(job.id) or Inserted(job.id, job.queue, None, None, True) for job in jobs]

    async def _offer(self, inserted: Sequence[Inserted]) -> None:
        dispatcher = self._parts.dispatcher
        if dispatcher is None:
            return
        ready = [Ready(one.id, one.queue, one.rank) for one in inserted if one.rank is not None]
        due = [Due(one.id, one.queue, one.due) for one in inserted if one.due is not None]
        try:
            if ready:
                await dispatcher.offer(ready)
            if due:
                await dispatcher.schedule(due)
        except DispatchUnavailable:
            return  # the rows are committed; the audit offers them

    async def drain(self) -> None:
        """Wait until everything handed in is written and offered."""
        await self._batcher.drain()
        await self._limited.drain()
        await self._told()


def created(jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> list[Event]:
    """Return what subscribers are told of new jobs."""
    return [
        Event(
            EventName.CREATED,
            job.queue,
            job.id,
            job.type,
            0,
            {"priority": job.priority, "status": Status.QUEUED}
            if one.due is None
            else {"priority": job.priority, "status": Status.SCHEDULED, "due": one.due},
        )
        for job, one in zip(jobs, inserted, strict=True)
        if one.created
    ]


def _unique_key(type_: str, options: EnqueueOptions) -> tuple[str | None, float | None]:
    if options.unique is None:
        if options.unique_for is not None:
            raise InvalidJob("unique_for says how long, and needs unique=, which says what")
        return None, None
    key = f"{type_}:{check_key(options.unique, 'unique')}"
    return key, None if options.unique_for is None else check_delay(options.unique_for, "unique_for")
