"""How many jobs of a queue wait and run, kept for queues that are limited: whoever moves a job adds to it.

Counting begins when a rule first asks, with one look at all unfinished jobs; the queue's row then says so to every
process, whatever rules that was given.
"""

from __future__ import annotations

from collections import Counter

from queue_core.priorities import Priority, band
from queue_core.stores.sqlite.link import Transaction


class Counts:
    """What a transaction adds; written at its end."""

    def __init__(self) -> None:
        self._running: Counter[int] = Counter()
        self._waiting: Counter[tuple[int, str]] = Counter()

    def move(self, queue_id: int, priority: int, *, running: int = 0, waiting: int = 0) -> None:
        """Count a job of a queue that is counted."""
        self._running[queue_id] += running
        self._waiting[queue_id, band(priority)] += waiting

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
            "count/move",
            [
                (running, waiting[number, "high"], waiting[number, "normal"], waiting[number, "low"], number)
                for number, running in self._running.items()
            ],
        )


def begin(transaction: Transaction, queue_id: int) -> None:
    """Count a queue from here on."""
    params = {"queue_id": queue_id, "high": int(Priority.HIGH), "normal": int(Priority.NORMAL)}
    transaction.run("count/begin", params)
