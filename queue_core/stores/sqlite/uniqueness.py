"""Unique keys: who holds one, and until when."""

from __future__ import annotations

from collections.abc import Iterable

from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.timekeeping import keep_time


class UniqueKeys:
    """The unique keys that one transaction meets."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        # (queue, key) -> its holder, known from here
        self._held: dict[tuple[int, str], str] = {}
        # once a transaction: keys are held for times that pass, whatever somebody sets the clock to
        self._kept_time = False

    def holder(self, queue_id: int, key: str) -> str | None:
        """Return the id of the job that holds a key now."""
        if (queue_id, key) in self._held:
            return self._held[queue_id, key]
        if not self._kept_time:
            keep_time(self._transaction)
            self._kept_time = True
        rows = self._transaction.rows("unique/holder", (queue_id, key, self._transaction.now))
        if not rows:
            return None
        self._held[queue_id, key] = rows[0][0]
        return str(rows[0][0])

    def take(self, queue_id: int, key: str, number: int, job_id: str, seconds: float | None) -> None:
        """Give a key that nobody holds to a job: for some seconds, or (None) while the job is unfinished."""
        until = None if seconds is None else self._transaction.now + seconds
        self._transaction.run("unique/take", (queue_id, key, number, job_id, until))
        self._held[queue_id, key] = job_id

    def drop(self, queue_id: int, key: str, number: int) -> None:
        """Take a key away from a job that holds it while it is unfinished."""
        forget(self._transaction, [(queue_id, key, number)])
        self._held.pop((queue_id, key), None)


def forget(transaction: Transaction, jobs: Iterable[tuple[int, str | None, int]]) -> None:
    """Forget the keys that removed jobs (queue, unique key, number) held while they were unfinished."""
    transaction.run_many("unique/forget", [job for job in jobs if job[1] is not None])
