"""The client for callers without asyncio: everything that a queue object does, from plain functions and any thread.

A coroutine runs in the event loop in which the queue object is open: that of a worker or a service in another thread,
else one of the client's own (`shared_loop.py`). So plain handlers of a worker may use it, and cells of a notebook.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from inspect import CORO_CREATED, getcoroutinestate
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Self, TypeVar, Unpack, overload

from queue_core.blocking.guard import guard, running_loop
from queue_core.blocking.parts import (
    Blocking,
    BlockingClaim,
    BlockingFilters,
    BlockingHandle,
    BlockingOperations,
    BlockingSchedules,
    BlockingSignatures,
    Handles,
    handle_of,
)
from queue_core.blocking.shared_loop import LoopEnded, SharedLoop, wait
from queue_core.client.tasks import EnqueueArguments, EnqueueOptions, Task, known_options
from queue_core.errors import InvalidArgument, QueueCoreError, QueueFull, not_reduced
from queue_core.model.validation import check_payloads
from queue_core.queue import JobQueue
from queue_core.runtime import is_served, watch_forks
from queue_core.stores.sql.callers import check_blocking, run_now

if TYPE_CHECKING:
    from queue_core.client.tasks import Duration

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class BlockingQueue:
    """Everything that a queue object does, from plain functions; from any number of threads.

    with jobs.blocking() as queue:
        queue.enqueue(thumbnail, "a.png").result(timeout=30)

    The queue object belongs to this client from the first call on, and `close` closes it, unless it is open in an event
    loop of another thread: then calls run there, and it stays open. In the child of a fork it connects again.
    """

    __reduce__ = not_reduced

    def __init__(self, jobs: JobQueue) -> None:
        self.jobs = jobs
        self.schedules = BlockingSchedules(self)
        self.operations = BlockingOperations(self)
        self.signatures = BlockingSignatures(self)
        self.filters = BlockingFilters(self)
        self._lock = threading.Lock()
        self._shared: SharedLoop | None = None
        self._closed = False
        watch_forks(self)
        guard(jobs)

    def call_behind(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the queue object to its end."""
        return self.call(getattr(self.jobs, method), *args, **kwargs)

    # -- producers

    @overload
    def enqueue(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingHandle[R]: ...
    @overload
    def enqueue(
        self, type_: str, /, payload: Mapping[str, Any] | None = None, **options: Unpack[EnqueueArguments]
    ) -> BlockingHandle[Any]: ...

    def enqueue(self, target: Any, /, *args: Any, **kwargs: Any) -> BlockingHandle[Any]:
        """Make a job of a call of a task, whose options `task.options(…)` gives; or of a type's name and a payload.

        See Task.enqueue and JobQueue.enqueue.
        """
        (handle,) = self._enqueue(self._request(target, args, kwargs))
        return handle

    @overload
    def try_enqueue(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingHandle[R] | None: ...
    @overload
    def try_enqueue(
        self, type_: str, /, payload: Mapping[str, Any] | None = None, **options: Unpack[EnqueueArguments]
    ) -> BlockingHandle[Any] | None: ...

    def try_enqueue(self, target: Any, /, *args: Any, **kwargs: Any) -> BlockingHandle[Any] | None:
        """Enqueue a job, or return None where a limit of its queue refuses it; see JobQueue.try_enqueue."""
        try:
            return self.enqueue(target, *args, **kwargs)
        except QueueFull:
            return None

    @overload
    def enqueue_many(self, task: Task[P, R], payloads: Iterable[Mapping[str, Any]], /) -> Handles[R]: ...
    @overload
    def enqueue_many(
        self, type_: str, payloads: Iterable[Mapping[str, Any]], /, **options: Unpack[EnqueueArguments]
    ) -> Handles[Any]: ...

    def enqueue_many(self, target: Any, payloads: Any, /, **options: Any) -> Any:
        """Enqueue one job a payload, all or none; see JobQueue.enqueue_many."""
        type_, given = self._target(target, options)
        return self._enqueue(_EnqueueCall(type_, check_payloads(payloads), given))

    def _request(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _EnqueueCall:
        if isinstance(target, Task):
            type_, options = self._target(target, {})
            return _EnqueueCall(type_, [target.definition.bind(args, kwargs)], options)
        payload = args[0] if args else kwargs.pop("payload", None)
        if len(args) > 1:
            raise InvalidArgument("enqueue takes the name of a type and one payload; options are given by name")
        type_, options = self._target(target, kwargs)
        return _EnqueueCall(type_, [{} if payload is None else payload], options)

    def _target(self, target: Any, options: dict[str, Any]) -> tuple[str, EnqueueOptions]:
        if not isinstance(target, Task):
            return target, EnqueueOptions(**known_options(options))  # type: ignore[arg-type]
        if not target.belongs_to(self.jobs):
            raise InvalidArgument(f"task '{target.name}' is registered with another queue object")
        if options:
            raise InvalidArgument(f"options of a task go to task.options(…), as in {target.name}.options(delay='5m')")
        return target.name, target.chosen

    def _enqueue(self, request: _EnqueueCall) -> list[BlockingHandle[Any]]:
        connection = request.options.connection
        if connection is None:
            return [handle_of(self, one) for one in self._call_soon(self.jobs.enqueue_payloads, *request)]
        check_blocking(connection)
        # Its statements run in the caller's thread: others would wait for its locks in the client's one.
        write = self._call_soon(self.jobs.prepare_payloads, *request)
        inserted = run_now(write(connection))
        return [BlockingHandle(self, one.id, one.queue, request.type_, one.created) for one in inserted]

    # -- the same as on the queue object

    result = Blocking(JobQueue.result)
    get = Blocking(JobQueue.get)
    attempts = Blocking(JobQueue.attempts)
    list = Blocking(JobQueue.list)
    count = Blocking(JobQueue.count)
    cancel = Blocking(JobQueue.cancel)
    stats = Blocking(JobQueue.stats)
    health = Blocking(JobQueue.health)
    status = Blocking(JobQueue.status_of)
    breakdown = Blocking(JobQueue.breakdown)
    compare = Blocking(JobQueue.compare)

    def claim_next(
        self,
        queue: str = "default",
        *,
        types: Sequence[str] | None = None,
        lease: Duration | None = None,
        wait: Duration = 0.0,
    ) -> BlockingClaim | None:
        """Claim the next job of a queue for this program; see JobQueue.claim_next."""
        job = self.call(self.jobs.claim_next, queue, types=types, lease=lease, wait=wait)
        return None if job is None else BlockingClaim(self, job)

    def call(self, method: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run any asynchronous method of the queue object or its parts to its end, and return what it returns.

        As in `queue.call(jobs.inspector.overview)`. Ctrl+C cancels it.

        Raises:
            InvalidArgument: the method is none to be awaited.
            QueueCoreError: this client is closed, also during the call; or this thread runs the event loop that the
                queue object is open in.
        """

        return self._call(SharedLoop.call, method, *args, **kwargs)

    def _call_soon(self, method: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method that ends soon, as `call` does."""
        return self._call(SharedLoop.call_soon, method, *args, **kwargs)

    def _call(
        self,
        run: Callable[[SharedLoop, Coroutine[Any, Any, T]], T],
        method: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async def made() -> T:
            found = method(*args, **kwargs)
            if not hasattr(found, "__await__"):
                raise InvalidArgument(f"call runs asynchronous methods, and {method!r} is none")
            return await found

        work = made()
        try:
            own = self._started()
            if not isinstance(own, SharedLoop):
                return _call_in(own, work)
            if own.loop is self.jobs.home:
                return run(own, work)
            with self.jobs.reserved(own.loop) as home:
                return run(own, work) if home is own.loop else _call_in(home, work)
        except LoopEnded:
            raise self._ended() from None
        finally:
            if getcoroutinestate(work) == CORO_CREATED:
                work.close()

    def _ended(self) -> QueueCoreError:
        what = "this client" if self._closed else "the event loop in which the queue object was open"
        return QueueCoreError(f"{what} was closed during this call")

    # -- start and stop

    def open(self) -> None:
        """Connect to the store and check its schema; calls do so by themselves."""
        self.call(self.jobs.open)

    def close(self) -> None:
        """Disconnect and end the client's thread; a second time is safe."""
        with self._lock:
            self._closed = True
            shared, self._shared = self._shared, None
        if shared is not None:
            try:
                if self.jobs.home in (None, shared.loop):
                    with contextlib.suppress(LoopEnded):
                        shared.call(self.jobs.close())
            finally:
                shared.close()

    def after_fork(self) -> None:
        """Begin a thread of the child's own at the next call: only the one that forks lives on in the child."""
        if self._shared is not None:
            self._shared.after_fork()
        self._lock, self._shared = threading.Lock(), None

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            with contextlib.suppress(QueueCoreError):
                self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> SharedLoop | asyncio.AbstractEventLoop:
        """Return the event loop that the queue object is to be opened in, or that of others in which it is open."""
        with self._lock:
            if self._closed:
                raise QueueCoreError("this client is closed")
            home = self.jobs.home
            if home is not None and home is running_loop():
                raise QueueCoreError(
                    "the queue object is open in this thread's event loop, which a blocking call would stop: "
                    "await jobs.enqueue(…) or task.enqueue(…) here"
                )
            own = self._shared
            if home is not None and is_served(home) and (own is None or home is not own.loop):
                return home
            if own is None:
                own = self._shared = SharedLoop("jobs-blocking")
            return own


class _EnqueueCall(NamedTuple):
    """The jobs of one call."""

    type_: str
    payloads: Sequence[Mapping[str, Any]]
    options: EnqueueOptions


def _call_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return wait(asyncio.run_coroutine_threadsafe(work, loop), loop)
