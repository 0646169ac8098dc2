"""How jobs get into the tables: the plain way in one statement, and the way through keys, limits and aging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from queue_core.batching import LARGEST, parts_of
from queue_core.job import Inserted, NewJob, weight_of
from queue_core.rules import Rules, rules_of
from queue_core.stores.postgres.arrivals import count_arrivals, each_arrival
from queue_core.stores.postgres.gates import lock_gates, open_gates
from queue_core.stores.postgres.limiting import take_room
from queue_core.stores.postgres.plan import ANSWER, ROW, Plan
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.stores.postgres.uniqueness import Wanted, take_keys

Numbers = Mapping[str, int]
"""The numbers of queues by their names."""


def is_plain(jobs: Sequence[NewJob], rules: Rules) -> bool:
    """Tell whether one statement is enough: no keys, and neither limits nor aging in their queues."""
    for job in jobs:
        if job.ordering_key is not None or job.unique_key is not None:
            return False
    return not any(one.limits or one.aging for one in [rules_of(rules, name) for name in {job.queue for job in jobs}])


def parts_for(jobs: Sequence[NewJob]) -> Sequence[Sequence[NewJob]]:
    """Return the jobs as the statements that write them: several where their payloads are large."""
    if weight_of(jobs) <= LARGEST:
        return [jobs]
    return list(parts_of(jobs, lambda job: len(job.payload)))


def _answered_parts(jobs: Sequence[NewJob]) -> list[list[NewJob]]:
    """Return the same, but several also where the answers would be long under a lock."""
    return [part for whole in parts_for(jobs) for part in parts_of(whole, lambda _: ROW, ANSWER)]


def insert_parts(parts: Sequence[Sequence[NewJob]], numbers: Numbers, compare: bool = True) -> Plan[list[Inserted]]:
    """Write jobs without keys, a statement for each part, in one transaction.

    A transaction whose snapshot is older than a queue does not see its row: there the numbers are not compared.
    """
    written: list[Inserted] = []
    unnamed = {} if compare else {"names": text_array([]), "numbers": plain_array([])}
    for part in parts:
        rows = yield "insert/jobs", insert_parameters(part, numbers) | unnamed
        written += inserted(part, rows)
    return written


def insert_parameters(jobs: Sequence[NewJob], numbers: Numbers) -> dict[str, Any]:
    """Return the parameters of `insert/jobs`, given the numbers of the queues."""
    names = list(dict.fromkeys([job.queue for job in jobs]))
    return {
        "names": text_array(names),
        "numbers": plain_array([numbers[name] for name in names]),
        "id": plain_array([job.id for job in jobs]),
        "queue_id": plain_array([numbers[job.queue] for job in jobs]),
        "type": text_array([job.type for job in jobs]),
        "payload": text_array([job.payload for job in jobs]),
        "priority": plain_array([job.priority for job in jobs]),
        "delay": plain_array([job.delay for job in jobs]),
        "run_at": plain_array([job.run_at for job in jobs]),
        "max_retries": plain_array([job.max_retries for job in jobs]),
        "tags": text_array([text_array(job.tags) if job.tags else None for job in jobs]),
    }


def inserted(jobs: Sequence[NewJob], rows: Sequence[tuple[Any, ...]]) -> list[Inserted]:
    """Return what became of each job, in order; an id that is not in the rows was there before."""
    written = {job_id: (rank, due) for job_id, rank, due in rows}
    return [_answer(job, written.pop(job.id, None)) for job in jobs]


def _answer(job: NewJob, row: tuple[int | None, float] | None) -> Inserted:
    if row is None:
        return Inserted(job.id, job.queue, None, None, False)
    rank, due = row
    return Inserted(job.id, job.queue, rank, None if rank is not None else due, True)


def insert_ruled(jobs: Sequence[NewJob], numbers: Numbers, rules: Rules) -> Plan[list[Inserted]]:
    """Write jobs under unique keys, limits, ordering keys and aging, in one transaction.

    What it locks, in this order, stays locked until the transaction ends: unique keys, limits, ordering keys, arrivals.

    Raises:
        QueueFull: a limit refuses them; the transaction is to be rolled back.
    """
    unique = [job for job in jobs if job.unique_key is not None]
    holders = yield from take_keys(
        [Wanted(numbers[job.queue], str(job.unique_key), job.id, job.unique_seconds) for job in unique]
    )
    held = {job.id: holders[numbers[job.queue], str(job.unique_key)] for job in unique}
    new = [job for job in jobs if held.get(job.id, job.id) == job.id]
    yield from take_room(new, numbers, rules)
    written = yield from _write(new, numbers, rules)
    answers = {one.id: one for one in written if one.created}
    return [
        answers.pop(job.id)
        if job.id in answers
        else Inserted(held.get(job.id, job.id), job.queue, None, None, created=False)
        for job in jobs
    ]


def _write(jobs: Sequence[NewJob], numbers: Numbers, rules: Rules) -> Plan[list[Inserted]]:
    if not jobs:
        return []
    # One with a delay waits for its key when it is due; one with a time may be due already.
    gates = yield from lock_gates(
        [(job.queue, job.ordering_key) for job in jobs if job.ordering_key is not None and not job.delay > 0]
    )
    arrivals = yield from count_arrivals((job.queue for job in jobs), rules)
    arrived = iter(list(each_arrival((job.queue for job in jobs), arrivals)))
    rows: list[tuple[Any, ...]] = []
    for part in _answered_parts(jobs):
        params = insert_parameters(part, numbers) | {
            "ordering_key": text_array([job.ordering_key for job in part]),
            "unique_key": text_array([job.unique_key for job in part]),
            "unique_seconds": plain_array([job.unique_seconds for job in part]),
            "aging_us": plain_array([rules_of(rules, job.queue).aging_us for job in part]),
            "arrival_us": plain_array(islice(arrived, len(part))),
        }
        rows += yield "insert/ruled", params
    opened = yield from open_gates(gates, rules, whole=False)
    ranks = {one.ready.id: one.ready.rank for one in opened}
    return inserted(jobs, [(job_id, ranks.get(job_id, rank), due) for job_id, rank, due in rows])
