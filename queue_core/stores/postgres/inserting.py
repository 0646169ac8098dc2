"""Turns new jobs into the parameters of the insert statement and its rows back into answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queue_core.job import Inserted, NewJob
from queue_core.stores.postgres.sql import plain_array, text_array


def insert_parameters(jobs: Sequence[NewJob], numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the parameters of `insert/jobs`, given the numbers of the queues."""
    return {
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
