"""What the leader does each round: make due jobs ready, look for what should be offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from queue_core.job import Ready
from queue_core.rules import Rules
from queue_core.stores.sqlite.arriving import tell_arrived
from queue_core.stores.sqlite.claiming import announced, best_ranks
from queue_core.stores.sqlite.gates import Gates
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.standing import standing
from queue_core.stores.sqlite.timekeeping import keep_time


def promote(transaction: Transaction, limit: int, rules: Rules) -> list[Ready]:
    """Move due scheduled and retrying jobs to queued, those first that are due for the longest time.

    What waits for its ordering key from here on is not among those that are returned.
    """
    now, gates = transaction.now, Gates(transaction, rules)
    promoted: list[tuple[int, float, int]] = []
    gated: list[tuple[int | None, bool | None, float, int]] = []
    ready: list[tuple[int, int, str, str]] = []
    due = transaction.rows("sweep/due", (now, max(limit, 0)))
    # An ordering key lets those of them through that arrived first, whichever was due first.
    for number, job_id, queue_id, queue, priority, seq, aged, key, holds in sorted(due, key=lambda row: row[5]):
        rank = standing(priority, seq, aged)
        through = True if holds or key is None else gates.arrive(queue, queue_id, key)
        if key is None:
            promoted.append((rank, now, number))
        else:
            gated.append((rank if through else None, through, now, number))
        if through:
            ready.append((rank, queue_id, job_id, queue))
    transaction.run_many("sweep/promote", promoted)
    transaction.run_many("gate/arrive", gated)
    tell_arrived(transaction, Counter(queue_id for _, queue_id, _, _ in ready))
    return [Ready(job_id, queue, rank) for rank, _, job_id, queue in sorted(ready)]


def next_due(transaction: Transaction) -> float | None:
    """Return the seconds until the next scheduled or retrying job is due."""
    rows = transaction.rows("sweep/next_due")
    return max(0.0, rows[0][0] - transaction.now) if rows else None


def head(transaction: Transaction, queue: str, limit: int) -> list[Ready]:
    """Return the first claimable jobs whose type a live worker of this queue has announced."""
    found = transaction.rows("claim/open_queue", (queue,))
    if not found or limit <= 0:
        return []
    best = best_ranks(transaction, found[0][0], announced(transaction).of(queue), limit)
    rows = transaction.rows("sweep/ids", (texts(number for _, number in best),))
    return [Ready(job_id, queue, place) for (place, _), (job_id,) in zip(best, rows, strict=True)]


def claimable(transaction: Transaction, queue: str, ids: list[str]) -> list[Ready]:
    """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
    found = transaction.rows("claim/open_queue", (queue,))
    if not found:
        return []
    types = announced(transaction).of(queue)
    wanted = {"queue_id": found[0][0], "types": None if types is None else texts(types), "ids": texts(ids)}
    rows = transaction.rows("claim/claimable", wanted)
    return [Ready(job_id, queue, place) for job_id, place in rows]


def ready_after(transaction: Transaction, queue: str, after: int, limit: int) -> list[Ready]:
    """Return ready jobs with a higher rank, paused queues included."""
    rows = transaction.rows("sweep/ready_after", {"queue": queue, "rank": after, "limit": max(limit, 0)})
    return [Ready(job_id, queue, place) for job_id, place in rows]


def lead(transaction: Transaction, duty: str, worker: str, seconds: float) -> bool:
    """Take or renew the leadership of a duty."""
    keep_time(transaction)
    held = transaction.rows("sweep/leader", (duty, worker))
    if held and seconds / 2 < held[0][0] - transaction.now <= seconds:
        return True  # so that an idle worker does not write all the time
    params = {"duty": duty, "worker": worker, "now": transaction.now, "until": transaction.now + seconds}
    return transaction.run("sweep/lead", params) > 0


def retire(transaction: Transaction, worker: str) -> None:
    """Remove a worker's entry and its leaderships."""
    transaction.run("worker/retire", (worker,))
    transaction.run("worker/resign", (worker,))


def write_off(transaction: Transaction, workers: Sequence[str]) -> None:
    """Remove the entries and leaderships of workers whose processes are gone, and end their leases."""
    for worker in workers:
        transaction.run("worker/end_leases", (worker,))
        retire(transaction, worker)
