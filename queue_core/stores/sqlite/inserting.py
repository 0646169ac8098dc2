"""How jobs arrive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from queue_core.errors import InvalidJob
from queue_core.job import Inserted, NewJob
from queue_core.priorities import rank
from queue_core.rules import Rules
from queue_core.stores.sqlite.arriving import next_numbers, tell_arrived
from queue_core.stores.sqlite.limiting import KnownQueue
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.ruling import Placed, Ruling
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.tallying import Tallying


def insert(transaction: Transaction, jobs: Sequence[NewJob], rules: Rules) -> list[Inserted]:
    """Write jobs as queued or scheduled, creating their queues; an id or unique key that is there stays as it was.

    Raises:
        QueueFull: a limit refuses them; nothing may be committed.
    """
    return Inserting(transaction, jobs, rules).run()


class Inserting:
    """One list of jobs."""

    def __init__(self, transaction: Transaction, jobs: Sequence[NewJob], rules: Rules) -> None:
        self._transaction = transaction
        self._now = transaction.now
        self._jobs = jobs
        self._queues = queues_of(transaction, {job.queue for job in jobs})
        self._known = {row[0] for row in transaction.rows("insert/known", (texts(job.id for job in jobs),))}
        self._number = next_numbers(transaction, len(jobs))
        # None: no job has a key, and no queue has rules or counts its jobs
        self._ruling = Ruling(transaction, rules) if self._needs_ruling(rules) else None
        self._rows: list[tuple[Any, ...]] = []
        self._payloads: list[tuple[int, str]] = []
        self._arrived: Counter[int] = Counter()
        self._tallying = Tallying()

    def _needs_ruling(self, rules: Rules) -> bool:
        if any(queue.counted or queue.name in rules for queue in self._queues.values()):
            return True
        return any(job.ordering_key is not None or job.unique_key is not None for job in self._jobs)

    def run(self) -> list[Inserted]:
        """Decide on every job, then write those that are new."""
        transaction = self._transaction
        answers = [self._insert(job) for job in self._jobs]
        if self._ruling is None:
            transaction.run_many("insert/jobs", self._rows)
        else:
            self._ruling.write(self._queues)
            transaction.run_many("insert/ruled_jobs", self._rows)
        transaction.run_many("insert/payloads", self._payloads)
        tell_arrived(transaction, self._arrived)
        self._tallying.write(transaction)
        return answers

    def _insert(self, job: NewJob) -> Inserted:
        if job.id in self._known:
            return Inserted(job.id, job.queue, None, None, False)
        queue_id, number, now = self._queues[job.queue].number, self._number + 1, self._now
        run_at = max(now, now + job.delay if job.run_at is None else job.run_at)
        if self._ruling is None:
            ready, ruled = Placed(None if run_at > now else rank(job.priority, number), ())
        else:
            holder = self._ruling.holder(job, queue_id, number)
            if holder != job.id:
                return Inserted(holder, job.queue, None, None, False)
            ready, ruled = self._ruling.place(job, queue_id, number, run_at)
        self._known.add(job.id)
        self._number = number
        place = "scheduled" if run_at > now else "queued"
        tags = json.dumps(job.tags) if job.tags else None
        self._rows.append(
            (number, job.id, queue_id, job.type, place, job.priority, ready, run_at, job.max_retries, tags, now, *ruled)
        )
        self._payloads.append((number, job.payload))
        self._arrived[queue_id] += ready is not None
        self._tallying.note(queue_id, job.type, "enqueued")
        return Inserted(job.id, job.queue, ready, run_at if run_at > now else None, True)


def queues_of(transaction: Transaction, names: set[str]) -> dict[str, KnownQueue]:
    """Return queues by their names, made where they do not exist.

    Raises:
        InvalidJob: no queue can have such a name.
    """
    if any("\0" in name for name in names):
        raise InvalidJob("a queue's name holds a NUL character")
    found = _known_queues(transaction, names)
    missing = names - found.keys()
    if missing:
        transaction.run_many("insert/queue", [(name,) for name in sorted(missing)])
        found = _known_queues(transaction, names)
    return found


def _known_queues(transaction: Transaction, names: set[str]) -> dict[str, KnownQueue]:
    return {row[0]: KnownQueue._make(row) for row in transaction.rows("insert/queues", (texts(names),))}
