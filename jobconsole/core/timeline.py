"""What happened to a job, told from its record and its failed attempts: one line for each thing, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from jobconsole.core.lives import lives
from queue_core.job import Attempt, Job
from queue_core.states import FINAL, Status

Kind = Literal["enqueued", "due", "failed", "operator", "now"]


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened."""

    # None: nobody noted when
    at: datetime | None
    kind: Kind
    text: str
    attempt: Attempt | None = None


def timeline(job: Job, attempts: Sequence[Attempt]) -> list[Happening]:
    """Return what happened, oldest first."""
    found = [Happening(job.created_at, "enqueued", "enqueued")]
    told = lives(attempts)
    for number, life in enumerate(told):
        found += [Happening(attempt.finished_at, "failed", _failed(attempt), attempt) for attempt in life]
        if number < len(told) - 1:
            found.append(Happening(None, "operator", "retried by an operator, with all of its retries"))
    return [*found, *_lately(job, told[-1] if told else [])]


def _failed(attempt: Attempt) -> str:
    return f"attempt {attempt.number} {'failed' if attempt.kind == 'error' else attempt.kind}"


def _lately(job: Job, life: Sequence[Attempt]) -> list[Happening]:
    """What the record itself says beside its last life: how it ended, or what it waits for."""
    found: list[Happening] = []
    # A failed attempt counts as a retry, a crashed one does not; only an operator sets the count back.
    counted = any(attempt.kind not in {"crashed", "poison"} for attempt in life)
    if counted and job.retry_count == 0 and job.status not in {Status.DEAD, Status.CANCELLED}:
        found.append(Happening(None, "operator", "retried by an operator, with all of its retries"))
    if job.status in {Status.SCHEDULED, Status.RETRYING, Status.QUEUED}:
        found.append(Happening(job.run_at, "due", {"queued": "ready since"}.get(job.status, "due")))
    elif job.status is Status.RUNNING:
        found.append(Happening(job.started_at, "now", "running"))
    elif job.status in FINAL:
        found.append(
            Happening(job.completed_at, "now", "dead: in the DLQ" if job.status is Status.DEAD else job.status)
        )
    if job.trashed_at is not None:
        found.append(Happening(job.trashed_at, "operator", "deleted, to the trash"))
    return found
