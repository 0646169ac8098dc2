"""What reads return: pages of jobs, overviews, groups, conservation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, NamedTuple

from queue_core.model.filters import Filter
from queue_core.model.job import Attempt, FailureKind, Job, LogEntry
from queue_core.model.states import Status


class Announced:
    """What live workers announced, each as its queues and its types, or None for every type."""

    def __init__(self, workers: Iterable[tuple[Collection[str], Collection[str] | None]]) -> None:
        self._every: set[str] = set()
        self._types: dict[str, set[str]] = {}
        for queues, types in workers:
            for queue in queues:
                if types is None:
                    self._every.add(queue)
                else:
                    self._types.setdefault(queue, set()).update(types)

    def of(self, queue: str) -> frozenset[str] | None:
        """Return the types of a queue that some worker runs; None: every type."""
        return None if queue in self._every else frozenset(self._types.get(queue, ()))

    def has(self, queue: str, type_: str) -> bool:
        """Return whether some worker runs this type from this queue."""
        return queue in self._every or type_ in self._types.get(queue, ())

    def orphans(self, waiting: Iterable[tuple[tuple[str, str], int]]) -> dict[str, int]:
        """Return, of waiting jobs counted by queue and type, those that no worker runs, by type."""
        found: Counter[str] = Counter()
        for (queue, type_), n in waiting:
            if not self.has(queue, type_):
                found[type_] += n
        return dict(found)


# What people, a console and an exporter read of a store. Reads are bounded: lists come in keyset pages, nothing counts
# without an index. None of it is used by the hot path.

Order = Literal["newest", "oldest"]
WorkerState = Literal["busy", "idle", "quiet", "lost"]
QueueState = Literal["open", "paused", "draining", "closed"]


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One queue as it is now."""

    name: str
    paused: bool
    # ready jobs by priority (running ones are not in it)
    depth: dict[int, int]
    scheduled: int
    retrying: int
    running: int
    # in the DLQ, without the trash
    dead: int
    trashed: int
    # due time of the ready job that waits longest
    oldest: datetime | None
    # of the running jobs, those that wait for a slot in the worker that has claimed them, as of its last heartbeat
    ahead: int = 0
    # it takes no new jobs; those that are in it run
    closed: bool = False

    @property
    def started(self) -> int:
        """Running jobs whose handlers were started."""
        return self.running - self.ahead

    @property
    def queued(self) -> int:
        """Jobs that are ready now."""
        return sum(self.depth.values())

    @property
    def pending(self) -> int:
        """Waiting jobs: queued, scheduled and retrying."""
        return self.queued + self.scheduled + self.retrying

    @property
    def state(self) -> QueueState:
        """Whether workers may claim and producers enqueue; draining: closed, with unfinished jobs."""
        if self.closed and not self.pending + self.running:
            return "closed"
        return "paused" if self.paused else "draining" if self.closed else "open"


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker process that announced itself."""

    id: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    # None: every type that comes in its queues
    types: tuple[str, ...] | None
    concurrency: int
    busy: int
    # it claims no more jobs: by an operator's order, or as it was stopped and lets its jobs finish
    quiet: bool
    started_at: datetime
    heartbeat_at: datetime
    # seconds since the last heartbeat, by the store's clock
    heartbeat_age: float
    # no heartbeat for three intervals
    lost: bool
    # handlers that were given up, for they swallow their cancellation or cannot be ended, and still run
    stuck: int = 0
    # the release of its program; None: it announced none
    release: str | None = None

    @property
    def state(self) -> WorkerState:
        """Lost; else quiet, where it claims no more jobs; else busy or idle."""
        if self.lost:
            return "lost"
        if self.quiet:
            return "quiet"
        return "busy" if self.busy else "idle"

    def runs(self, queue: str, type_: str) -> bool:
        """Return whether this worker is alive and claims jobs of this type from this queue."""
        return not (self.lost or self.quiet) and queue in self.queues and (self.types is None or type_ in self.types)


@dataclass(frozen=True, slots=True)
class Release:
    """A release that a worker has announced."""

    name: str
    # its place in the order of all releases; the numbers change where one is registered before others
    place: int
    first_seen: datetime
    # of the store's own, as its rows have it
    number: int = 0


@dataclass(frozen=True, slots=True)
class Overview:
    """What a console's first screen shows, read in one go."""

    # the store's clock
    now: datetime
    queues: tuple[QueueInfo, ...]
    workers: tuple[WorkerInfo, ...]
    # ready or waiting types that no live worker of their queue announces, with their number of jobs (bounded look)
    orphaned_types: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """One group of dead jobs with the same error signature."""

    signature: str
    title: str
    # jobs in the DLQ (the trash left out)
    count: int
    # deaths within the window asked for
    grown: int
    # deaths per equal slice of the window, oldest first
    trend: tuple[int, ...]
    first_seen: datetime
    last_seen: datetime
    # job types with their counts, most first
    types: tuple[tuple[str, int], ...]
    queues: tuple[str, ...]
    # a job of the group, the newest
    sample_id: str


@dataclass(frozen=True, slots=True)
class DeadCount:
    """How many jobs of one queue and type have died of an error and are in the DLQ."""

    queue: str
    type: str
    count: int


@dataclass(frozen=True, slots=True)
class DeadCounts:
    """The dead jobs of an error by queue and type."""

    # most first; where there are very many, of the newest
    rows: tuple[DeadCount, ...]
    # all of them; None: not known
    total: int | None
    # when the first of them died, or before
    first: datetime | None

    @property
    def counted(self) -> int:
        """Those in the rows."""
        return sum(row.count for row in self.rows)


@dataclass(frozen=True, slots=True)
class Share:
    """One value, and how many of the dead and of the completed jobs have it."""

    # at most 200 characters, as stored: not harmless to show
    value: str
    # from 0 to 1; None: no completed job to compare with
    dead: float
    completed: float | None
    # a term of a filter that chooses the jobs with this value; "": none does
    where: str


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a property of the dead jobs of an error is: its most frequent values."""

    # release, worker, host, queue, type, tag, or payload.<path>
    name: str
    # most frequent first
    values: tuple[Share, ...]
    # how many different values there are
    distinct: int
    # how many dead jobs it is known of
    known: int
    # all dead jobs were counted; else some of them, mostly the newest
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What the dead jobs of one error have in common, and what distinguishes them from completed ones."""

    signature: str
    # the type that most of them have: payloads and completed jobs are of this type
    type: str
    # all of them; None: not known
    count: int | None
    # how many dead and how many completed jobs were looked at
    sampled: int
    completed: int
    # the end of the completed job that ended longest ago; when the first of the dead ones died, or before
    since: datetime | None
    first: datetime | None
    dimensions: tuple[Dimension, ...]
    # the fields of payloads that distinguish dead from completed jobs best, at most three
    fields: tuple[Dimension, ...]
    # how many fields were compared
    compared: int
    # seconds that it took
    seconds: float


@dataclass(frozen=True, slots=True)
class Tally:
    """Exact totals of one (queue, type, outcome) since the store was made; histograms are sparse."""

    queue: str
    type: str
    # enqueued, completed, retried, dead, cancelled, released; crashed and timed_out beside what became of the job;
    # retried_by_operator, purged, expired_completed, expired_cancelled, expired_dead
    outcome: str
    count: int
    # microseconds
    wait_us: int
    run_us: int
    # index into HISTOGRAM_BOUNDS (the number of bounds = beyond the last) -> count
    wait_buckets: dict[int, int]
    run_buckets: dict[int, int]


HISTOGRAM_BOUNDS: tuple[float, ...] = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0,
)  # fmt: skip
"""Upper bounds in seconds of the wait and run-time histograms."""


class SeriesPoint(NamedTuple):
    """What happened in one minute, over all queues or one."""

    minute: datetime
    enqueued: int
    completed: int
    retried: int
    dead: int


@dataclass(frozen=True, slots=True)
class Page:
    """One keyset page of jobs."""

    jobs: tuple[Job, ...]
    # hand it back for the next page; None at the end
    cursor: str | None


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines of a job's log."""

    # oldest first
    entries: tuple[LogEntry, ...]
    # how many lines of the job are not kept any more; the newest are
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """What workers announced of one type."""

    name: str
    # the JSON Schema of its payloads, with the task's runbook (`queue_core.model.triage.rules.runbook_in`)
    schema: dict[str, Any]
    # when this schema was first announced
    announced_at: datetime


@dataclass(frozen=True, slots=True)
class Conservation:
    """Where every job that was ever enqueued is, from one consistent read."""

    completed: int
    # DLQ and trash
    dead: int
    cancelled: int
    # scheduled, queued, retrying and running
    unfinished: int
    # settled attempts that were retried
    retries: int


_BY_THE_MINUTE = frozenset({"status", "signature", "signatures", "queue"})


def counts_by_minute(where: Filter) -> bool:
    """Whether the deaths of each minute, by signature and queue, give the growth of what matches a filter."""
    return where.trash or {term.field for term in where.terms} <= _BY_THE_MINUTE


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """An attempt of a job: one that failed, the one that ended it well or was cancelled, or the one that runs."""

    job_id: str
    token: int
    # 1 for the first
    number: int
    kind: FailureKind | Literal["running", "completed", "cancelled"]
    # these four are empty where it did not fail
    exception: str
    message: str
    traceback: str
    signature: str
    worker: str | None
    started_at: datetime | None
    # None: it runs
    finished_at: datetime | None
    # the release of its worker's program; None: unknown
    release: str | None = None


_UNFAILED: Mapping[Status, Literal["running", "completed", "cancelled"]] = {
    Status.RUNNING: "running",
    Status.COMPLETED: "completed",
    Status.CANCELLED: "cancelled",
}


def attempts_of(job: Job, failed: Sequence[Attempt]) -> list[JobAttempt]:
    """Return all attempts of a job: stores keep the failed ones, and the job itself has the last one."""
    found = [JobAttempt(**{one.name: getattr(attempt, one.name) for one in fields(attempt)}) for attempt in failed]
    kind = _UNFAILED.get(job.status)
    if kind is not None and job.started_at is not None and all(one.token != job.token for one in failed):
        number = job.retry_count + job.crashes + job.losses + 1
        ended = None if kind == "running" else job.completed_at
        times = (job.worker, job.started_at, ended, job.release)
        found.append(JobAttempt(job.id, job.token, number, kind, "", "", "", "", *times))
    return found


class JobStack(NamedTuple):
    """Where a running job was: a request, and what its worker has answered."""

    # in the order of the requests
    number: int
    job_id: str
    worker: str
    requested_at: datetime
    # None: not answered
    taken_at: datetime | None
    # as the worker wrote it, a JSON object (see `queue_core.worker.stacks`); "": not answered
    text: str
