"""Changes by operators: jobs are found, changed and moved in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import uniform
from typing import NamedTuple

from queue_core.errors import QueueNotFound
from queue_core.model.job import Ready
from queue_core.model.operation import UNCHANGED, VERBS, Changed, ChangeOptions, MemberVerb, WorkerOrder
from queue_core.model.rules import Rules, key_in
from queue_core.model.states import Status
from queue_core.model.text import storable
from queue_core.stores.sqlite.capacity import Counts
from queue_core.stores.sqlite.claim import keep_outcomes, take_tokens
from queue_core.stores.sqlite.dialect import texts
from queue_core.stores.sqlite.insert import known_queues, queues_of
from queue_core.stores.sqlite.ordering import (
    Arrivals,
    SqliteOrderingLocks,
    SqliteUniqueKeys,
    forget,
    next_numbers,
    notify_arrived,
    rank_of,
    release_keys,
)
from queue_core.stores.sqlite.session import Transaction
from queue_core.stores.sqlite.statistics.totals import TallyWriter
from queue_core.stores.sqlite.upkeep import remove


class TargetRow(NamedTuple):
    """The columns of change/jobs."""

    number: int
    id: str
    queue_id: int
    queue: str
    type: str
    state: str
    priority: int
    run_at: float
    cancel: int
    # its ordering key
    key: str | None
    # 1: it was released by the key and holds it
    admitted: int | None
    unique_key: str | None
    unique_seconds: float | None
    # whether its queue counts its jobs
    keeps_counts: int
    token: int
    # how the worker ended the attempt of that token; None: it did not
    last_outcome: str | None


class RowChange(NamedTuple):
    """A job before and after a change: the same object if its queue and priority stay."""

    old: TargetRow
    new: TargetRow


class Position(NamedTuple):
    """The place of a requeued job."""

    seq: int
    aged_rank: int | None
    # None: it is not due yet, or waits for its ordering key
    rank: int | None
    admitted: bool | None


class Positions:
    """Orders requeued jobs, and releases the due ones as their keys allow."""

    def __init__(self, transaction: Transaction, rules: Rules, count: int) -> None:
        self._transaction = transaction
        self._seq = next_numbers(transaction, count)
        self._ordering_locks = SqliteOrderingLocks(transaction, rules)
        self._arrivals = Arrivals(transaction, rules)
        self._ready: list[tuple[int, Ready]] = []

    def take(self, job: TargetRow, run_at: float, due: bool) -> Position:
        """Return the next position, that of a job that arrives now."""
        self._seq += 1
        aged_rank = self._arrivals.aged_rank(job.queue, job.queue_id, job.priority, run_at)
        admitted = True if job.admitted else None
        if not due:
            return Position(self._seq, aged_rank, None, admitted)
        admitted = admitted or self._ordering_locks.admit(job.queue, job.queue_id, job.key)
        if admitted is False:
            return Position(self._seq, aged_rank, None, admitted)
        rank = rank_of(job.priority, self._seq, aged_rank)
        self._ready.append((job.queue_id, Ready(job.id, job.queue, rank)))
        return Position(self._seq, aged_rank, rank, admitted)

    def write(self) -> tuple[Ready, ...]:
        """Let others know, after the jobs were written; return those that are ready."""
        self._arrivals.write()
        notify_arrived(self._transaction, [queue_id for queue_id, _ in self._ready])
        return tuple(one for _, one in self._ready)


def hand_over(transaction: Transaction, changes: Iterable[RowChange]) -> None:
    """Give jobs that are about to wait the keys that they hold while they are unfinished, if free, where they go on."""
    unique = SqliteUniqueKeys(transaction)
    for old, new in changes:
        if new.unique_key is None or new.unique_seconds is not None:
            continue
        if old is not new:
            unique.drop(old.queue_id, new.unique_key, old.number)
        if unique.holder(new.queue_id, new.unique_key) is None:
            unique.take(new.queue_id, new.unique_key, new.number, new.id, None)


def unblock_next(transaction: Transaction, rules: Rules, jobs: Iterable[TargetRow]) -> tuple[Ready, ...]:
    """Return the next jobs of ordering keys, after their release by these jobs was written."""
    return release_keys(transaction, rules, [(job.queue, job.queue_id, job.key) for job in jobs if job.admitted])


def count_waiting(transaction: Transaction, jobs: Iterable[TargetRow], each: int) -> None:
    """Add to the counts of the queues that count how many of their jobs wait."""
    counts = Counts()
    for job in jobs:
        if job.keeps_counts:
            counts.move(job.queue_id, job.priority, waiting=each)
    counts.write(transaction)


def move(transaction: Transaction, rules: Rules, jobs: list[TargetRow], options: ChangeOptions) -> Changed:
    """Give waiting and dead jobs to another queue or priority; their states and times stay."""
    changes = [change for change in transferred(transaction, rules, jobs, options) if change.old is not change.new]
    waiting = [change for change in changes if change.old.state != "dead"]
    dead = [change for change in changes if change.old.state == "dead"]
    positions = Positions(transaction, rules, len(waiting))
    rows = []
    for _, job in waiting:
        position = positions.take(job, job.run_at, job.state == "queued")
        rows.append((job.queue_id, job.priority, job.key, *position, job.number))
    hand_over(transaction, waiting)
    transaction.run_many("change/move", rows)
    forget(transaction, [(old.queue_id, old.unique_key, old.number) for old, _ in dead])
    transaction.run_many("change/move_dead", [(new.queue_id, new.priority, new.key, new.number) for _, new in dead])
    ready = positions.write()
    count_waiting(transaction, [old for old, _ in waiting], -1)
    count_waiting(transaction, [new for _, new in waiting], 1)
    unblocked = unblock_next(transaction, rules, [old for old, _ in changes])
    return Changed(tuple(old.id for old, _ in changes), ready + unblocked)


def transferred(
    transaction: Transaction, rules: Rules, jobs: list[TargetRow], options: ChangeOptions
) -> list[RowChange]:
    """Return jobs as they go on in the queue and of the priority that the options name; a queue is created for them."""
    if not any(_leads_away(job, options) for job in jobs):
        return [RowChange(job, job) for job in jobs]
    target = None if options.queue is None else queues_of(transaction, {options.queue})[options.queue]
    changes: list[RowChange] = []
    for job in jobs:
        new = job
        if _leads_away(job, options):
            new = job._replace(priority=job.priority if options.priority is None else options.priority, admitted=None)
            if target is not None:
                key = key_in(rules, target.name, job.queue, job.key)
                new = new._replace(queue_id=target.number, queue=target.name, key=key, keeps_counts=target.keeps_counts)
        changes.append(RowChange(job, new))
    return changes


def _leads_away(job: TargetRow, options: ChangeOptions) -> bool:
    return options.queue not in (None, job.queue) or options.priority not in (None, job.priority)


def change(
    transaction: Transaction, rules: Rules, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED
) -> Changed:
    """Change those of these jobs, each named once, that are in a state that the verb acts on."""
    jobs = map(TargetRow._make, transaction.rows("change/jobs", (texts(ids),)))
    found = [job for job in jobs if job.state in _STATES[verb]]
    changed = _VERBS[verb](transaction, rules, found, options)
    if VERBS[verb].renews:
        renewed = set(changed.ids)
        _renew(transaction, [job for job in found if job.id in renewed])
    return changed


def retry(transaction: Transaction, rules: Rules, jobs: list[TargetRow], options: ChangeOptions) -> Changed:
    """Move finished jobs to queued, or to scheduled when they are put off, each as one that arrives now."""
    now, due = transaction.now, options.delay <= 0 and options.spread <= 0
    changes = transferred(transaction, rules, jobs, options)
    positions = Positions(transaction, rules, len(jobs))
    rows = []
    for _, job in changes:
        run_at = now + max(options.delay, 0.0) + uniform(0, max(options.spread, 0.0))
        seq, aged_rank, rank, admitted = positions.take(job, run_at, due)
        state = "queued" if due else "scheduled"
        arrival = (seq, rank, run_at, now, job.number, aged_rank, admitted)
        rows.append((state, *arrival, job.queue_id, job.priority, job.key))
    hand_over(transaction, changes)
    transaction.run_many("change/retry", rows)
    ready = positions.write()
    count_waiting(transaction, [new for _, new in changes], 1)
    _count(transaction, jobs, "retried_by_operator")
    unblocked = unblock_next(transaction, rules, [old for old, new in changes if old is not new])
    return _changed(jobs, ready + unblocked)


def delete(transaction: Transaction, rules: Rules, jobs: list[TargetRow], _options: ChangeOptions) -> Changed:
    """Move dead jobs to the trash, which lets go of their ordering keys."""
    transaction.run_many("change/delete", [(transaction.now, job.number) for job in jobs])
    return _changed(jobs, unblock_next(transaction, rules, jobs))


def restore(transaction: Transaction, _rules: Rules, jobs: list[TargetRow], _options: ChangeOptions) -> Changed:
    """Move jobs from the trash back into the DLQ."""
    transaction.run_many("change/restore", [(job.number,) for job in jobs])
    return _changed(jobs)


def purge(transaction: Transaction, _rules: Rules, jobs: list[TargetRow], _options: ChangeOptions) -> Changed:
    """Remove jobs for good."""
    remove(transaction, [job.number for job in jobs])
    forget(transaction, [(job.queue_id, job.unique_key, job.number) for job in jobs])
    _count(transaction, jobs, "purged")
    return _changed(jobs)


def cancel(transaction: Transaction, rules: Rules, jobs: list[TargetRow], _options: ChangeOptions) -> Changed:
    """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
    jobs = [job for job in jobs if not job.cancel]
    waiting = [job for job in jobs if job.state != "running"]
    transaction.run_many("change/request_cancel", [(job.number,) for job in jobs if job.state == "running"])
    transaction.run_many("change/cancel", [(transaction.now, job.number) for job in waiting])
    count_waiting(transaction, waiting, -1)
    _count(transaction, waiting, "cancelled")
    return _changed(jobs, unblock_next(transaction, rules, waiting))


_VERBS: dict[MemberVerb, Callable[[Transaction, Rules, list[TargetRow], ChangeOptions], Changed]] = {
    "retry": retry,
    "delete": delete,
    "restore": restore,
    "purge": purge,
    "cancel": cancel,
    "move": move,
}


def _states(verb: str) -> frozenset[str]:
    """Return the places of the jobs that a verb acts on; those in the trash have one of their own."""
    facts = VERBS[verb]
    places = {status.value for status in facts.states}
    if facts.trash is True:
        places.discard(Status.DEAD)
    if facts.trash is not False:
        places.add("trashed")
    return frozenset(places)


_STATES = {verb: _states(verb) for verb in VERBS}


def _renew(transaction: Transaction, jobs: list[TargetRow]) -> None:
    """Give jobs new tokens, so that operations that had chosen them before pass them over."""
    # An attempt that ended before: its outcome may yet be handed in again.
    keep_outcomes(transaction, [(job.number, job.token, job.last_outcome) for job in jobs if job.last_outcome])
    last = take_tokens(transaction, len(jobs))
    transaction.run_many("change/renew", [(last + position, job.number) for position, job in enumerate(jobs, 1)])


def _count(transaction: Transaction, jobs: list[TargetRow], outcome: str) -> None:
    tallying = TallyWriter()
    for job in jobs:
        tallying.note(job.queue_id, job.type, outcome)
    tallying.write(transaction)


def _changed(jobs: list[TargetRow], ready: tuple[Ready, ...] = ()) -> Changed:
    return Changed(tuple(job.id for job in jobs), ready)


WHOLE_BACKLOG = 1_000_000
"""Announced as arrived when a queue is resumed: other processes claim until it is empty."""


def switch(transaction: Transaction, queue: str, paused: bool) -> bool:
    """Pause a queue, or resume one that is paused or closed; return whether it was not so already.

    Raises:
        QueueNotFound: no queue has this name.
    """
    number = _number_of(transaction, queue)
    if paused:
        return transaction.run("change/pause", {"number": number, "now": transaction.now}) > 0
    return transaction.run("change/resume", {"number": number, "backlog": WHOLE_BACKLOG}) > 0


def set_closed(transaction: Transaction, queue: str, closed: bool) -> bool:
    """Close a queue or open it; return whether it was not so already.

    Raises:
        QueueNotFound: no queue has this name.
    """
    params = {"number": _number_of(transaction, queue), "closed": closed, "now": transaction.now}
    return transaction.run("change/close", params) > 0


def _number_of(transaction: Transaction, queue: str) -> int:
    found = known_queues(transaction, {storable(queue)})
    if not found:
        raise QueueNotFound(queue)
    return found[storable(queue)].number


def command(transaction: Transaction, worker: str, order: WorkerOrder) -> bool:
    """Give a worker an order; return whether there is such a worker."""
    return transaction.run("change/command", (order, storable(worker))) > 0
