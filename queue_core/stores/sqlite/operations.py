"""What operators change: each function moves jobs that are in a state it acts on, in one transaction."""

from __future__ import annotations

from collections import Counter
from random import uniform
from typing import Any, NamedTuple

from queue_core.inspection import Changed
from queue_core.job import Ready
from queue_core.rules import Rules
from queue_core.stores.sqlite.arriving import next_numbers, tell_arrived
from queue_core.stores.sqlite.counting import Counts
from queue_core.stores.sqlite.gates import Gates, let_go
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.standing import Arrivals, standing
from queue_core.stores.sqlite.tallying import Tallying
from queue_core.stores.sqlite.uniqueness import UniqueKeys, forget
from queue_core.stores.sqlite.upkeep import remove


class Found(NamedTuple):
    """The columns of change/jobs."""

    number: int
    id: str
    queue_id: int
    queue: str
    type: str
    place: str
    priority: int
    cancel: int
    # its ordering key
    key: str | None
    # 1: it was let through by it and has not let go of it
    holds: int | None
    unique_key: str | None
    unique_seconds: float | None
    # whether its queue counts its jobs
    counted: int


def retry(spread: float, transaction: Transaction, rules: Rules, jobs: list[Found]) -> Changed:
    """Move finished jobs to queued, or to scheduled when they are spread, each as one that arrives now."""
    seq, now = next_numbers(transaction, len(jobs)), transaction.now
    gates, arrivals = Gates(transaction, rules), Arrivals(transaction, rules)
    rows: list[tuple[Any, ...]] = []
    ready: list[tuple[int, Ready]] = []
    for turn, job in enumerate(jobs, seq + 1):
        run_at = now + uniform(0, max(spread, 0.0))
        aged = arrivals.aged(job.queue, job.queue_id, job.priority, run_at)
        place, rank = "scheduled", None
        holds: bool | None = True if job.holds else None
        if spread <= 0:
            place, holds = "queued", holds or gates.arrive(job.queue, job.queue_id, job.key)
            rank = None if holds is False else standing(job.priority, turn, aged)
        if rank is not None:
            ready.append((job.queue_id, Ready(job.id, job.queue, rank)))
        rows.append((place, turn, rank, run_at, now, job.number, aged, holds))
    _take_unique(transaction, jobs)
    transaction.run_many("change/retry", rows)
    arrivals.write()
    tell_arrived(transaction, Counter(queue_id for queue_id, _ in ready))
    _count_waiting(transaction, jobs, 1)
    _count(transaction, jobs, "retried_by_operator")
    return Changed(tuple(job.id for job in jobs), tuple(one for _, one in ready))


def _take_unique(transaction: Transaction, jobs: list[Found]) -> None:
    """Give jobs that are about to be retried the keys again that they held while they were unfinished, if free."""
    unique = UniqueKeys(transaction)
    for job in jobs:
        if job.unique_key is None or job.unique_seconds is not None:
            continue
        if unique.holder(job.queue_id, job.unique_key) is None:
            unique.take(job.queue_id, job.unique_key, job.number, job.id, None)


def delete(transaction: Transaction, rules: Rules, jobs: list[Found]) -> Changed:
    """Move dead jobs to the trash, which lets go of their ordering keys."""
    transaction.run_many("change/delete", [(transaction.now, job.number) for job in jobs])
    return _changed(jobs, _let_go(transaction, rules, jobs))


def restore(transaction: Transaction, _rules: Rules, jobs: list[Found]) -> Changed:
    """Move jobs from the trash back into the DLQ."""
    transaction.run_many("change/restore", [(job.number,) for job in jobs])
    return _changed(jobs)


def purge(transaction: Transaction, _rules: Rules, jobs: list[Found]) -> Changed:
    """Remove jobs for good."""
    remove(transaction, [job.number for job in jobs])
    forget(transaction, [(job.queue_id, job.unique_key, job.number) for job in jobs])
    _count(transaction, jobs, "purged")
    return _changed(jobs)


def cancel(transaction: Transaction, rules: Rules, jobs: list[Found]) -> Changed:
    """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
    running = [job for job in jobs if job.place == "running" and not job.cancel]
    waiting = [job for job in jobs if job.place != "running"]
    transaction.run_many("change/ask", [(job.number,) for job in running])
    transaction.run_many("change/cancel", [(transaction.now, job.number) for job in waiting])
    _count_waiting(transaction, waiting, -1)
    _count(transaction, waiting, "cancelled")
    return _changed(running + waiting, _let_go(transaction, rules, waiting))


def _let_go(transaction: Transaction, rules: Rules, jobs: list[Found]) -> tuple[Ready, ...]:
    """Return those whose turn it is, after it was written that these jobs let go of their ordering keys."""
    return let_go(transaction, rules, [(job.queue, job.queue_id, job.key) for job in jobs if job.holds])


def _count_waiting(transaction: Transaction, jobs: list[Found], each: int) -> None:
    counts = Counts()
    for job in jobs:
        if job.counted:
            counts.move(job.queue_id, job.priority, waiting=each)
    counts.write(transaction)


def _count(transaction: Transaction, jobs: list[Found], outcome: str) -> None:
    tallying = Tallying()
    for job in jobs:
        tallying.note(job.queue_id, job.type, outcome)
    tallying.write(transaction)


def _changed(jobs: list[Found], ready: tuple[Ready, ...] = ()) -> Changed:
    return Changed(tuple(job.id for job in jobs), ready)
