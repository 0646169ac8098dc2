"""What the leader does each round: take back lost jobs, make due ones ready, look for what should be offered."""

from __future__ import annotations

from collections import Counter

from queue_core.job import Ready, Reclaimed
from queue_core.losses import failure_of_loss
from queue_core.priorities import rank
from queue_core.stores.sqlite.attempts import Failures, Held
from queue_core.stores.sqlite.claiming import announced_types, best_ranks
from queue_core.stores.sqlite.inserting import tell_arrived
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.settling import said
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.tallying import Tallying
from queue_core.stores.sqlite.timekeeping import keep_time


def promote(transaction: Transaction, limit: int) -> list[Ready]:
    """Move due scheduled and retrying jobs to queued, those first that are due for the longest time."""
    rows = transaction.rows("sweep/due", (transaction.now, max(limit, 0)))
    ready = sorted((rank(priority, seq), number, job_id, queue) for number, job_id, _, queue, priority, seq in rows)
    transaction.run_many("sweep/promote", [(place, transaction.now, number) for place, number, _, _ in ready])
    tell_arrived(transaction, Counter(row[2] for row in rows))
    return [Ready(job_id, queue, place) for place, _, job_id, queue in ready]


def next_due(transaction: Transaction) -> float | None:
    """Return the seconds until the next scheduled or retrying job is due."""
    rows = transaction.rows("sweep/next_due")
    return max(0.0, rows[0][0] - transaction.now) if rows else None


def reclaim(transaction: Transaction, limit: int) -> list[Reclaimed]:
    """Take jobs back whose lease expired."""
    keep_time(transaction)
    failures, tallying = Failures(), Tallying()
    rows = transaction.rows("sweep/expired", (transaction.now, max(limit, 0)))
    taken = [_take_back(transaction, job, failures, tallying) for job in map(Held._make, rows)]
    failures.write(transaction)
    tallying.write(transaction)
    tell_arrived(transaction, Counter(row[2] for row, job in zip(rows, taken, strict=True) if job.rank is not None))
    return taken


def _take_back(transaction: Transaction, job: Held, failures: Failures, tallying: Tallying) -> Reclaimed:
    worker, now = job.worker or "", transaction.now
    if not job.begun:
        return _release_unbegun(transaction, job, tallying)
    crashes = job.crashes + 1
    failure = failure_of_loss(worker, crashes)
    failures.note(job, failure, job.retry_count + crashes, now)
    tallying.note(job.queue_id, job.type, "crashed")
    ready, cancelled = None, False
    if failure.kind == "poison":
        tallying.note(job.queue_id, job.type, "dead")
        tallying.death(job.queue_id, failure.signature)
        transaction.run("settle/bury", (now, None, *said(failure), crashes, job.number))
    elif job.cancel:
        cancelled = True
        tallying.note(job.queue_id, job.type, "cancelled")
        transaction.run("settle/cancel", (now, None, *said(failure), crashes, job.number))
    else:
        ready = rank(job.priority, job.seq)
        transaction.run("sweep/take_back", (now, ready, *said(failure), crashes, job.number))
    return Reclaimed(job.id, job.queue, job.type, job.token, worker, crashes, ready, cancelled)


def _release_unbegun(transaction: Transaction, job: Held, tallying: Tallying) -> Reclaimed:
    """Give a job back that was only waiting in its worker for a slot."""
    now, ready = transaction.now, rank(job.priority, job.seq)
    if job.cancel:
        tallying.note(job.queue_id, job.type, "cancelled")
        transaction.run("settle/cancel", (now, None, *said(None), job.crashes, job.number))
    else:
        tallying.note(job.queue_id, job.type, "released")
        transaction.run("sweep/take_back", (now, ready, *said(None), job.crashes, job.number))
    back = None if job.cancel else ready
    worker = job.worker or ""
    return Reclaimed(
        job.id, job.queue, job.type, job.token, worker, job.crashes, back, cancelled=bool(job.cancel), begun=False
    )


def head(transaction: Transaction, queue: str, limit: int) -> list[Ready]:
    """Return the first claimable jobs whose type a live worker has announced."""
    found = transaction.rows("claim/open_queue", (queue,))
    if not found or limit <= 0:
        return []
    best = best_ranks(transaction, found[0][0], announced_types(transaction), limit)
    rows = transaction.rows("sweep/ids", (texts(number for _, number in best),))
    return [Ready(job_id, queue, place) for (place, _), (job_id,) in zip(best, rows, strict=True)]


def claimable(transaction: Transaction, queue: str, ids: list[str]) -> list[Ready]:
    """Return those of these jobs that are claimable now and whose type a live worker has announced."""
    found = transaction.rows("claim/open_queue", (queue,))
    if not found:
        return []
    types = texts(announced_types(transaction))
    rows = transaction.rows("claim/claimable", {"queue_id": found[0][0], "types": types, "ids": texts(ids)})
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
