"""The records that screens hold: small, of bounded size; every text is made safe to show once, when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from queue_core.client.causes.fields import leaves
from queue_core.model.job import Attempt, Job
from queue_core.model.report import QueueInfo, SignatureInfo, WorkerInfo
from queue_core.model.rules import BANDS, band
from queue_core.model.states import WAITING, Status
from queue_core.model.text import safe

T = TypeVar("T")


LONGEST_NAME = 120
"""Characters of a name that are kept."""
LONGEST_FIELD = 60
"""Characters of a field of a payload that are kept."""
LONGEST_LINE = 400
"""Characters of an error or message that are kept."""


def attempts_of(job: Job | JobLine) -> tuple[int, int]:
    """Return how many attempts of a job have started, and how many it has; those with a lost worker do not count."""
    started = job.status not in WAITING and job.started_at is not None
    return job.retry_count + started, job.max_retries + 1


def ended_at(job: Job | JobLine) -> datetime:
    """Return when a job that has ended did, such as died: deletion, which is a later change, is no death."""
    return job.completed_at or job.updated_at


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job as a list shows it, without payload and traceback, which may be large."""

    id: str
    type: str
    queue: str
    status: Status
    priority: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error: str
    signature: str
    kind: str
    retry_count: int
    max_retries: int
    crashes: int
    progress: int
    message: str
    worker: str
    token: int
    trashed: bool
    # that its last worker announced; "": unknown
    release: str = ""
    # the values of the payload's fields that were asked for, in their order; None: the payload is too long for a list
    fields: tuple[str, ...] | None = ()

    @property
    def key(self) -> str:
        """What a cursor and marks hold on to."""
        return self.id

    @property
    def sample(self) -> str:
        """The job in a line: its id's end and what it died of."""
        return f"{self.id[-4:]} {self.type}: {self.error or self.status}"


def job_line(job: Job, paths: Sequence[str] = ()) -> JobLine:
    """Return the job as a list shows it; `paths`: fields of its payload."""
    return JobLine(
        id=job.id,
        type=safe(job.type, LONGEST_NAME),
        queue=safe(job.queue, LONGEST_NAME),
        status=job.status,
        priority=job.priority,
        created_at=job.created_at,
        updated_at=job.updated_at,
        run_at=job.run_at,
        started_at=job.started_at,
        completed_at=job.completed_at,
        error=safe(job.error or "", LONGEST_LINE),
        signature=job.signature or "",
        kind=job.failure_kind or "",
        retry_count=job.retry_count,
        max_retries=job.max_retries,
        crashes=job.crashes,
        progress=job.progress,
        message=safe(job.progress_message, LONGEST_LINE),
        worker=safe(job.worker or "", LONGEST_NAME),
        token=job.token,
        trashed=job.trashed_at is not None,
        release=safe(job.release or "", LONGEST_NAME),
        fields=_fields(job, paths) if paths else (),
    )


def _fields(job: Job, paths: Sequence[str]) -> tuple[str, ...] | None:
    if job.payload is None:
        return None
    found = leaves(job.payload)
    return tuple(safe(found[path].text, LONGEST_FIELD) if path in found else "" for path in paths)


def clean_signature(info: SignatureInfo) -> SignatureInfo:
    """Return the group with harmless texts."""
    return replace(
        info,
        title=safe(info.title, LONGEST_LINE),
        types=tuple((safe(name, LONGEST_NAME), number) for name, number in info.types),
        queues=tuple(safe(name, LONGEST_NAME) for name in info.queues),
    )


def worst_first(workers: Iterable[WorkerInfo]) -> list[WorkerInfo]:
    """Return the lost workers, then those with handlers that were given up, then the others; each in their order."""
    return sorted(workers, key=lambda worker: (not worker.lost, not worker.stuck))


def clean_worker(info: WorkerInfo) -> WorkerInfo:
    """Return the worker with harmless texts."""
    return replace(
        info,
        host=safe(info.host, LONGEST_NAME),
        version=safe(info.version, LONGEST_NAME),
        release=None if info.release is None else safe(info.release, LONGEST_NAME),
        queues=tuple(safe(name, LONGEST_NAME) for name in info.queues),
        types=None if info.types is None else tuple(safe(name, LONGEST_NAME) for name in info.types),
    )


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue with its depth by band."""

    # as the store knows it: verbs use it
    name: str
    # as a screen shows it
    label: str
    paused: bool
    high: int
    normal: int
    low: int
    scheduled: int
    retrying: int
    # started; those that wait in a worker for a slot are left out
    running: int
    dead: int
    oldest: datetime | None
    # jobs completed a second lately, and depths by the minute, oldest first, as far as this console has seen them
    rate: float = 0.0
    history: tuple[float, ...] = ()
    # it takes no new jobs
    closed: bool = False
    # open, paused, draining or closed
    state: str = "open"

    @property
    def key(self) -> str:
        """What a cursor holds on to."""
        return self.name

    @property
    def queued(self) -> int:
        """Jobs that are ready now."""
        return self.high + self.normal + self.low


def bands(info: QueueInfo) -> dict[str, int]:
    """Return the ready jobs by priority band."""
    depth = dict.fromkeys(BANDS, 0)
    for priority, number in info.depth.items():
        depth[band(priority)] += number
    return depth


def queue_line(info: QueueInfo) -> QueueLine:
    """Return the queue as a list shows it."""
    depth = bands(info)
    return QueueLine(
        name=info.name,
        label=safe(info.name, LONGEST_NAME),
        paused=info.paused,
        high=depth["high"],
        normal=depth["normal"],
        low=depth["low"],
        scheduled=info.scheduled,
        retrying=info.retrying,
        running=info.started,
        dead=info.dead,
        oldest=info.oldest,
        closed=info.closed,
        state=info.state,
    )


def lives(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Return the failed attempts, oldest first, by life.

    Attempts are numbered within a life, so a number that does not rise begins the next one.
    """
    found: list[list[Attempt]] = []
    for attempt in attempts:
        if not found or attempt.number <= found[-1][-1].number:
            found.append([])
        found[-1].append(attempt)
    return found


def retried_before(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempt that each life but the last ended with: after each, an operator had the job retried."""
    return [life[-1] for life in lives(attempts)[:-1]]


def held_order(fresh: Sequence[T], old: Sequence[str], key_of: Callable[[T], str]) -> list[T]:
    """Return fresh rows in the old order of their keys, new ones first as they came."""
    place = {key: index for index, key in enumerate(old)}
    new = [row for row in fresh if key_of(row) not in place]
    known = sorted((row for row in fresh if key_of(row) in place), key=lambda row: place[key_of(row)])
    return [*new, *known] if old else list(fresh)
