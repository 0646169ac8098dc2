"""How operations leave the file: those that nobody started are cancelled, those that ended long ago are forgotten."""

from __future__ import annotations

from queue_core.operations import ABANDONED, NEVER_STARTED
from queue_core.stores.sqlite.link import Transaction

MEMBERS = 10_000
"""Members forgotten in one transaction: some 20 ms, in which no other process can write."""
OPERATIONS = 100
"""Operations forgotten in one transaction."""


def abandon_operations(transaction: Transaction) -> None:
    """Cancel operations that are still preparing long after their last change."""
    now = transaction.now
    transaction.run("upkeep/abandoned_operations", {"note": NEVER_STARTED, "now": now, "before": now - ABANDONED})


def forget_operations(seconds: float | None, transaction: Transaction) -> bool:
    """Forget a batch of those that ended so many seconds ago; False when there is no other one."""
    now = transaction.now
    abandon_operations(transaction)
    if seconds is None:
        return False
    left = MEMBERS
    found = transaction.rows("upkeep/expired_operations", (now - seconds, OPERATIONS))
    for (number,) in found:
        left -= transaction.run("upkeep/remove_members", (number, left))
        if not left:
            return True
        transaction.run("upkeep/remove_signed", (number,))
        transaction.run("upkeep/remove_operation", (number,))
    return len(found) == OPERATIONS
