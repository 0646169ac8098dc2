"""The hot path's protocol: what producers and workers ask of a durable store.

Every method takes and returns lists and says its state change in one sentence. The store's clock decides what is due
and what has expired. Every method raises `StoreUnavailable`, within a bounded time, when the store cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from queue_core.model.job import (
    MOST_LOSSES,
    Claim,
    Final,
    Inserted,
    LogLine,
    NewJob,
    Outcome,
    Ready,
    Reclaimed,
    Settled,
)


class ClaimRequest(NamedTuple):
    """Which jobs a worker wants."""

    queue: str
    worker: str
    # the types this worker has handlers for; others are left alone. None: every type
    types: tuple[str, ...] | None
    # at most this many
    limit: int
    # seconds
    lease: float
    # ids that the dispatcher nominated, which may be anything: what is not ready in this queue is passed over;
    # None: the store looks for the best ranks itself
    ids: Sequence[str] | None = None
    # so many of them, the best ranks, begin at once; the others wait for a slot, and until a heartbeat says that they
    # have begun, the loss of their worker is no crash of theirs. None: all begin at once
    begin: int | None = None
    # its number among this worker's claims, by which their leases are known; 0: it counts none
    number: int = 0


class Beat(NamedTuple):
    """One held lease in a heartbeat."""

    id: str
    token: int
    # 0 to 100, more and less are taken for that; never falls within an attempt; None leaves progress and message
    progress: int | None = None
    message: str = ""
    # whether the handler was started
    begun: bool = True


class Doubt(NamedTuple):
    """A claim whose answer did not come: it may have given out jobs, and may yet do so."""

    queue: str
    number: int


class WorkerBeat(NamedTuple):
    """One heartbeat of a worker: its registry entry and its leases."""

    worker: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    # None: every type that comes in its queues
    types: tuple[str, ...] | None
    concurrency: int
    busy: int
    quiet: bool
    # seconds by which the leases are prolonged from now
    lease: float
    # seconds between two heartbeats; a worker is taken for lost after three of them
    interval: float
    leases: Sequence[Beat]
    # where its process runs, and which one it is there (see queue_core.worker.neighbours); empty: nobody can say
    place: str = ""
    process: str = ""
    # whether it asks who else is at this place
    look: bool = False
    # it asks what these have given it
    doubts: Sequence[Doubt] = ()
    # handlers that were given up and still run; they hold no slot
    stuck: int = 0
    # the queues of the jobs that it holds; None: nobody has said, it may be any
    held_in: Sequence[str] | None = None


class Neighbour(NamedTuple):
    """Another worker at the same place."""

    worker: str
    process: str


class Stray(NamedTuple):
    """A lease whose worker has not heard of it."""

    id: str
    token: int
    queue: str
    type: str
    ordering_key: str | None


class Led(NamedTuple):
    """Who leads a duty."""

    worker: str
    # until the leadership ends; below 0: it has ended
    seconds: float


class Look(NamedTuple):
    """What a leader has to do."""

    # seconds until the next scheduled or retrying job is due, and the next tick of a schedule; None: there is none
    due: float | None
    tick: float | None
    # jobs are ready or running
    busy: bool
    # jobs were noted that wait for their ordering keys
    noted: bool
    # operations have not ended
    operations: bool
    # seconds until the first lease may end, where that is known; None: no lease, or it is looked for while jobs run
    lease: float | None = None


class BeatReply(NamedTuple):
    """The store's answer to a heartbeat."""

    # ids whose lease is over: stop them, their writes will be refused
    lost: tuple[str, ...]
    # ids of all jobs of this worker that somebody asked to cancel, whether their leases were in the beat or not
    cancel: tuple[str, ...]
    # "", "quiet", "resume" or "stop"
    command: str
    # where it was asked for: all others at the same place whose process is known; None: it was not
    neighbours: tuple[Neighbour, ...] | None = None
    # what the claims in doubt have given to this worker, also what it has heard of all the same
    strays: tuple[Stray, ...] = ()


class Heart(Protocol):
    """The heartbeat's own way into the store: blocking, used by one thread, on its own connection."""

    def beat(self, beat: WorkerBeat) -> BeatReply:
        """Prolong the leases that still hold, record their progress, and renew the worker's entry.

        A lease that expired holds until the job is reclaimed. A wish to cancel is told until the attempt ends, an order
        once.
        """
        ...

    def hand_back(self, worker: str, begun: Sequence[str]) -> None:
        """End the leases of a worker but for these jobs, as not begun: the next reclaim releases them."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


@runtime_checkable
class TransactionalStore(Protocol):
    """What a store can do besides when callers may write jobs in their own transactions."""

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs in the transaction of a caller's connection; nobody sees them before it commits.

        Raises:
            InvalidJob: this is no connection to such a store.
            QueueFull: a limit of a queue refuses them; the caller's transaction is to be rolled back.
        """
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Give a connection in a transaction, which the block's normal end commits and an exception rolls back.

        Raises:
            StoreUnavailable: no connection; at the block's end: no answer to whether it was committed.
        """
        ...

    async def settle_on(self, connection: Any, outcome: Outcome) -> Settled:
        """Complete an attempt in the transaction of such a connection, or refuse; it is done once that has committed.

        Raises:
            TransactionError: the transaction was ended or has failed before.
            StoreUnavailable: the connection is lost, and the transaction with it.
        """
        ...


@runtime_checkable
class AttentiveStore(Protocol):
    """What a store can do besides whose processes hear of each other, so that idle ones hardly ask it."""

    def hears(self) -> bool:
        """Tell whether what others tell arrives; while it does not, everything has to be asked for."""
        ...

    def led_at(self) -> float:
        """Return the time of time.monotonic at which a leader of the sweeps was heard last."""
        ...

    def on_order(self, worker: str, place: str, call: Callable[[], None]) -> None:
        """Call when an order was left for a worker, or another one has come to its place, until it retires."""
        ...

    async def look(self) -> Look:
        """Return what a leader has to do."""
        ...

    async def committed(self, seconds: float) -> set[str]:
        """Wait until something is due before the last look, or was committed behind its back, or the time is over.

        Return the queues that got jobs in callers' own transactions.
        """
        ...


class JobStore(Protocol):
    """Unfinished jobs, their leases, and the one place that decides who runs what."""

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
        """Disconnect; doing it twice is safe."""
        ...

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order.

        An unfinished job of the same id stays as it is, and so does the holder of a unique key: the answer names it.
        Retries and whatever else puts jobs back may exceed a limit. Who does not know whether an earlier insert was
        written asks `finals` before inserting again: the job may have finished since.

        Raises:
            QueueFull: a limit of a queue refuses them; nothing was written.
        """
        ...

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs of a queue that is not paused to running, best rank first, each under a new lease token.

        A queue's concurrency and rate count what this gives out; such a queue's jobs all begin at once. Large payloads
        are taken until they fill `runtime.LARGEST`: a worker with room for more asks again.
        """
        ...

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        """End attempts whose token still holds; refuse the others without changing anything.

        A token holds until the attempt was ended or the job reclaimed, also after the lease expired. A released attempt
        with a failure of kind `lost` counts as a loss, a dead one of kind `poison` as a crash. The same outcome
        again is accepted again and changes nothing: the first answer may have got lost. A job that somebody asked to
        cancel is not retried nor released but cancelled.
        """
        ...

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        """Append lines to the logs of jobs, those of an attempt in order; say of each whether its token still holds.

        A job keeps its newest 1,000 lines. Lines that were written before are accepted again and change nothing.
        """
        ...

    async def announce(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
        ...

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued, those that are due the longest; answer by rank."""
        ...

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due, 0 or less when it is, or None."""
        ...

    async def reclaim(self, limit: int, bound: int = MOST_LOSSES) -> list[Reclaimed]:
        """Move jobs whose lease expired to queued with one loss more, or bury them as lost where that makes `bound`.

        One that had not begun is queued as if it had been released; one that somebody asked to cancel is cancelled
        instead of queued.
        """
        ...

    async def head(self, queue: str, limit: int) -> list[Ready]:
        """Return the first claimable jobs of a queue by rank whose type a live worker of this queue has announced."""
        ...

    async def heads(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `head` returns of each of these queues, those of a queue together and in order."""
        ...

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and may have ready jobs, for the audit."""
        ...

    async def claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        ...

    async def ready_after(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order.

        Unless it is to be `whole`, what would take long to find may be left to `heads`.
        """
        ...

    async def queues(self) -> dict[str, bool]:
        """Return every queue's name and whether it is paused."""
        ...

    async def finals(self, ids: Sequence[str]) -> list[Final]:
        """Return what is known about these jobs, unknown ids left out."""
        ...

    async def lead(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty for some seconds; False when another worker holds it."""
        ...

    async def retire(self, worker: str, place: str = "") -> None:
        """Remove a worker's entry and its leaderships after its end."""
        ...

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        """Remove the entries and leaderships of workers whose processes are gone, and end their leases.

        The next reclaim takes their jobs back. What their last calls do afterwards is found by writing them off again.
        """
        ...

    async def make_room(self) -> None:
        """Make room for what ends today, where that takes any: before the first settle, however long nobody ran."""
        ...

    async def upkeep(self) -> None:
        """Fold counters, prepare and drop history by its retention, in bounded steps. For the leader."""
        ...

    def heart(self) -> Heart:
        """Return a new link for a heartbeat thread."""
        ...
