"""Inserts, in the store's or a caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from psycopg.errors import NotNullViolation, ReadOnlySqlTransaction

from queue_core.errors import InvalidJob, QueueClosed
from queue_core.model.job import Inserted, JobResult, NewJob, headers_text, size_of, weight_of
from queue_core.model.rules import Rules, rules_of
from queue_core.ports.locks import LockHeld
from queue_core.runtime import MAX_STATEMENT_LENGTH, parts_of
from queue_core.stores.postgres.capacity import take_capacity
from queue_core.stores.postgres.dialect import plain_array, text_array
from queue_core.stores.postgres.ordering import (
    KeyRequest,
    count_arrivals,
    create_locks,
    each_arrival,
    lock_keys,
    read_committed,
    take_unique,
    unblock_next,
)
from queue_core.stores.postgres.scans.ranks import named, spell
from queue_core.stores.postgres.session.failures import IdsKnown, QueuesLost, translate
from queue_core.stores.postgres.session.plans import MAX_ANSWER_BYTES, ROW_BYTES, Last, Plan, run_plan
from queue_core.stores.postgres.session.queue_ids import IdsByQueue, QueueIds
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.session.transaction import driver_connection, in_one, patient, run_on
from queue_core.stores.sql.records import known_ids, result_of

JOBS_PER_TIMEOUT = 10_000
"""Jobs of a list that is written in parts, for which it has the time limit of a statement once more."""

_new = tuple.__new__


def is_plain(jobs: Sequence[NewJob], rules: Rules) -> bool:
    """Return whether one statement is enough: no keys, and neither limits nor aging in their queues."""
    for job in jobs:
        if job.ordering_key is not None or job.unique_key is not None:
            return False
    return not any(rules_of(rules, name).locks_enqueues for name in {job.queue for job in jobs})


def parts_for(jobs: Sequence[NewJob]) -> Sequence[Sequence[NewJob]]:
    """Return the jobs as the statements that write them: several where their payloads are large."""
    if weight_of(jobs) <= MAX_STATEMENT_LENGTH:
        return [jobs]
    return list(parts_of(jobs, size_of))


def _answered_parts(jobs: Sequence[NewJob]) -> list[list[NewJob]]:
    """Return the same, but several also where the server's answers would be long under a lock."""
    return [part for whole in parts_for(jobs) for part in parts_of(whole, lambda _: ROW_BYTES, MAX_ANSWER_BYTES)]


def insert_parts(
    parts: Sequence[Sequence[NewJob]], queue_ids: IdsByQueue, compare: bool = True
) -> Plan[list[Inserted]]:
    """Write jobs without keys, a statement for each part, in one transaction.

    A transaction whose snapshot is older than a queue does not see its row: there the ids are not compared.
    """
    written: list[Inserted] = []
    unnamed = {} if compare else {"names": text_array([]), "numbers": plain_array([])}
    for place, part in enumerate(parts, start=1):
        step = "insert/jobs", insert_parameters(part, queue_ids) | unnamed
        written += inserted(part, (yield Last(*step) if place == len(parts) else step))
    return written


def insert_parameters(jobs: Sequence[NewJob], queue_ids: IdsByQueue) -> dict[str, Any]:
    """Return the parameters of `insert/jobs`, given the ids of the queues."""
    names = list(dict.fromkeys([job.queue for job in jobs]))
    return {
        "names": text_array(names),
        "numbers": plain_array([queue_ids[name] for name in names]),
        "id": plain_array([job.id for job in jobs]),
        "queue_id": plain_array([queue_ids[job.queue] for job in jobs]),
        "type": text_array([job.type for job in jobs]),
        "payload": text_array([job.payload for job in jobs]),
        "priority": plain_array([job.priority for job in jobs]),
        "delay": plain_array([job.delay for job in jobs]),
        "run_at": plain_array([job.run_at for job in jobs]),
        "max_retries": plain_array([job.max_retries for job in jobs]),
        "tags": text_array([text_array(job.tags) if job.tags else None for job in jobs]),
        # `unnest` fills up what a shorter array lacks with NULL
        "headers": text_array([headers_text(job) for job in jobs] if any([job.headers for job in jobs]) else []),
    }


def job_parameters(job: NewJob, queue_id: int) -> dict[str, Any]:
    """Return the parameters of `insert/job`; numbers as text, so that all their sizes share a prepared statement."""
    return {"id": job.id, "payload": job.payload, **_option_parameters(job, queue_id)}


def _option_parameters(job: NewJob, queue_id: int) -> dict[str, Any]:
    return {
        "queue_id": str(queue_id),
        "queue": job.queue,
        "type": job.type,
        "priority": str(job.priority),
        "delay": str(job.delay),
        "run_at": None if job.run_at is None else str(job.run_at),
        "max_retries": str(job.max_retries),
        "tags": text_array(job.tags) if job.tags else None,
        "headers": headers_text(job),
    }


def differ_in_payload_alone(jobs: Sequence[NewJob]) -> bool:
    """Return whether jobs have the same queue, type and options, as those of one list have."""
    queue, type_, same = jobs[0].queue, jobs[0].type, jobs[0][4:]
    return not [1 for job in jobs if job[4:] != same or job.type != type_ or job.queue != queue]


BETWEEN = "\x1f"
"""What parts payloads: JSON has control characters as escapes alone."""


def same_parameters(jobs: Sequence[NewJob], queue_id: int) -> dict[str, Any] | None:
    """Return the parameters of `insert/same_jobs`; None: a payload is no JSON."""
    payloads = BETWEEN.join([job.payload for job in jobs])
    if payloads.count(BETWEEN) != len(jobs) - 1:
        return None
    ids = "{" + ",".join([job.id for job in jobs]) + "}"
    return {"ids": ids, "payloads": payloads, **_option_parameters(jobs[0], queue_id)}


def _inserted_same(jobs: Sequence[NewJob], row: tuple[Any, ...]) -> list[Inserted]:
    first, ranks, due = row
    if first is None:
        return [_new(Inserted, (job.id, job.queue, None, due, True)) for job in jobs]
    places = range(first, first + len(jobs)) if ranks is None else ranks
    # As `Inserted(…)` makes them, in half of the time.
    return [_new(Inserted, (job.id, job.queue, rank, None, True)) for job, rank in zip(jobs, places, strict=True)]


def inserted(jobs: Sequence[NewJob], rows: Sequence[tuple[Any, ...]]) -> list[Inserted]:
    """Return the result of each job, in order; an id that is not in the rows already existed."""
    written = {job_id: (rank, due) for job_id, rank, due in rows}
    return [_answer(job, written.pop(job.id, None)) for job in jobs]


def _answer(job: NewJob, row: tuple[int | None, float] | None) -> Inserted:
    if row is None:
        return Inserted(job.id, job.queue, None, None, False)
    rank, due = row
    return Inserted(job.id, job.queue, rank, None if rank is not None else due, True)


def insert_with_rules(jobs: Sequence[NewJob], queue_ids: IdsByQueue, rules: Rules) -> Plan[list[Inserted]]:
    """Write jobs under unique keys, limits, ordering keys and aging, in one transaction.

    It locks, in this order, until the transaction ends: unique keys, limits, ordering keys, arrivals.

    Raises:
        QueueFull: a limit refuses them; the transaction must be rolled back.
    """
    unique = [job for job in jobs if job.unique_key is not None]
    holders = yield from take_unique(
        [KeyRequest(queue_ids[job.queue], str(job.unique_key), job.id, job.unique_seconds) for job in unique]
    )
    held = {job.id: holders[queue_ids[job.queue], str(job.unique_key)] for job in unique}
    new = [job for job in jobs if held.get(job.id, job.id) == job.id]
    yield from take_capacity(new, queue_ids, rules)
    written = yield from _write(new, queue_ids, rules)
    answers = {one.id: one for one in written if one.created}
    return [
        answers.pop(job.id)
        if job.id in answers
        else Inserted(held.get(job.id, job.id), job.queue, None, None, created=False)
        for job in jobs
    ]


def _write(jobs: Sequence[NewJob], queue_ids: IdsByQueue, rules: Rules) -> Plan[list[Inserted]]:
    if not jobs:
        return []
    # One with a delay waits for its key when it is due; one with a time may be due already.
    locks = yield from lock_keys(
        [(job.queue, job.ordering_key) for job in jobs if job.ordering_key is not None and not job.delay > 0]
    )
    arrivals = yield from count_arrivals((job.queue for job in jobs), rules)
    arrived = iter(list(each_arrival((job.queue for job in jobs), arrivals)))
    rows: list[tuple[Any, ...]] = []
    parts = _answered_parts(jobs)
    for place, part in enumerate(parts, start=1):
        params = insert_parameters(part, queue_ids) | {
            "ordering_key": text_array([job.ordering_key for job in part]),
            "unique_key": text_array([job.unique_key for job in part]),
            "unique_seconds": plain_array([job.unique_seconds for job in part]),
            "aging_us": plain_array([rules_of(rules, job.queue).aging_us for job in part]),
            "arrival_us": plain_array(islice(arrived, len(part))),
        }
        step = "insert/with_rules", params
        rows += yield Last(*step) if place == len(parts) and not locks.rows else step
    unblocked = yield from unblock_next(locks, rules, whole=False)
    ranks = {one.ready.id: one.ready.rank for one in unblocked}
    return inserted(jobs, [(job_id, ranks.get(job_id, rank), due) for job_id, rank, due in rows])


def _ranks_by_queue(written: Sequence[Inserted]) -> dict[str, str]:
    """Return the notification of jobs that a caller's transaction commits, maybe long after they took their places."""
    queues: dict[str, list[int]] = {job.queue: [] for job in written}
    for job in written:
        if job.rank is not None:
            queues[job.queue].append(job.rank)
    ranks_by_queue = [spell(named(ranks), queue) for queue, ranks in sorted(queues.items()) if ranks]
    return {"queues": text_array(sorted(queues)), "ranks": text_array(ranks_by_queue)}


async def _insert_new(runner: SerialRunner, jobs: Sequence[NewJob], queue_ids: IdsByQueue) -> list[Inserted]:
    """Write jobs without keys, whose ids are new unless an answer was lost."""
    if len(jobs) == 1:
        rows = await runner.run("insert/job", job_parameters(jobs[0], queue_ids[jobs[0].queue]))
    elif differ_in_payload_alone(jobs) and (same := same_parameters(jobs, queue_ids[jobs[0].queue])):
        (row,) = await runner.run("insert/same_jobs", same)
        return _inserted_same(jobs, row)
    else:
        rows = await runner.run("insert/new_jobs", insert_parameters(jobs, queue_ids))
    return [Inserted(job.id, job.queue, rank, due, True) for job, (rank, due) in zip(jobs, rows, strict=True)]


class Runners(NamedTuple):
    """Runners of inserts: calls of one never wait behind what those of another wait for."""

    # that wait for locks as long as they may
    patient: SerialRunner
    # that wait a moment
    soon: SerialRunner
    # that have waited, and try again
    again: SerialRunner


class PostgresInserts:
    """Inserts and results; see queue_core.ports.store.JobStore for the methods."""

    def __init__(self, runners: Runners, reads: SerialRunner, queue_ids: QueueIds, rules: Rules) -> None:
        self._runners = runners
        self._runner = runners.patient
        self._reads = reads
        self._queue_ids = queue_ids
        self._rules = rules
        # what the server calls the database of the jobs, and another name for it
        self._database = self._alias = ""

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; return results in their order.

        Raises:
            QueueClosed: one of their queues is closed; nothing was written.
        """
        return await self._insert_open(jobs, self._runners.patient)

    async def insert_soon(self, jobs: Sequence[NewJob], patience: float, again: bool) -> list[Inserted]:
        """See queue_core.ports.locks.LockingStore."""
        runner = self._runners.again if again else self._runners.soon
        return await self._insert_open(jobs, runner, patience)

    async def _insert_open(
        self, jobs: Sequence[NewJob], runner: SerialRunner, patience: float | None = None
    ) -> list[Inserted]:
        if not jobs:
            return []
        try:
            return await self._insert(jobs, runner, patience)
        except QueuesLost:
            queues = {job.queue for job in jobs}
            for (name,) in await runner.run("insert/closed", {"names": text_array(sorted(queues))}):
                raise QueueClosed(name) from None
            self._queue_ids.forget(queues)
            return await self._insert(jobs, runner, patience)

    async def _insert(self, jobs: Sequence[NewJob], runner: SerialRunner, patience: float | None) -> list[Inserted]:
        queue_ids = await self._queue_ids.create({job.queue for job in jobs}, runner)
        parts = parts_for(jobs)
        plain = is_plain(jobs, self._rules)
        if plain and len(parts) == 1:
            with suppress(IdsKnown):
                return await _insert_new(runner, jobs, queue_ids)
            return inserted(jobs, await runner.run("insert/jobs", insert_parameters(jobs, queue_ids)))
        return await runner.run_plan(
            lambda: insert_parts(parts, queue_ids) if plain else insert_with_rules(jobs, queue_ids, self._rules),
            len(parts),
            patient=patience is None,
            weight=weight_of(jobs),
            patience=patience,
        )

    async def insert_parts(self, parts: Callable[[], Iterator[Sequence[NewJob]]], count: int) -> list[Inserted]:
        """See queue_core.ports.streams.StreamingStore."""
        runner, queue = self._runners.patient, next(parts())[0].queue
        try:
            queue_ids = await self._queue_ids.create({queue}, runner)
            answers = await runner.run_steps(
                lambda: (("insert/same_jobs", same_parameters(part, queue_ids[queue])) for part in parts()),
                times=1 + count // JOBS_PER_TIMEOUT,
            )
        except (QueuesLost, IdsKnown):
            return await self.insert([job for part in parts() for job in part])
        written = zip(parts(), answers, strict=True)
        return [one for part, (row,) in written for one in _inserted_same(part, row)]

    async def prepare(self, jobs: Sequence[NewJob]) -> Mapping[str, int]:
        """Create these jobs' queues and ordering locks before their transaction locks anything; return the queues' ids.

        Queues are created in a transaction of their own, since a cached id must not be rolled back with the caller's
        work; and so are the rows of ordering locks, so that callers that must not wait for one find it locked.
        """
        if not self._database:
            ((self._database,),) = await self._reads.run("insert/database")
        # Looked up each time: a wrong id would end the transaction.
        self._queue_ids.forget({job.queue for job in jobs})
        queue_ids = await self._queue_ids.create({job.queue for job in jobs}, self._runner)
        keyed = {(job.queue, job.ordering_key) for job in jobs if job.ordering_key is not None}
        if keyed:
            with suppress(LockHeld):
                await self._runner.run_plan(lambda: create_locks(keyed), patient=False)
        return queue_ids

    async def write_on(self, connection: Any, jobs: Sequence[NewJob], queue_ids: Mapping[str, int]) -> list[Inserted]:
        """Write the jobs in the transaction for which they were prepared; they are invisible before it commits.

        The unique keys, limits, ordering keys and arrivals that they take are locked until then: others wait.

        Raises:
            QueueClosed: their queue is closed; the transaction must be rolled back.
            InvalidJob: the transaction may only read, its isolation level does not suit the queue's rules, or it is
                one of another database.
            StoreUnavailable: another transaction holds one of these for too long; this one must be rolled back.
        """
        if not jobs:
            return []
        try:
            return await self._write_on(connection, jobs, queue_ids)
        except NotNullViolation as error:
            # The ids were read just before. Nothing can be read in a transaction that has failed.
            if isinstance(translate(error), QueuesLost):
                raise QueueClosed(" or ".join(sorted({job.queue for job in jobs}))) from error
            raise
        except ReadOnlySqlTransaction as error:
            raise InvalidJob(
                "connection= is in a transaction that may only read; enqueue in one that may write, on the primary"
            ) from error

    async def _write_on(self, connection: Any, jobs: Sequence[NewJob], queue_ids: Mapping[str, int]) -> list[Inserted]:
        driver = await driver_connection(connection)
        run = partial(run_on, driver, self._runner.schema)
        # A pooler may have names of its own for databases, so the server has the last word on one that is new.
        if driver.info.dbname not in {self._database, self._alias}:
            ((database,),) = await run("insert/database", {})
            if database != self._database:
                raise InvalidJob(f"connection= is to the database '{database}', and the jobs are in '{self._database}'")
            self._alias = driver.info.dbname
        async with in_one(driver):
            if is_plain(jobs, self._rules):
                written = await run_plan(insert_parts(parts_for(jobs), queue_ids, compare=False), run)
            else:
                await run_plan(read_committed("a job under the rules of a queue", InvalidJob), run)
                async with patient(driver, self._runner.schema, self._runner.timeout):
                    written = await run_plan(insert_with_rules(jobs, queue_ids, self._rules), run)
            await run("insert/notify", _ranks_by_queue(written))
        return written

    async def results(self, ids: Sequence[str], seconds: float) -> list[JobResult]:
        """Return the records of these jobs, unknown ids left out; results until `seconds` after the end."""
        rows = await self._reads.read("insert/worker_results", {"ids": plain_array(known_ids(ids)), "seconds": seconds})
        return [result_of(row) for row in rows]
