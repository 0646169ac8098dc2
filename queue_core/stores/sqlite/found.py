"""Jobs as operators' changes find them, and what most of these changes do with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from queue_core.job import Ready
from queue_core.rules import Rules
from queue_core.stores.sqlite.arriving import next_numbers, tell_arrived
from queue_core.stores.sqlite.counting import Counts
from queue_core.stores.sqlite.gates import Gates, let_go
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.standing import Arrivals, standing
from queue_core.stores.sqlite.uniqueness import UniqueKeys


class Found(NamedTuple):
    """The columns of change/jobs."""

    number: int
    id: str
    queue_id: int
    queue: str
    type: str
    place: str
    priority: int
    run_at: float
    cancel: int
    # its ordering key
    key: str | None
    # 1: it was let through by it and has not let go of it
    holds: int | None
    unique_key: str | None
    unique_seconds: float | None
    # whether its queue counts its jobs
    counted: int
    token: int
    # how the worker ended the attempt of that token; None: it did not
    ended: str | None


class Pair(NamedTuple):
    """A job as it was found, and as it goes on: the same object where it stays in its queue and of its priority."""

    old: Found
    new: Found


class Turn(NamedTuple):
    """Where a job that arrives anew comes to stand."""

    seq: int
    aged: int | None
    # None: it is not due yet, or waits for its ordering key
    rank: int | None
    holds: bool | None


class Turns:
    """Gives jobs that arrive anew their order, and lets those through that are due, as their keys allow."""

    def __init__(self, transaction: Transaction, rules: Rules, count: int) -> None:
        self._transaction = transaction
        self._seq = next_numbers(transaction, count)
        self._gates = Gates(transaction, rules)
        self._arrivals = Arrivals(transaction, rules)
        self._ready: list[tuple[int, Ready]] = []

    def take(self, job: Found, run_at: float, due: bool) -> Turn:
        """Return the next turn."""
        self._seq += 1
        aged = self._arrivals.aged(job.queue, job.queue_id, job.priority, run_at)
        holds = True if job.holds else None
        if not due:
            return Turn(self._seq, aged, None, holds)
        holds = holds or self._gates.arrive(job.queue, job.queue_id, job.key)
        if holds is False:
            return Turn(self._seq, aged, None, holds)
        rank = standing(job.priority, self._seq, aged)
        self._ready.append((job.queue_id, Ready(job.id, job.queue, rank)))
        return Turn(self._seq, aged, rank, holds)

    def write(self) -> tuple[Ready, ...]:
        """Let others know, after the jobs were written; return those that are ready."""
        self._arrivals.write()
        tell_arrived(self._transaction, [queue_id for queue_id, _ in self._ready])
        return tuple(one for _, one in self._ready)


def hand_over(transaction: Transaction, pairs: Iterable[Pair]) -> None:
    """Give jobs that are about to wait the keys that they hold while they are unfinished, if free, where they go on."""
    unique = UniqueKeys(transaction)
    for old, new in pairs:
        if new.unique_key is None or new.unique_seconds is not None:
            continue
        if old is not new:
            unique.drop(old.queue_id, new.unique_key, old.number)
        if unique.holder(new.queue_id, new.unique_key) is None:
            unique.take(new.queue_id, new.unique_key, new.number, new.id, None)


def open_next(transaction: Transaction, rules: Rules, jobs: Iterable[Found]) -> tuple[Ready, ...]:
    """Return those whose turn it is, after it was written that these jobs let go of their ordering keys."""
    return let_go(transaction, rules, [(job.queue, job.queue_id, job.key) for job in jobs if job.holds])


def count_waiting(transaction: Transaction, jobs: Iterable[Found], each: int) -> None:
    """Add to the counts of the queues that count how many of their jobs wait."""
    counts = Counts()
    for job in jobs:
        if job.counted:
            counts.move(job.queue_id, job.priority, waiting=each)
    counts.write(transaction)
