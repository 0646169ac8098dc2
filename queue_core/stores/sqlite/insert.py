"""Inserts, and the rules of queues as they are stored."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from queue_core.errors import InvalidJob, QueueClosed
from queue_core.model.addresses import path_of
from queue_core.model.job import Inserted, NewJob, headers_text
from queue_core.model.rules import Rules, band, rank, rules_of
from queue_core.stores.sqlite.capacity import Counts, KnownQueue, check_limits
from queue_core.stores.sqlite.dialect import load, texts
from queue_core.stores.sqlite.migrate import BEGIN
from queue_core.stores.sqlite.ordering import (
    Arrivals,
    SqliteOrderingLocks,
    SqliteUniqueKeys,
    next_numbers,
    notify_arrived,
    rank_of,
)
from queue_core.stores.sqlite.session import Params, SqliteFile, Transaction
from queue_core.stores.sqlite.statistics.totals import TallyWriter


class InsertRow(NamedTuple):
    """The place of an arriving job."""

    # None: it is due later, or waits for its ordering key
    rank: int | None
    # the last columns of insert/with_rules
    columns: tuple[Any, ...]


class InsertsWithRules:
    """One list of jobs of which some have keys, or come into queues with rules."""

    def __init__(self, transaction: Transaction, rules: Rules) -> None:
        self._transaction = transaction
        self._rules = rules
        self._ordering_locks = SqliteOrderingLocks(transaction, rules)
        self._arrivals = Arrivals(transaction, rules)
        self._unique = SqliteUniqueKeys(transaction)
        # queue -> new jobs by band of priority
        self._coming: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def holder(self, job: NewJob, queue_id: int, number: int) -> str:
        """Return the id of the job that holds the unique key from now on: this one if the key was free."""
        if job.unique_key is None:
            return job.id
        holder = self._unique.holder(queue_id, job.unique_key)
        if holder is None:
            self._unique.take(queue_id, job.unique_key, number, job.id, job.unique_seconds)
        return holder or job.id

    def place(self, job: NewJob, queue_id: int, number: int, run_at: float) -> InsertRow:
        """Place a new job, and count it."""
        self._coming[job.queue][band(job.priority)] += 1
        aged_rank = self._arrivals.aged_rank(job.queue, queue_id, job.priority, run_at)
        rank = admitted = None
        if run_at <= self._transaction.now:
            admitted = self._ordering_locks.admit(job.queue, queue_id, job.ordering_key)
            rank = None if admitted is False else rank_of(job.priority, number, aged_rank)
        return InsertRow(rank, (aged_rank, job.ordering_key, admitted, job.unique_key, job.unique_seconds))

    def write(self, queues: Mapping[str, KnownQueue]) -> None:
        """Check the limits of the queues before anything of the jobs is written, and keep the counts.

        Raises:
            QueueFull: a limit refuses them; nothing may be committed.
        """
        counts = Counts()
        for name, coming in self._coming.items():
            queue, rules = queues[name], rules_of(self._rules, name)
            if rules.limits:
                queue = check_limits(self._transaction, queue, rules, coming)
            if queue.keeps_counts:
                counts.arrive(queue.number, coming)
        counts.write(self._transaction)
        self._arrivals.write()


def insert(transaction: Transaction, jobs: Sequence[NewJob], rules: Rules) -> list[Inserted]:
    """Write jobs as queued or scheduled, creating their queues; an id or unique key that is there stays as it was.

    Raises:
        QueueFull, QueueClosed: a limit refuses them, or their queue is closed; nothing may be committed.
    """
    return SqliteInserts(transaction, jobs, rules).run()


def insert_on(connection: sqlite3.Connection, file: SqliteFile, jobs: Sequence[NewJob], rules: Rules) -> list[Inserted]:
    """Write jobs in the transaction of a caller's connection to the same file, which begins now if it had not.

    An error of the database is that of the driver: the transaction is the caller's.

    Raises:
        InvalidJob: the connection is to another file, or begins no transaction of its own.
        QueueFull, QueueClosed: they are refused; the caller must roll its transaction back.
    """
    given, connection.text_factory = connection.text_factory, str
    try:
        return _insert_on(connection, file, jobs, rules)
    finally:
        connection.text_factory = given


def _insert_on(
    connection: sqlite3.Connection, file: SqliteFile, jobs: Sequence[NewJob], rules: Rules
) -> list[Inserted]:
    transaction = CallersTransaction(connection, file.clock)
    path = path_of(file.settings.path)
    own = next((Path(name) for _, schema, name in transaction.rows("insert/files") if schema == "main" and name), None)
    if own is None or own.resolve() != path.resolve():
        raise InvalidJob(f"connection= is to {own or 'no file'}, and the jobs are in {path}")
    if not connection.in_transaction:
        # The second one is Python 3.12's way of the same.
        if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
            raise InvalidJob("connection= is in no transaction: begin the one with which the jobs are to commit")
        connection.execute(load(BEGIN))
    return insert(transaction, jobs, rules) if jobs else []


class CallersTransaction(Transaction):
    """Runs query files on a caller's connection, whatever that connection makes of rows."""

    __slots__ = ()

    def rows(self, query: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """Run a query file by its name and return its rows."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(load(query), params).fetchall()

    def each(self, query: str, params: Params = ()) -> Iterator[tuple[Any, ...]]:
        """Run a query file by its name and yield its rows."""
        yield from self.rows(query, params)


class SqliteInserts:
    """One list of jobs."""

    def __init__(self, transaction: Transaction, jobs: Sequence[NewJob], rules: Rules) -> None:
        self._transaction = transaction
        self._now = transaction.now
        self._jobs = jobs
        self._queues = queues_of(transaction, {job.queue for job in jobs})
        self._known = known_jobs(transaction, [job.id for job in jobs])
        self._number = next_numbers(transaction, len(jobs))
        # None: no job has a key, and no queue has rules or counts its jobs
        self._with_rules = InsertsWithRules(transaction, rules) if self._needs_rules(rules) else None
        self._rows: list[tuple[Any, ...]] = []
        self._payloads: list[tuple[int, str, str | None]] = []
        self._arrived: Counter[int] = Counter()
        self._tally_writer = TallyWriter()

    def _needs_rules(self, rules: Rules) -> bool:
        if any(queue.keeps_counts or queue.name in rules for queue in self._queues.values()):
            return True
        return any(job.ordering_key is not None or job.unique_key is not None for job in self._jobs)

    def run(self) -> list[Inserted]:
        """Decide on every job, then write those that are new."""
        transaction = self._transaction
        answers = [self._insert(job) for job in self._jobs]
        if self._with_rules is None:
            transaction.run_many("insert/jobs", self._rows)
        else:
            self._with_rules.write(self._queues)
            transaction.run_many("insert/with_rules", self._rows)
        transaction.run_many("insert/payloads", self._payloads)
        notify_arrived(transaction, self._arrived)
        self._tally_writer.write(transaction)
        return answers

    def _insert(self, job: NewJob) -> Inserted:
        if job.id in self._known:
            return Inserted(job.id, job.queue, None, None, False)
        queue = self._queues[job.queue]
        queue_id, number, now = queue.number, self._number + 1, self._now
        run_at = max(now, now + job.delay if job.run_at is None else job.run_at)
        if self._with_rules is None:
            ready, extra = InsertRow(None if run_at > now else rank(job.priority, number), ())
        else:
            holder = self._with_rules.holder(job, queue_id, number)
            if holder != job.id:
                return Inserted(holder, job.queue, None, None, False)
            ready, extra = self._with_rules.place(job, queue_id, number, run_at)
        if queue.closed:
            raise QueueClosed(job.queue)
        self._known.add(job.id)
        self._number = number
        state = "scheduled" if run_at > now else "queued"
        tags = json.dumps(job.tags) if job.tags else None
        self._rows.append(
            (number, job.id, queue_id, job.type, state, job.priority, ready, run_at, job.max_retries, tags, now, *extra)
        )
        self._payloads.append((number, job.payload, headers_text(job)))
        self._arrived[queue_id] += ready is not None
        self._tally_writer.note(queue_id, job.type, "enqueued")
        return Inserted(job.id, job.queue, ready, run_at if run_at > now else None, True)


def known_jobs(transaction: Transaction, ids: Sequence[str]) -> set[str]:
    """Return those of these ids that jobs have."""
    return {row[0] for row in transaction.rows("insert/known", (texts(ids),))}


def queues_of(transaction: Transaction, names: set[str]) -> dict[str, KnownQueue]:
    """Return queues by their names, made where they do not exist.

    Raises:
        InvalidJob: no queue can have such a name.
    """
    if any("\0" in name for name in names):
        raise InvalidJob("a queue's name holds a NUL character")
    found = known_queues(transaction, names)
    missing = names - found.keys()
    if missing:
        transaction.run_many("insert/queue", [(name,) for name in sorted(missing)])
        found = known_queues(transaction, names)
    return found


def known_queues(transaction: Transaction, names: set[str]) -> dict[str, KnownQueue]:
    """Return queues by their names, as far as they exist."""
    return {row[0]: KnownQueue._make(row) for row in transaction.rows("insert/queues", (texts(names),))}
