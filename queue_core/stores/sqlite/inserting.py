"""How jobs arrive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from queue_core.errors import InvalidJob
from queue_core.job import Inserted, NewJob
from queue_core.priorities import rank
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.tallying import Tallying


def insert(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Write jobs as queued or scheduled, creating their queues; an id that is known already stays as it was."""
    queues = _queues(transaction, {job.queue for job in jobs})
    known = {row[0] for row in transaction.rows("insert/known", (texts(job.id for job in jobs),))}
    number = next_numbers(transaction, len(jobs))
    answers, rows, payloads = [], [], []
    arrived: Counter[int] = Counter()
    tallying = Tallying()
    for job in jobs:
        if job.id in known:
            answers.append(Inserted(job.id, job.queue, None, None, False))
            continue
        known.add(job.id)
        number += 1
        queue_id, now = queues[job.queue], transaction.now
        run_at = max(now, now + job.delay if job.run_at is None else job.run_at)
        ready = None if run_at > now else rank(job.priority, number)
        place = "scheduled" if ready is None else "queued"
        tags = json.dumps(job.tags) if job.tags else None
        rows.append(
            (number, job.id, queue_id, job.type, place, job.priority, ready, run_at, job.max_retries, tags, now)
        )
        payloads.append((number, job.payload))
        answers.append(Inserted(job.id, job.queue, ready, run_at if ready is None else None, True))
        arrived[queue_id] += ready is not None
        tallying.note(queue_id, job.type, "enqueued")
    transaction.run_many("insert/jobs", rows)
    transaction.run_many("insert/payloads", payloads)
    tell_arrived(transaction, arrived)
    tallying.write(transaction)
    return answers


def next_numbers(transaction: Transaction, count: int) -> int:
    """Reserve so many numbers of arrival and return the one before the first."""
    transaction.run("insert/take_numbers", (count,))
    return int(transaction.rows("insert/number")[0][0]) - count


def tell_arrived(transaction: Transaction, queues: Counter[int] | Iterable[int]) -> None:
    """Let other processes see that jobs became ready in these queues."""
    counts = queues if isinstance(queues, Counter) else Counter(queues)
    transaction.run_many("insert/arrived", [(n, queue_id) for queue_id, n in counts.items() if n])


def _queues(transaction: Transaction, names: set[str]) -> dict[str, int]:
    if any("\0" in name for name in names):
        raise InvalidJob("a queue's name holds a NUL character")
    found: dict[str, int] = dict(transaction.rows("insert/queues", (texts(names),)))
    missing = names - found.keys()
    if missing:
        transaction.run_many("insert/queue", [(name,) for name in sorted(missing)])
        found = dict(transaction.rows("insert/queues", (texts(names),)))
    return found
