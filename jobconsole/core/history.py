"""The history of a job: its attempts on a line of time, and what differs between them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from jobconsole.core.rows import LONGEST_LINE, LONGEST_NAME, lives
from jobconsole.format.humanize import duration, seconds_between
from jobconsole.format.words import IMMEDIATE, WORDS
from queue_core.model.job import Attempt, Job
from queue_core.model.operation import Operation
from queue_core.model.states import FINAL, Status
from queue_core.model.text import safe

COMPARED_LINES = 400
"""Lines of a traceback that are compared, from its end: the comparison takes the square of it."""
_CONTEXT = 2


@dataclass(frozen=True, slots=True)
class FactChange:
    """One property in both attempts."""

    name: str
    before: str
    after: str

    @property
    def same(self) -> bool:
        """Whether it is the same in both."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class Difference:
    """Two attempts of a job, the earlier one first."""

    before: Attempt
    after: Attempt
    facts: tuple[FactChange, ...]
    # lines of the tracebacks, each begins with a blank, - or +; none when they are the same
    trace: tuple[str, ...]


def pairs(attempts: Sequence[Attempt]) -> int:
    """Return how many neighbouring pairs there are."""
    return max(0, len(attempts) - 1)


def difference(attempts: Sequence[Attempt], back: int = 0) -> Difference | None:
    """Return how the last attempt differs from the one before, or a pair so many places `back`; None without one."""
    last = len(attempts) - 1 - back
    if last < 1:
        return None
    before, after = attempts[last - 1], attempts[last]
    facts = tuple(
        FactChange(name, safe(one, 400), safe(other, 400))
        for name, one, other in (
            ("number", str(before.number), str(after.number)),
            ("kind", before.kind, after.kind),
            ("exception", before.exception, after.exception),
            ("message", before.message, after.message),
            ("signature", before.signature, after.signature),
            ("worker", before.worker or "", after.worker or ""),
            ("ended", _when(before.finished_at), _when(after.finished_at)),
            ("ran", _ran(before), _ran(after)),
        )
    )
    return Difference(before, after, facts, _trace(before.traceback, after.traceback))


def _when(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def _ran(attempt: Attempt) -> str:
    return duration(seconds_between(attempt.started_at, attempt.finished_at))


def _trace(before: str, after: str) -> tuple[str, ...]:
    if before == after:
        return ()
    one, other = (safe(text, 200_000, newlines=True).splitlines()[-COMPARED_LINES:] for text in (before, after))
    lines = difflib.unified_diff(one, other, n=_CONTEXT, lineterm="")
    return tuple(line for line in list(lines)[2:] if not line.startswith("@@"))


Kind = Literal["enqueued", "due", "failed", "operator", "now"]

RETRIED = "retried by an operator, with all of its retries"
"""The text where no operation names the operator: it is past its retention, or a program did it."""
PAST = {
    **{verb: words.timeline or words.past for verb, words in WORDS.items()},
    "edit": IMMEDIATE["job", "edit"].past,
}
"""What an operation did to a job, by its verb."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened."""

    # None: the time was not recorded
    at: datetime | None
    kind: Kind
    text: str
    attempt: Attempt | None = None


def timeline(job: Job, attempts: Sequence[Attempt], operations: Sequence[Operation] = ()) -> list[Happening]:
    """Return what happened, oldest first; `operations` are those that have changed the job, in any order."""
    found = [Happening(job.created_at, "enqueued", "enqueued")]
    chapters = lives(attempts)
    retries = sorted(one.created_at for one in operations if one.request.verb == "retry")
    for number, life in enumerate(chapters):
        found += [Happening(attempt.finished_at, "failed", _failed(attempt), attempt) for attempt in life]
        if number < len(chapters) - 1 and not _between(retries, life[-1], chapters[number + 1][0]):
            found.append(Happening(None, "operator", RETRIED))
    last = chapters[-1] if chapters else []
    explained = bool(retries) and (not last or retries[-1] >= last[-1].finished_at)
    found += _lately(job, last, explained)
    for one in sorted(operations, key=lambda one: one.number):
        _insert(found, Happening(one.created_at, "operator", operated(one)))
    trash = sorted((one.number, one.request.verb) for one in operations if one.request.verb in {"delete", "restore"})
    if job.trashed_at is not None and (not trash or trash[-1][1] == "restore"):
        found.append(Happening(job.trashed_at, "operator", PAST["delete"]))
    return found


def operated(operation: Operation) -> str:
    """Return what an operation did to a job: by whom, in which operation, why."""
    request = operation.request
    where = f" to {safe(request.options.queue, LONGEST_NAME)}" if request.options.queue is not None else ""
    # The reason; of an edit, which job was made from which.
    text = ": ".join(
        safe(text, LONGEST_LINE) for text in (request.why, operation.note if request.verb == "edit" else "") if text
    )
    past = PAST.get(request.verb, safe(request.verb, LONGEST_NAME))
    return (
        f"{past}{where} by {safe(request.author.user, LONGEST_NAME)} (#{operation.number}){': ' if text else ''}{text}"
    )


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
    """Return what the record itself shows beside its last life: how it ended, or what it waits for."""
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
