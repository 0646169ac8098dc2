"""The rules of queues: how many jobs run, may start, and may wait."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from queue_core.errors import QueueFull
from queue_core.model.rules import BANDS, Allowance, Priority, QueueRules, Room, allowance
from queue_core.model.rules import band as band_of
from queue_core.ports.store import ClaimRequest
from queue_core.stores.sqlite.session import Transaction

# How many jobs of a queue wait and run, kept for limited queues: each change of a job updates it.
#
# Counting begins at the first use of a rule, with one read of all unfinished jobs; the queue's row then shows it to
# every process, regardless of that process's rules.


class Counts:
    """What a transaction adds; written at its end."""

    def __init__(self) -> None:
        self._running: Counter[int] = Counter()
        self._waiting: Counter[tuple[int, str]] = Counter()

    def move(self, queue_id: int, priority: int, *, running: int = 0, waiting: int = 0) -> None:
        """Count a job of a queue that is counted."""
        self._running[queue_id] += running
        self._waiting[queue_id, band_of(priority)] += waiting

    def arrive(self, queue_id: int, jobs: Counter[str]) -> None:
        """Count jobs that come into a queue that is counted, given by band of priority."""
        self._running[queue_id] += 0
        for name, n in jobs.items():
            self._waiting[queue_id, name] += n

    def write(self, transaction: Transaction) -> None:
        """Add everything to the queues."""
        waiting = self._waiting
        if not waiting:
            return
        transaction.run_many(
            "capacity/move",
            [
                (running, waiting[number, "high"], waiting[number, "normal"], waiting[number, "low"], number)
                for number, running in self._running.items()
            ],
        )


def begin(transaction: Transaction, queue_id: int) -> None:
    """Count a queue from here on."""
    params = {"queue_id": queue_id, "high": int(Priority.HIGH), "normal": int(Priority.NORMAL)}
    transaction.run("capacity/begin", params)


class OpenQueue(NamedTuple):
    """A queue that is not paused; the columns of claim/open_queue."""

    number: int
    keeps_counts: int
    # None: as many as the rate ever allows
    tokens: float | None
    refilled_at: float


class KnownQueue(NamedTuple):
    """A queue that jobs come into; the columns of insert/queues."""

    name: str
    number: int
    keeps_counts: int
    closed: int


def check_limits(transaction: Transaction, queue: KnownQueue, rules: QueueRules, coming: Counter[str]) -> KnownQueue:
    """Refuse jobs, counted by band, that would exceed a limit of their queue; return the queue, which counts now.

    Raises:
        QueueFull: nothing may be written.
    """
    if not queue.keeps_counts:
        begin(transaction, queue.number)
    ((*waiting,),) = transaction.rows("capacity/waiting", (queue.number,))
    after = Counter(dict(zip(BANDS, waiting, strict=True))) + coming
    for band, most in rules.limits.items():
        if (after[band] if band else after.total()) > most and (not band or coming[band]):
            raise QueueFull(queue.name, most, rules.retry_after, band)
    return queue._replace(keeps_counts=1)


class Admitted(NamedTuple):
    """What may start in a queue whose claims are limited."""

    request: ClaimRequest
    queue: OpenQueue
    allowed: Allowance


def admit(transaction: Transaction, queue: OpenQueue, rules: QueueRules, request: ClaimRequest) -> Admitted:
    """Lower what a worker wants to what may be claimed; fill up the rate's tokens."""
    running = 0
    if rules.concurrency is not None:
        if not queue.keeps_counts:
            begin(transaction, queue.number)
        queue = queue._replace(keeps_counts=1)
        ((running,),) = transaction.rows("capacity/running", (queue.number,))
    tokens = rules.burst() if queue.tokens is None else queue.tokens
    room = Room(request.limit, request.limit if request.start_count is None else request.start_count)
    allowed = allowance(rules, room, running, tokens, transaction.now - queue.refilled_at)
    filled = queue._replace(tokens=allowed.tokens, refilled_at=transaction.now)
    return Admitted(request._replace(limit=allowed.most, start_count=allowed.starting), filled, allowed)


def spend(transaction: Transaction, queue: OpenQueue, allowed: Allowance, claimed: int) -> None:
    """Take a token of the rate for each job that was claimed."""
    transaction.run("capacity/spend", (allowed.left(claimed), queue.refilled_at, queue.number))
