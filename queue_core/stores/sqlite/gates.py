"""Ordering keys: each lets so many of its jobs through at a time, in the order of their arrival; the others wait.

Nothing is counted apart from the jobs themselves: `holds` in their rows says who was let through and who waits.
"""

from __future__ import annotations

from collections.abc import Iterable

from queue_core.job import Ready
from queue_core.rules import Rules, rules_of
from queue_core.stores.sqlite.arriving import tell_arrived
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.standing import standing


class Gates:
    """The ordering keys that one transaction meets."""

    def __init__(self, transaction: Transaction, rules: Rules) -> None:
        self._transaction = transaction
        self._rules = rules
        # (queue, key) -> jobs that were let through, those included that are about to be written
        self._opened: dict[tuple[int, str], int] = {}

    def arrive(self, queue: str, queue_id: int, key: str | None) -> bool | None:
        """Return whether a job that becomes ready is let through, which the caller writes; None: it has no key."""
        if key is None:
            return None
        opened = self._opened.get((queue_id, key))
        if opened is None:
            opened = self._count(queue_id, key)
        through = opened < rules_of(self._rules, queue).open_keys
        self._opened[queue_id, key] = opened + through
        return through

    def leave(self, number: int, queue: str, queue_id: int, key: str) -> tuple[Ready, ...]:
        """Let go of the key of a running job, whose end is not yet written; return those whose turn it is now."""
        self._transaction.run("gate/leave", (number,))
        return self.refill(queue, queue_id, key)

    def refill(self, queue: str, queue_id: int, key: str) -> tuple[Ready, ...]:
        """Let those through whose turn it is, after it was written that others have let go."""
        opened = self._count(queue_id, key)
        free = max(0, rules_of(self._rules, queue).open_keys - opened)
        turns = self._transaction.rows("gate/next", (queue_id, key, free))
        ready = [(standing(*order), number, job_id) for number, job_id, *order in turns]
        self._transaction.run_many("gate/open", [(rank, number) for rank, number, _ in ready])
        self._opened[queue_id, key] = opened + len(ready)
        return tuple(Ready(job_id, queue, rank) for rank, _, job_id in ready)

    def _count(self, queue_id: int, key: str) -> int:
        return int(self._transaction.rows("gate/opened", (queue_id, key))[0][0])


def let_go(transaction: Transaction, rules: Rules, keys: Iterable[tuple[str, int, str | None]]) -> tuple[Ready, ...]:
    """Let those through whose turn it is, after it was written that others let go of keys (queue, its number, key)."""
    gates = Gates(transaction, rules)
    found: list[Ready] = []
    for queue, queue_id, key in dict.fromkeys(keys):
        if key is not None and (opened := gates.refill(queue, queue_id, key)):
            tell_arrived(transaction, [queue_id] * len(opened))
            found += opened
    return tuple(found)
