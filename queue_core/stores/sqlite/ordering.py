"""Ordering keys and unique keys: their locks, the next in line, and the ranks of what arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from queue_core.model.job import Ready
from queue_core.model.rules import Rules, aged_rank, rank, rules_of
from queue_core.stores.sqlite.claim import keep_time
from queue_core.stores.sqlite.session import Transaction


def next_numbers(transaction: Transaction, count: int) -> int:
    """Reserve so many numbers of arrival and return the one before the first."""
    transaction.run("ordering/take_numbers", (count,))
    return int(transaction.rows("ordering/number")[0][0]) - count


def notify_arrived(transaction: Transaction, queues: Counter[int] | Iterable[int]) -> None:
    """Show other processes that jobs became ready in these queues."""
    counts = queues if isinstance(queues, Counter) else Counter(queues)
    transaction.run_many("ordering/count_ready", [(n, queue_id) for queue_id, n in counts.items() if n])


def rank_of(priority: int, seq: int, aged_rank: int | None) -> int:
    """Return the rank that a job has whenever it is ready."""
    return rank(priority, seq) if aged_rank is None else aged_rank


class Arrivals:
    """Gives the jobs that arrive in one transaction their order."""

    def __init__(self, transaction: Transaction, rules: Rules) -> None:
        self._transaction = transaction
        self._rules = rules
        # queue -> its last arrival in microseconds since the epoch
        self._last: dict[int, int] = {}

    def aged_rank(self, queue: str, queue_id: int, priority: int, run_at: float) -> int | None:
        """Return the rank of a job that arrives now, or when it is due; None: it follows from priority and sequence."""
        if queue not in self._rules or not (aging_us := rules_of(self._rules, queue).aging_us):
            return None
        arrival_us = round(run_at * 1_000_000)
        if run_at <= self._transaction.now:
            # First in, first out, also within a microsecond.
            arrival_us = self._last[queue_id] = max(arrival_us, self._arrival(queue_id) + 1)
        return aged_rank(priority, arrival_us, aging_us)

    def _arrival(self, queue_id: int) -> int:
        if queue_id not in self._last:
            self._last[queue_id] = int(self._transaction.rows("ordering/aging_arrival", (queue_id,))[0][0])
        return self._last[queue_id]

    def write(self) -> None:
        """Note the last arrivals."""
        if self._last:
            self._transaction.run_many("ordering/aging_record", [(at, queue_id) for queue_id, at in self._last.items()])


# Ordering keys: each lets so many of its jobs through at a time, in the order of their arrival; the others wait.
#
# Nothing is counted apart from the jobs themselves: `admitted` in their rows shows which were released and which wait.


class SqliteOrderingLocks:
    """The ordering keys that one transaction meets."""

    def __init__(self, transaction: Transaction, rules: Rules) -> None:
        self._transaction = transaction
        self._rules = rules
        # (queue, key) -> jobs that were let through, those included that are about to be written
        self._admitted: dict[tuple[int, str], int] = {}

    def admit(self, queue: str, queue_id: int, key: str | None) -> bool | None:
        """Return whether a job that becomes ready is let through, which the caller writes; None: it has no key."""
        if key is None:
            return None
        admitted = self._admitted.get((queue_id, key))
        if admitted is None:
            admitted = self._count(queue_id, key)
        through = admitted < rules_of(self._rules, queue).open_keys
        self._admitted[queue_id, key] = admitted + through
        return through

    def leave(self, number: int, queue: str, queue_id: int, key: str) -> tuple[Ready, ...]:
        """Release the key of a running job, whose end is not yet written; return the next jobs."""
        self._transaction.run("ordering/release_key", (number,))
        return self.refill(queue, queue_id, key)

    def refill(self, queue: str, queue_id: int, key: str) -> tuple[Ready, ...]:
        """Release the next jobs, after other jobs' releases of the key were written."""
        admitted = self._count(queue_id, key)
        free = max(0, rules_of(self._rules, queue).open_keys - admitted)
        rows = self._transaction.rows("ordering/next_jobs", (queue_id, key, free))
        ready = [(rank_of(*order), number, job_id) for number, job_id, *order in rows]
        self._transaction.run_many("ordering/admit", [(rank, number) for rank, number, _ in ready])
        self._admitted[queue_id, key] = admitted + len(ready)
        return tuple(Ready(job_id, queue, rank) for rank, _, job_id in ready)

    def _count(self, queue_id: int, key: str) -> int:
        return int(self._transaction.rows("ordering/admitted", (queue_id, key))[0][0])


def release_keys(
    transaction: Transaction, rules: Rules, keys: Iterable[tuple[str, int, str | None]]
) -> tuple[Ready, ...]:
    """Release the next jobs of keys (queue, its number, key), after other jobs' releases were written."""
    locks = SqliteOrderingLocks(transaction, rules)
    found: list[Ready] = []
    for queue, queue_id, key in dict.fromkeys(keys):
        if key is not None and (unblocked := locks.refill(queue, queue_id, key)):
            notify_arrived(transaction, [queue_id] * len(unblocked))
            found += unblocked
    return tuple(found)


class SqliteUniqueKeys:
    """The unique keys that one transaction meets."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        # (queue, key) -> its holder, known from here
        self._held: dict[tuple[int, str], str] = {}
        # once a transaction: keys are held for elapsed time, regardless of how the clock is set
        self._kept_time = False

    def holder(self, queue_id: int, key: str) -> str | None:
        """Return the id of the job that holds a key now."""
        if (queue_id, key) in self._held:
            return self._held[queue_id, key]
        if not self._kept_time:
            keep_time(self._transaction)
            self._kept_time = True
        rows = self._transaction.rows("ordering/unique_holder", (queue_id, key, self._transaction.now))
        if not rows:
            return None
        self._held[queue_id, key] = rows[0][0]
        return str(rows[0][0])

    def take(self, queue_id: int, key: str, number: int, job_id: str, seconds: float | None) -> None:
        """Give a free key to a job: for some seconds, or (None) while the job is unfinished."""
        until = None if seconds is None else self._transaction.now + seconds
        self._transaction.run("ordering/unique_take", (queue_id, key, number, job_id, until))
        self._held[queue_id, key] = job_id

    def drop(self, queue_id: int, key: str, number: int) -> None:
        """Take a key away from a job that holds it while it is unfinished."""
        forget(self._transaction, [(queue_id, key, number)])
        self._held.pop((queue_id, key), None)


def forget(transaction: Transaction, jobs: Iterable[tuple[int, str | None, int]]) -> None:
    """Forget the keys that removed jobs (queue, unique key, number) held while they were unfinished."""
    transaction.run_many("ordering/unique_forget", [job for job in jobs if job[1] is not None])
