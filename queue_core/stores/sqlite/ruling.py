"""What rules and keys make of jobs that arrive."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from queue_core.job import NewJob
from queue_core.priorities import band
from queue_core.rules import Rules, rules_of
from queue_core.stores.sqlite.counting import Counts
from queue_core.stores.sqlite.gates import Gates
from queue_core.stores.sqlite.limiting import KnownQueue, check_limits
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.standing import Arrivals, standing
from queue_core.stores.sqlite.uniqueness import UniqueKeys


class Placed(NamedTuple):
    """Where a job that arrives comes to stand."""

    # None: it is due later, or waits for its ordering key
    rank: int | None
    # the last columns of insert/ruled_jobs
    columns: tuple[Any, ...]


class Ruling:
    """One list of jobs of which some have keys, or come into queues with rules."""

    def __init__(self, transaction: Transaction, rules: Rules) -> None:
        self._transaction = transaction
        self._rules = rules
        self._gates = Gates(transaction, rules)
        self._arrivals = Arrivals(transaction, rules)
        self._unique = UniqueKeys(transaction)
        # queue -> new jobs by band of priority
        self._coming: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def holder(self, job: NewJob, queue_id: int, number: int) -> str:
        """Return the id of the job that holds the unique key from now on: this one where nobody did."""
        if job.unique_key is None:
            return job.id
        holder = self._unique.holder(queue_id, job.unique_key)
        if holder is None:
            self._unique.take(queue_id, job.unique_key, number, job.id, job.unique_seconds)
        return holder or job.id

    def place(self, job: NewJob, queue_id: int, number: int, run_at: float) -> Placed:
        """Place a new job, and count it."""
        self._coming[job.queue][band(job.priority)] += 1
        aged = self._arrivals.aged(job.queue, queue_id, job.priority, run_at)
        rank = holds = None
        if run_at <= self._transaction.now:
            holds = self._gates.arrive(job.queue, queue_id, job.ordering_key)
            rank = None if holds is False else standing(job.priority, number, aged)
        return Placed(rank, (aged, job.ordering_key, holds, job.unique_key, job.unique_seconds))

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
            if queue.counted:
                counts.arrive(queue.number, coming)
        counts.write(self._transaction)
        self._arrivals.write()
