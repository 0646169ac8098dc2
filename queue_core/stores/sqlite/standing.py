"""A job's order in its queue: by priority and arrival, or, in a queue with aging, by arrival put off by priority."""

from __future__ import annotations

from queue_core.priorities import rank
from queue_core.rules import Rules, aged_rank, rules_of
from queue_core.stores.sqlite.link import Transaction


def standing(priority: int, seq: int, aged: int | None) -> int:
    """Return the rank that a job has whenever it is ready."""
    return rank(priority, seq) if aged is None else aged


class Arrivals:
    """Gives the jobs that arrive in one transaction their order."""

    def __init__(self, transaction: Transaction, rules: Rules) -> None:
        self._transaction = transaction
        self._rules = rules
        # queue -> its last arrival in microseconds since the epoch
        self._last: dict[int, int] = {}

    def aged(self, queue: str, queue_id: int, priority: int, run_at: float) -> int | None:
        """Return the rank of a job that arrives now, or when it is due; None: priority and sequence tell it."""
        if queue not in self._rules or not (aging_us := rules_of(self._rules, queue).aging_us):
            return None
        arrival_us = round(run_at * 1_000_000)
        if run_at <= self._transaction.now:
            # First in, first out, also within a microsecond.
            arrival_us = self._last[queue_id] = max(arrival_us, self._arrival(queue_id) + 1)
        return aged_rank(priority, arrival_us, aging_us)

    def _arrival(self, queue_id: int) -> int:
        if queue_id not in self._last:
            self._last[queue_id] = int(self._transaction.rows("aging/arrival", (queue_id,))[0][0])
        return self._last[queue_id]

    def write(self) -> None:
        """Note the last arrivals."""
        if self._last:
            self._transaction.run_many("aging/note", [(at, queue_id) for queue_id, at in self._last.items()])
