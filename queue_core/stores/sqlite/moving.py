"""How jobs go to another queue or priority: those that wait arrive there anew, and let go of what they held before."""

from __future__ import annotations

from queue_core.inspection import Changed
from queue_core.operations import Way
from queue_core.rules import Rules, key_in
from queue_core.stores.sqlite.found import Found, Pair, Turns, count_waiting, hand_over, open_next
from queue_core.stores.sqlite.inserting import queues_of
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.uniqueness import forget


def move(transaction: Transaction, rules: Rules, jobs: list[Found], way: Way) -> Changed:
    """Give waiting and dead jobs to another queue or priority; their states and times stay."""
    pairs = [pair for pair in transferred(transaction, rules, jobs, way) if pair.old is not pair.new]
    waiting = [pair for pair in pairs if pair.old.place != "dead"]
    dead = [pair for pair in pairs if pair.old.place == "dead"]
    turns = Turns(transaction, rules, len(waiting))
    rows = []
    for _, job in waiting:
        turn = turns.take(job, job.run_at, job.place == "queued")
        rows.append((job.queue_id, job.priority, job.key, *turn, job.number))
    hand_over(transaction, waiting)
    transaction.run_many("change/move", rows)
    forget(transaction, [(old.queue_id, old.unique_key, old.number) for old, _ in dead])
    transaction.run_many("change/move_dead", [(new.queue_id, new.priority, new.key, new.number) for _, new in dead])
    ready = turns.write()
    count_waiting(transaction, [old for old, _ in waiting], -1)
    count_waiting(transaction, [new for _, new in waiting], 1)
    opened = open_next(transaction, rules, [old for old, _ in pairs])
    return Changed(tuple(old.id for old, _ in pairs), ready + opened)


def transferred(transaction: Transaction, rules: Rules, jobs: list[Found], way: Way) -> list[Pair]:
    """Return jobs as they go on in the queue and of the priority that the way names; a queue is created for them."""
    if not any(_leads_away(job, way) for job in jobs):
        return [Pair(job, job) for job in jobs]
    target = None if way.queue is None else queues_of(transaction, {way.queue})[way.queue]
    pairs: list[Pair] = []
    for job in jobs:
        new = job
        if _leads_away(job, way):
            new = job._replace(priority=job.priority if way.priority is None else way.priority, holds=None)
            if target is not None:
                key = key_in(rules, target.name, job.queue, job.key)
                new = new._replace(queue_id=target.number, queue=target.name, key=key, counted=target.counted)
        pairs.append(Pair(job, new))
    return pairs


def _leads_away(job: Found, way: Way) -> bool:
    return way.queue not in (None, job.queue) or way.priority not in (None, job.priority)
