"""Which rows of the live lists a filter leaves: each list is narrowed by the terms about what its rows have."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias

from jobconsole.core.latency import TypeLine
from jobconsole.core.rows import QueueLine
from jobconsole.core.running import RunningJob
from queue_core.model.filters import Filter, Term, contains, host_of
from queue_core.model.report import WorkerInfo

FIELDS = ("type", "queue", "worker", "host", "release", "id")
"""Fields that at least one of the lists has, beside words."""

Values: TypeAlias = Mapping[str, Sequence[str]]
"""Field -> the values of a row; under `word` the texts in which words are searched."""


def queue_values(queue: QueueLine) -> Values:
    """Return what a queue is found by."""
    return {"queue": (queue.name,), "word": (queue.label, queue.state)}


def type_values(line: TypeLine) -> Values:
    """Return what a type is found by."""
    return {"type": (line.type,), "word": (line.type,)}


def running_values(job: RunningJob) -> Values:
    """Return what a running job is found by."""
    return {
        "type": (job.type,),
        "queue": (job.queue,),
        "worker": (job.worker,),
        "host": (host_of(job.worker),) if job.worker else (),
        "id": (job.id.replace("-", ""),),
        "word": (job.type, job.queue, job.worker, job.message),
    }


def worker_values(worker: WorkerInfo) -> Values:
    """Return what a worker is found by."""
    return {
        "type": worker.types or (),
        "queue": worker.queues,
        "worker": (worker.id,),
        "host": (worker.host,),
        "release": (worker.release,) if worker.release else (),
        "word": (worker.id, f"{worker.host}:{worker.pid}", worker.release or "", worker.state, *worker.queues),
    }


def unknown(where: Filter) -> str:
    """Return the field of a filter that none of the lists has; "" when each is known."""
    return next((term.field for term in where.terms if term.field not in (*FIELDS, "word")), "")


def leaves(values: Values, where: Filter) -> bool:
    """Return whether a row meets all terms; those about what only other lists have do not concern it."""
    return all(_holds(values, term) is not term.negated for term in where.terms if concerns(values, term))


def concerns(fields: Container[str], term: Term) -> bool:
    """Return whether a term is about rows with these fields. What no list has concerns all, and matches nothing."""
    return term.field in fields or term.field not in FIELDS


def _holds(values: Values, term: Term) -> bool:
    found = values.get(term.field, ())
    if term.operator == "~" or term.field == "word":
        return any(contains(value, term.value) for value in found)
    if term.field == "id":
        return any(value.startswith(term.value) for value in found)
    return term.value in found
