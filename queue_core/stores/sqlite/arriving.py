"""What every arrival needs: a number, and a word to other processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from queue_core.stores.sqlite.link import Transaction


def next_numbers(transaction: Transaction, count: int) -> int:
    """Reserve so many numbers of arrival and return the one before the first."""
    transaction.run("insert/take_numbers", (count,))
    return int(transaction.rows("insert/number")[0][0]) - count


def tell_arrived(transaction: Transaction, queues: Counter[int] | Iterable[int]) -> None:
    """Let other processes see that jobs became ready in these queues."""
    counts = queues if isinstance(queues, Counter) else Counter(queues)
    transaction.run_many("insert/arrived", [(n, queue_id) for queue_id, n in counts.items() if n])
