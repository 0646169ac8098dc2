"""The hot path's protocol: the operations of a durable store for producers and workers.

Every method takes and returns lists and makes one state change. The store's clock decides which jobs are due and
which leases have expired. Every method raises `StoreUnavailable`, within a bounded time, when it is unreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from queue_core.errors import StoreUnavailable
from queue_core.model.job import (
    MAX_LOSSES,
    Claim,
    Inserted,
    JobResult,
    LogLine,
    NewJob,
    Outcome,
    Ready,
    Reclaimed,
    Settled,
    Stray,
)
from queue_core.model.report import JobStack


class ClaimRequest(NamedTuple):
    """Which jobs a worker wants."""

    queue: str
    worker: str
    # the types this worker has handlers for; jobs of others are not claimed. None: every type
    types: tuple[str, ...] | None
    # at most this many
    limit: int
    # seconds
    lease: float
    # ids that the dispatcher nominated, unverified: ids of jobs that are not ready in this queue are ignored;
    # None: the store looks for the best ranks itself
    ids: Sequence[str] | None = None
    # how many, by rank, begin at once; the others wait for a slot, and until a heartbeat reports that they
    # have begun, the loss of their worker does not count as their crash. None: all begin at once
    start_count: int | None = None
    # its number among this worker's claims, stored with their leases; 0: not numbered
    number: int = 0
    # the number of the worker's release, as `register_release` returned it; 0: unknown
    release: int = 0


class LeaseRenewal(NamedTuple):
    """One held lease in a heartbeat."""

    id: str
    token: int
    # 0 to 100, clamped; never decreases within an attempt; None keeps progress and message
    progress: int | None = None
    message: str = ""
    # whether the handler was started
    started: bool = True


class Doubt(NamedTuple):
    """A claim without an answer: it may have leased jobs, or may still do so."""

    queue: str
    number: int


class HeartbeatRequest(NamedTuple):
    """One heartbeat of a worker: its registry entry and its leases."""

    worker: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    # None: every type in its queues
    types: tuple[str, ...] | None
    concurrency: int
    busy: int
    quiet: bool
    # seconds by which the leases are prolonged from now
    lease: float
    # seconds between two heartbeats; a worker is taken for lost after three of them
    interval: float
    leases: Sequence[LeaseRenewal]
    # where its process runs, and which one it is there (see queue_core.worker.neighbours); empty: unknown
    place: str = ""
    process: str = ""
    # whether it asks for the other workers of this place
    with_neighbours: bool = False
    # claims whose leases it asks for, and the number up to which it asks for those of all claims; 0: for no others
    doubts: Sequence[Doubt] = ()
    doubt_until: int = 0
    # abandoned handlers that still run; they hold no slot
    stuck: int = 0
    # the queues of the jobs that it holds; None: unknown, any queue
    held_in: Sequence[str] | None = None
    # the number of its release; 0: unknown
    release: int = 0


class Neighbour(NamedTuple):
    """Another worker at the same place."""

    worker: str
    process: str


class DueWork(NamedTuple):
    """The work that a leader has to do."""

    # seconds until the next scheduled or retrying job is due, and the next tick of a schedule; None: there is none
    due: float | None
    tick: float | None
    # jobs are ready or running
    busy: bool
    # jobs are noted that wait for their ordering keys
    keys_pending: bool
    # there are operations that have not ended
    operations: bool
    # seconds until the first lease may end, where that is known; None: no lease, or it is looked for while jobs run
    lease: float | None = None


class HeartbeatReply(NamedTuple):
    """The store's answer to a heartbeat."""

    # ids whose leases are lost: stop them, their writes will be refused
    lost: tuple[str, ...]
    # ids of its jobs with a cancel request, whether their leases were in the request or not
    cancel: tuple[str, ...]
    # "", "quiet", "resume" or "stop"
    command: str
    # if requested: all other workers of the same place whose process is known; None: not requested
    neighbours: tuple[Neighbour, ...] | None = None
    # leases that the claims in doubt gave to this worker, including those that it knows
    strays: tuple[Stray, ...] = ()
    # for each part of the store a mark of the server that answered: under another one it may lack what was stored
    marks: Mapping[str, str] = MappingProxyType({})
    # why a part of the store has not answered, where others have, and ids of whose leases nothing is known by that
    failure: StoreUnavailable | None = None
    unknown: tuple[str, ...] = ()


class StackRequest(NamedTuple):
    """An operator's question where a running job is."""

    number: int
    job_id: str


class StoreHeartbeat(Protocol):
    """The heartbeat's link to the store: blocking, used by one thread, on its own connection."""

    def renew(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Prolong the leases that still hold, record their progress, and renew the worker's entry.

        A lease that expired holds until the job is reclaimed. A cancel request is returned until the attempt ends, an
        order once.
        """
        ...

    def hand_back(self, worker: str, started: Sequence[str], last: int) -> None:
        """End a worker's leases of claims up to `last`, as not started, but for these jobs; reclaim takes them back."""
        ...

    def stack_requests(self, worker: str) -> list[StackRequest]:
        """Return some requests for stacks of its jobs that a worker has not answered, the oldest first."""
        ...

    def give_stack(self, request: StackRequest, text: str) -> None:
        """Keep the answer to a request, a JSON object, however late it comes."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@runtime_checkable
class JoiningStore(Protocol):
    """A store that can write jobs in its callers' transactions."""

    async def prepare(self, jobs: Sequence[NewJob]) -> Any:
        """Do what writing these jobs needs outside of the caller's transaction; return what `insert_on` takes of it."""
        ...

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob], prepared: Any = None) -> list[Inserted]:
        """Write the jobs in the transaction of a caller's connection; they are invisible before it commits.

        With `prepared` and a blocking connection it waits for nothing but that connection.

        Raises:
            InvalidJob: the object is not a connection to such a store.
            QueueFull, QueueClosed: a queue refuses them; the caller must roll its transaction back.
        """
        ...


@runtime_checkable
class TransactionalStore(JoiningStore, Protocol):
    """A store that gives handlers transactions of its own, with which their jobs' completion commits."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Yield a connection in a transaction; the block's normal end commits it, an exception rolls it back.

        Raises:
            StoreUnavailable: no connection; at the block's end: no answer to whether it was committed.
        """
        ...

    async def settle_on(self, connection: Any, outcome: Outcome) -> Settled:
        """Complete an attempt in the transaction of such a connection, or refuse; it takes effect at the commit.

        Raises:
            TransactionError: the transaction has already ended or failed.
            StoreUnavailable: the connection is lost, and the transaction with it.
        """
        ...


@runtime_checkable
class NotifyingStore(Protocol):
    """A store whose processes notify each other, so that idle ones rarely query it."""

    def hears(self) -> bool:
        """Return whether notifications arrive; while they do not, processes poll."""
        ...

    def led_at(self) -> float:
        """Return the time.monotonic of the last notification of a leader of the sweeps."""
        ...

    def on_order(self, worker: str, place: str, call: Callable[[], None]) -> None:
        """Register a call for each order stored for a worker and each new worker at its place, until it retires."""
        ...

    async def next_work(self) -> DueWork:
        """Return the work that a leader has to do."""
        ...

    async def committed(self, seconds: float) -> set[str]:
        """Wait until an earlier due time is announced, or callers commit jobs, or `seconds` have passed.

        Return the queues that received jobs in callers' own transactions.
        """
        ...


class JobStore(Protocol):
    """The record of jobs and leases; it alone decides which worker runs which job."""

    @property
    def name(self) -> str:
        """`postgres`, `redis`, `sqlite` or `memory`."""
        ...

    async def open(self) -> None:
        """Connect and check the schema.

        Raises:
            SchemaMissing, SchemaNewer: the schema does not fit.
        """
        ...

    async def close(self) -> None:
        """Disconnect; idempotent."""
        ...

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; return results in the same order.

        An unfinished job of the same id stays unchanged, and so does the holder of a unique key: the result has its id.
        Retries and all else that requeues jobs may exceed a limit. A caller that does not know whether an earlier
        insert was written calls `results` before inserting again: the job may have finished since.

        Raises:
            QueueFull: a limit of a queue refuses them; nothing was written.
            QueueClosed: a queue is closed, and not all of them are known there; nothing was written.
        """
        ...

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs of a queue that is not paused to running, best rank first, each under a new lease token.

        A queue's concurrency and rate count these claims; with a concurrency all of them begin at once. Large payloads
        are claimed until they fill `runtime.MAX_STATEMENT_LENGTH`: a worker with room for more claims again.
        """
        ...

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        """End attempts whose token still holds; refuse the others without changing anything.

        A token holds until the attempt was ended or the job reclaimed, also after the lease expired. A released attempt
        with a failure of kind `lost` counts as a loss, a dead one of kind `poison` as a crash. A repeated
        outcome is accepted and changes nothing: the first answer may have been lost. A job with a cancel request
        is cancelled instead of retried or released.
        """
        ...

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        """Append lines to the logs of jobs, an attempt's in order; return per line whether its token still holds.

        A job keeps its newest 1,000 lines. Repeated lines are accepted and change nothing.
        """
        ...

    async def ask_stack(self, job_id: str) -> JobStack | None:
        """Store a request for the stack of a running job, and wake its worker; None: the job does not run."""
        ...

    async def stacks(self, job_id: str) -> list[JobStack]:
        """Return the stacks of a job that were taken, the newest first."""
        ...

    async def register_types(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the JSON Schema of each type's payloads, where it has changed."""
        ...

    async def register_release(self, name: str) -> int:
        """Write a release at its place (see `queue_core.model.triage.release`) unless known; return its number."""
        ...

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued, the longest due first; return them by rank."""
        ...

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due, 0 or less when it is, or None."""
        ...

    async def reclaim(self, limit: int, bound: int = MAX_LOSSES) -> list[Reclaimed]:
        """Move jobs whose lease expired to queued with one loss more, or to dead as lost where that makes `bound`.

        A job that had not started is queued as if released; a job with a cancel request is cancelled instead of queued.
        """
        ...

    async def list_claimable(self, queue: str, limit: int) -> list[Ready]:
        """Return the first claimable jobs of a queue by rank whose type a live worker of this queue has announced."""
        ...

    async def list_claimable_in(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `list_claimable` returns of each of these queues, those of a queue together and in order."""
        ...

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and may have ready jobs, for the audit."""
        ...

    async def filter_claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return the jobs of `ids` that are claimable now and whose type a live worker of this queue announced."""
        ...

    async def list_ready(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order.

        Without `whole`, jobs that would take long to find may be left to `list_claimable_in`.
        """
        ...

    async def queues(self) -> dict[str, bool]:
        """Return every queue's name and whether it is paused."""
        ...

    async def results(self, ids: Sequence[str]) -> list[JobResult]:
        """Return the records of these jobs, unknown ids left out."""
        ...

    async def acquire_leadership(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty for some seconds; False when another worker holds it."""
        ...

    async def unregister_worker(self, worker: str, place: str = "") -> None:
        """Remove a worker's entry and its leaderships after its end."""
        ...

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        """Remove the entries and leaderships of workers whose processes have ended, and end their leases.

        The next reclaim requeues their jobs. A second call finds the effects of their last, delayed calls.
        """
        ...

    async def prepare_history(self) -> None:
        """Prepare the history of jobs that end today, where needed: before the first settle after any pause."""
        ...

    async def upkeep(self) -> None:
        """Fold counters, prepare and drop history by its retention, in bounded steps. For the leader."""
        ...

    def open_heartbeat(self) -> StoreHeartbeat:
        """Return a new link for a heartbeat thread."""
        ...
