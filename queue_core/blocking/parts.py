"""What the blocking client hands out: handles, claims, schedules and operations, each with an asynchronous one behind.

Their methods are those of that part, typed as they are there, and run to their end.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from queue_core.client.operating.filters import SavedFilters
from queue_core.client.operating.signatures import Signatures
from queue_core.client.operations import Operations
from queue_core.client.schedules import Schedules
from queue_core.model.events import Event
from queue_core.model.states import Status
from queue_core.queue import JobQueue

if TYPE_CHECKING:
    from queue_core.client.results import JobHandle
    from queue_core.client.tasks import Duration
    from queue_core.worker.manual import ClaimedJob

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Client(Protocol):
    """What the parts need of the client that they belong to."""

    @property
    def jobs(self) -> JobQueue:
        """The queue object."""
        ...

    def call(self, method: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an asynchronous method to its end."""
        ...


class AsyncBehind(Protocol):
    """A part of the client, with an asynchronous one behind it."""

    def call_behind(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the part behind it to its end."""
        ...


class Blocking(Generic[P, T]):
    """A method of a part: the method of the same name of the part behind it, run to its end."""

    def __init__(self, method: Callable[Concatenate[Any, P], Awaitable[T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, part: AsyncBehind, owner: type[AsyncBehind]) -> Callable[P, T]:
        @functools.wraps(self._method)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            result: T = part.call_behind(self._method.__name__, *args, **kwargs)
            return result

        return call


class BlockingHandle(Generic[R]):
    """One enqueued job."""

    __slots__ = ("_client", "created", "id", "queue", "type")

    def __init__(self, client: Client, job_id: str, queue: str, type_: str, created: bool) -> None:
        self._client = client
        self.id = job_id
        self.queue = queue
        self.type = type_
        # False: an equal job already existed, and this is its handle
        self.created = created

    def __repr__(self) -> str:
        return f"<BlockingHandle {self.type} {self.id}>"

    def result(self, timeout: float | None = None) -> R:
        """Wait until the job has completed and return its result; see JobHandle.result."""
        result: R = self._client.call(self._client.jobs.wait_for, self.queue, self.id, timeout)
        return result

    def status(self) -> Status:
        """Return the job's status; see JobHandle.status."""
        return self._client.call(self._client.jobs.status_of, self.id)

    def events(self) -> Iterator[Event]:
        """Yield the job's events up to its end; see JobHandle.events."""
        events = self._client.jobs.events_of(self.id)

        async def following() -> Event | None:
            return await anext(events, None)

        while (event := self._client.call(following)) is not None:
            yield event


def handle_of(client: Client, handle: JobHandle[Any]) -> BlockingHandle[Any]:
    """Return the blocking handle of a job."""
    return BlockingHandle(client, handle.id, handle.queue, handle.type, handle.created)


Handles: TypeAlias = list[BlockingHandle[R]]


class BlockingSchedules:
    """The schedules of the store; see queue_core.client.schedules.Schedules, whose methods these are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def call_behind(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the queue object's schedules to its end."""
        return self._client.call(getattr(self._client.jobs.schedules, method), *args, **kwargs)

    list = Blocking(Schedules.list)
    get = Blocking(Schedules.get)
    ticks = Blocking(Schedules.ticks)
    announce = Blocking(Schedules.announce)
    pause = Blocking(Schedules.pause)
    resume = Blocking(Schedules.resume)
    remove = Blocking(Schedules.remove)

    def trigger(self, name: str) -> BlockingHandle[Any]:
        """Enqueue the job of a schedule now, paused or not; see Schedules.trigger."""
        return handle_of(self._client, self._client.call(self._client.jobs.schedules.trigger, name))


class BlockingOperations:
    """Operators' changes; see queue_core.client.operations.Operations, whose methods these are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def call_behind(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the queue object's operations to its end."""
        return self._client.call(getattr(self._client.jobs.operations, method), *args, **kwargs)

    change = Blocking(Operations.change)
    pause_queue = Blocking(Operations.pause_queue)
    resume_queue = Blocking(Operations.resume_queue)
    drain_queue = Blocking(Operations.drain_queue)
    command = Blocking(Operations.command)
    submit = Blocking(Operations.submit)
    run = Blocking(Operations.run)
    record = Blocking(Operations.record)
    pause = Blocking(Operations.pause)
    resume = Blocking(Operations.resume)
    cancel = Blocking(Operations.cancel)
    undo = Blocking(Operations.undo)
    opens = Blocking(Operations.opens)
    get = Blocking(Operations.get)
    list_operations = Blocking(Operations.list_operations)
    list_for_job = Blocking(Operations.list_for_job)
    outcomes = Blocking(Operations.outcomes)
    changed_ids = Blocking(Operations.changed_ids)
    stacks = Blocking(Operations.stacks)
    list_settling = Blocking(Operations.list_settling)
    pending_ids = Blocking(Operations.pending_ids)
    ask_stack = Blocking(Operations.ask_stack)
    stage_outcomes = Blocking(Operations.stage_outcomes)


class BlockingSignatures:
    """Error signatures; see queue_core.client.operating.signatures.Signatures, whose methods these are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def call_behind(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the queue object's signatures to its end."""
        return self._client.call(getattr(self._client.jobs.signatures, method), *args, **kwargs)

    states = Blocking(Signatures.states)
    rules = Blocking(Signatures.rules)
    rule = Blocking(Signatures.rule)
    get = Blocking(Signatures.get)
    died_of = Blocking(Signatures.died_of)
    known = Blocking(Signatures.known)
    mute = Blocking(Signatures.mute)
    resolve = Blocking(Signatures.resolve)
    own = Blocking(Signatures.own)
    note = Blocking(Signatures.note)
    undo = Blocking(Signatures.undo)


class BlockingFilters:
    """Saved filters; see queue_core.client.operating.filters.SavedFilters, whose methods these are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def call_behind(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the queue object's saved filters to its end."""
        return self._client.call(getattr(self._client.jobs.filters, method), *args, **kwargs)

    list = Blocking(SavedFilters.list)
    save = Blocking(SavedFilters.save)
    remove = Blocking(SavedFilters.remove)
    undo = Blocking(SavedFilters.undo)


class BlockingClaim:
    """One running job that belongs to this program; `job` has its facts, and see ClaimedJob for the methods."""

    def __init__(self, client: Client, job: ClaimedJob) -> None:
        self._call = client.call
        # id, type, queue, payload, attempt, cancel_requested, …
        self.job = job

    def complete(self, result: object = None) -> None:
        """End the attempt well; see ClaimedJob.complete."""
        self._call(self.job.complete, result)

    def fail(self, error: BaseException | str, *, retry: bool = True) -> Status:
        """End the attempt with an error; see ClaimedJob.fail."""
        return self._call(self.job.fail, error, retry=retry)

    def release(self) -> Status:
        """Give the job back to its place in the queue; see ClaimedJob.release."""
        return self._call(self.job.release)

    def reschedule(self, *, delay: Duration | None = None) -> Status:
        """Give the job back to the back of its queue; see ClaimedJob.reschedule."""
        return self._call(self.job.reschedule, delay=delay)

    def refresh(self, lease: Duration | None = None, *, progress: float | None = None, message: str = "") -> None:
        """Prolong the lease; see ClaimedJob.refresh."""
        self._call(self.job.refresh, lease, progress=progress, message=message)
