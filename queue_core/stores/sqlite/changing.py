"""What operators change: each function moves jobs that are in a state it acts on, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import uniform

from queue_core.inspection import Changed
from queue_core.job import Ready
from queue_core.operations import AS_IT_WAS, MemberVerb, Way
from queue_core.rules import Rules
from queue_core.stores.sqlite.claiming import take_tokens
from queue_core.stores.sqlite.found import Found, Turns, count_waiting, hand_over, open_next
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.moving import move, transferred
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.tallying import Tallying
from queue_core.stores.sqlite.uniqueness import forget
from queue_core.stores.sqlite.upkeep import remove


def change(
    transaction: Transaction, rules: Rules, verb: MemberVerb, ids: Sequence[str], way: Way = AS_IT_WAS
) -> Changed:
    """Change those of these jobs, each named once, that are in a state that the verb acts on."""
    places, act = _VERBS[verb]
    jobs = map(Found._make, transaction.rows("change/jobs", (texts(ids),)))
    found = [job for job in jobs if job.place in places]
    changed = act(transaction, rules, found, way)
    if verb in _RENEWING:
        renewed = set(changed.ids)
        _renew(transaction, [job for job in found if job.id in renewed])
    return changed


def retry(transaction: Transaction, rules: Rules, jobs: list[Found], way: Way) -> Changed:
    """Move finished jobs to queued, or to scheduled when they are put off, each as one that arrives now."""
    now, due = transaction.now, way.delay <= 0 and way.spread <= 0
    pairs = transferred(transaction, rules, jobs, way)
    turns = Turns(transaction, rules, len(jobs))
    rows = []
    for _, job in pairs:
        run_at = now + max(way.delay, 0.0) + uniform(0, max(way.spread, 0.0))
        seq, aged, rank, holds = turns.take(job, run_at, due)
        place = "queued" if due else "scheduled"
        arrival = (seq, rank, run_at, now, job.number, aged, holds)
        rows.append((place, *arrival, job.queue_id, job.priority, job.key))
    hand_over(transaction, pairs)
    transaction.run_many("change/retry", rows)
    ready = turns.write()
    count_waiting(transaction, [new for _, new in pairs], 1)
    _count(transaction, jobs, "retried_by_operator")
    opened = open_next(transaction, rules, [old for old, new in pairs if old is not new])
    return _changed(jobs, ready + opened)


def delete(transaction: Transaction, rules: Rules, jobs: list[Found], _way: Way) -> Changed:
    """Move dead jobs to the trash, which lets go of their ordering keys."""
    transaction.run_many("change/delete", [(transaction.now, job.number) for job in jobs])
    return _changed(jobs, open_next(transaction, rules, jobs))


def restore(transaction: Transaction, _rules: Rules, jobs: list[Found], _way: Way) -> Changed:
    """Move jobs from the trash back into the DLQ."""
    transaction.run_many("change/restore", [(job.number,) for job in jobs])
    return _changed(jobs)


def purge(transaction: Transaction, _rules: Rules, jobs: list[Found], _way: Way) -> Changed:
    """Remove jobs for good."""
    remove(transaction, [job.number for job in jobs])
    forget(transaction, [(job.queue_id, job.unique_key, job.number) for job in jobs])
    _count(transaction, jobs, "purged")
    return _changed(jobs)


def cancel(transaction: Transaction, rules: Rules, jobs: list[Found], _way: Way) -> Changed:
    """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
    jobs = [job for job in jobs if not job.cancel]
    waiting = [job for job in jobs if job.place != "running"]
    transaction.run_many("change/ask", [(job.number,) for job in jobs if job.place == "running"])
    transaction.run_many("change/cancel", [(transaction.now, job.number) for job in waiting])
    count_waiting(transaction, waiting, -1)
    _count(transaction, waiting, "cancelled")
    return _changed(jobs, open_next(transaction, rules, waiting))


_VERBS: dict[MemberVerb, tuple[frozenset[str], Callable[[Transaction, Rules, list[Found], Way], Changed]]] = {
    # each with the places of the jobs that it acts on
    "retry": (frozenset({"dead", "trashed", "completed"}), retry),
    "delete": (frozenset({"dead"}), delete),
    "restore": (frozenset({"trashed"}), restore),
    "purge": (frozenset({"trashed"}), purge),
    "cancel": (frozenset({"scheduled", "queued", "retrying", "running"}), cancel),
    "move": (frozenset({"scheduled", "queued", "retrying", "dead"}), move),
}


_RENEWING = frozenset({"retry", "delete", "restore", "move"})
"""The verbs behind which a job may be changed again."""


def _renew(transaction: Transaction, jobs: list[Found]) -> None:
    """Give jobs new tokens, so that operations that had chosen them before pass them over."""
    # An attempt that ended before: its outcome may yet be handed in again.
    transaction.run_many("claim/keep_ending", [(job.number, job.token, job.ended) for job in jobs if job.ended])
    last = take_tokens(transaction, len(jobs))
    transaction.run_many("change/renew", [(last + turn, job.number) for turn, job in enumerate(jobs, 1)])


def _count(transaction: Transaction, jobs: list[Found], outcome: str) -> None:
    tallying = Tallying()
    for job in jobs:
        tallying.note(job.queue_id, job.type, outcome)
    tallying.write(transaction)


def _changed(jobs: list[Found], ready: tuple[Ready, ...] = ()) -> Changed:
    return Changed(tuple(job.id for job in jobs), ready)
