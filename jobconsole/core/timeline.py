"""What happened to a job, told from its record, its failed attempts and the operations on it: one line for each thing,
oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from jobconsole.core.lives import lives
from jobconsole.core.rows import LINE, NAME
from queue_core.job import Attempt, Job
from queue_core.operations import Operation
from queue_core.states import FINAL, Status
from queue_core.text import safe

Kind = Literal["enqueued", "due", "failed", "operator", "now"]

RETRIED = "retried by an operator, with all of its retries"
"""Where no operation tells by whom: it is older than they are kept, or was done by a program."""
PAST = {
    "retry": "retried", "delete": "deleted, to the trash", "restore": "brought back from the trash", "move": "moved",
    "cancel": "cancelled", "edit": "edited",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened."""

    # None: nobody noted when
    at: datetime | None
    kind: Kind
    text: str
    attempt: Attempt | None = None


def timeline(job: Job, attempts: Sequence[Attempt], operations: Sequence[Operation] = ()) -> list[Happening]:
    """Return what happened, oldest first; `operations` are those that have changed the job, in any order."""
    found = [Happening(job.created_at, "enqueued", "enqueued")]
    told = lives(attempts)
    retries = sorted(one.created_at for one in operations if one.asked.verb == "retry")
    for number, life in enumerate(told):
        found += [Happening(attempt.finished_at, "failed", _failed(attempt), attempt) for attempt in life]
        if number < len(told) - 1 and not _between(retries, life[-1], told[number + 1][0]):
            found.append(Happening(None, "operator", RETRIED))
    last = told[-1] if told else []
    explained = bool(retries) and (not last or retries[-1] >= last[-1].finished_at)
    found += _lately(job, last, explained)
    for one in sorted(operations, key=lambda one: one.number):
        _insert(found, Happening(one.created_at, "operator", operated(one)))
    trash = sorted((one.number, one.asked.verb) for one in operations if one.asked.verb in {"delete", "restore"})
    if job.trashed_at is not None and (not trash or trash[-1][1] == "restore"):
        found.append(Happening(job.trashed_at, "operator", PAST["delete"]))
    return found


def operated(operation: Operation) -> str:
    """Return what an operation did to a job: by whom, in which operation, why."""
    asked = operation.asked
    where = f" to {safe(asked.way.queue, NAME)}" if asked.way.queue is not None else ""
    # The reason; of what was edited, which job came of which.
    said = ": ".join(safe(text, LINE) for text in (asked.why, operation.note if asked.verb == "edit" else "") if text)
    past = PAST.get(asked.verb, safe(asked.verb, NAME))
    return f"{past}{where} by {safe(asked.author.user, NAME)} (#{operation.number}){': ' if said else ''}{said}"


def _between(times: Sequence[datetime], before: Attempt, after: Attempt) -> bool:
    return any(before.finished_at <= at <= (after.started_at or after.finished_at) for at in times)


def _insert(found: list[Happening], one: Happening) -> None:
    """Put it before the first thing that happened later; what is still to come stays at the end."""
    assert one.at is not None
    for place, other in enumerate(found):
        if other.kind == "due" or (other.at is not None and other.at > one.at):
            found.insert(place, one)
            return
    found.append(one)


def _failed(attempt: Attempt) -> str:
    return f"attempt {attempt.number} {'failed' if attempt.kind == 'error' else attempt.kind}"


def _lately(job: Job, life: Sequence[Attempt], explained: bool) -> list[Happening]:
    """What the record itself says beside its last life: how it ended, or what it waits for."""
    found: list[Happening] = []
    # A failed attempt counts as a retry, a crashed or lost one does not; only an operator sets the count back.
    counted = any(attempt.kind not in {"crashed", "poison", "lost"} for attempt in life)
    if counted and not explained and job.retry_count == 0 and job.status not in {Status.DEAD, Status.CANCELLED}:
        found.append(Happening(None, "operator", RETRIED))
    if job.status in {Status.SCHEDULED, Status.RETRYING, Status.QUEUED}:
        found.append(Happening(job.run_at, "due", {"queued": "ready since"}.get(job.status, "due")))
    elif job.status is Status.RUNNING:
        found.append(Happening(job.started_at, "now", "running"))
    elif job.status in FINAL:
        found.append(
            Happening(job.completed_at, "now", "dead: in the DLQ" if job.status is Status.DEAD else job.status)
        )
    return found
