"""The operations path's protocol: everything a person, a console or an exporter asks of a store.

Reads are bounded: lists come in keyset pages, nothing counts without an index. Changes take ids, name the state they
expect in their own write, and answer with the ids they really changed. None of it is used by the hot path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from queue_core.filters import Filter
from queue_core.job import Attempt, Job, LogEntry, Ready
from queue_core.joblogs import LINES
from queue_core.states import Status

Order = Literal["newest", "oldest"]


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

    @property
    def begun(self) -> int:
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
    quiet: bool
    started_at: datetime
    heartbeat_at: datetime
    # seconds since the last heartbeat, by the store's clock
    heartbeat_age: float
    # no heartbeat for three intervals
    lost: bool
    # handlers that were given up, for they swallow their cancellation or cannot be ended, and still run
    stuck: int = 0

    def runs(self, queue: str, type_: str) -> bool:
        """Tell whether this worker is alive and claims jobs of this type from this queue."""
        return not self.lost and queue in self.queues and (self.types is None or type_ in self.types)


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
    # the JSON Schema of its payloads
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


class Changed(NamedTuple):
    """What a change did."""

    # really changed, in no particular order
    ids: tuple[str, ...]
    # ready by this change, those included whose ordering key was let go of: offer them to the dispatcher
    ready: tuple[Ready, ...] = ()


class Inspector(Protocol):
    """Look at everything; change what operators may change.

    Every method raises `StoreUnavailable`, within a bounded time, when the store cannot be reached.
    """

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        ...

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: no job has this id.
        """
        ...

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change, newest first by default.

        That is the time of death of a dead job, and of its deletion in the trash. A page is bounded in bytes, too:
        payloads and results may be cut (`payload` and `result` are then None) and tracebacks left out; `get` has them.

        Raises:
            FilterError: no page gave this cursor.
        """
        ...

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match, counting no further than `at_most`."""
        ...

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first, to freeze what a bulk verb will act on."""
        ...

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return the failed attempts of a job, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        ...

    async def logs(self, job_id: str, limit: int = LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first: the last ones, or those that follow the line of a number.

        Raises:
            JobNotFound: no job has this id.
        """
        ...

    async def types(self) -> dict[str, TypeInfo]:
        """Return what workers have announced of types, live or not, by name."""
        ...

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error, newest growth within `window` seconds first, then by count.

        The filter chooses the jobs that are counted. Growth is that of the signature in the queues of those jobs, also
        by jobs that are not dead any more; with a filter on anything else (`minutes_tell`), by the jobs that are
        counted. A minute is the smallest time that growth is known for.
        """
        ...

    async def tallies(self) -> list[Tally]:
        """Return the exact totals of every queue and type."""
        ...

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        """Return the last minutes, oldest first, empty ones included."""
        ...

    async def conservation(self) -> Conservation:
        """Return where all jobs are, from one consistent read."""
        ...

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead (trash included) and completed jobs to queued with retry count 0; the crash count stays.

        They queue up behind what waits with their priority, so that a bulk retry does not push in front of live work.
        `spread` seconds: each is scheduled for a random moment within them.
        """
        ...

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        ...

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        ...

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good; the totals go on counting them."""
        ...

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them.

        A running job may still complete or die before its worker hears of it, but it does not run again.
        """
        ...

    async def pause(self, queue: str) -> bool:
        """Let no worker claim from this queue; False when it was paused already.

        Raises:
            QueueNotFound: no queue has this name.
        """
        ...

    async def resume(self, queue: str) -> bool:
        """Let workers claim from this queue again; False when it was not paused."""
        ...

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings; False when there is no such worker."""
        ...

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        ...

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the store: version, schema, oldest transaction, settings, clock."""
        ...

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        ...


_BY_THE_MINUTE = frozenset({"status", "signature", "queue"})


def minutes_tell(where: Filter) -> bool:
    """Whether the deaths of each minute, by signature and queue, tell the growth of what matches a filter."""
    return where.trash or {term.field for term in where.terms} <= _BY_THE_MINUTE


CHANGES_FROM: dict[str, frozenset[Status]] = {
    "retry": frozenset({Status.DEAD, Status.COMPLETED}),
    "delete": frozenset({Status.DEAD}),
    "restore": frozenset({Status.DEAD}),
    "purge": frozenset({Status.DEAD}),
    "cancel": frozenset({Status.SCHEDULED, Status.QUEUED, Status.RETRYING, Status.RUNNING}),
}
"""The states that each verb acts on; other jobs are skipped and reported as such."""
