"""The small client for synchronous callers: the same queue, behind a thread with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack

from queue_core.backends import leave, watch_forks
from queue_core.client.results import JobHandle
from queue_core.client.tasks import EnqueueArguments
from queue_core.errors import QueueCoreError, QueueFull
from queue_core.model.states import Status

T = TypeVar("T")


class AsyncQueue(Protocol):
    """What the client needs of the queue object behind it."""

    async def open(self) -> None:
        """Connect."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def enqueue_many(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], **options: Unpack[EnqueueArguments]
    ) -> list[JobHandle[Any]]:
        """Enqueue one job a payload."""
        ...

    async def result(self, job_id: str, timeout: float | None = None) -> Any:
        """Wait for a job's result."""
        ...

    async def status_of(self, job_id: str) -> Status:
        """Return where a job is in its life."""
        ...


@dataclass(frozen=True, slots=True)
class BlockingHandle:
    """One enqueued job."""

    id: str
    queue: str
    type: str
    # False: an equal job was there already, and this handle is that job's
    created: bool
    _owner: BlockingQueue

    def result(self, timeout: float | None = None) -> Any:
        """Wait until the job has completed and return its result; see JobHandle.result."""
        return self._owner.result(self.id, timeout)

    def status(self) -> Status:
        """Return where the job is in its life; see JobHandle.status."""
        return self._owner.status(self.id)


class BlockingQueue:
    """Enqueue and wait for results from plain functions; from any number of threads.

    with jobs.blocking() as queue:
        queue.enqueue("thumbnail", {"path": "a.png"}).result(timeout=30)

    The queue object belongs to this client from then on: it is opened in the client's thread, and `close` closes it.
    In the child of a fork it connects again.
    """

    def __init__(self, jobs: AsyncQueue) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        watch_forks(self)

    def enqueue(
        self, type_: str, payload: Mapping[str, Any] | None = None, **options: Unpack[EnqueueArguments]
    ) -> BlockingHandle:
        """Enqueue a job by the name of its type; see JobQueue.enqueue."""
        return self.enqueue_many(type_, [{} if payload is None else payload], **options)[0]

    def try_enqueue(
        self, type_: str, payload: Mapping[str, Any] | None = None, **options: Unpack[EnqueueArguments]
    ) -> BlockingHandle | None:
        """Enqueue a job, or return None where a limit of its queue refuses it; see JobQueue.try_enqueue."""
        try:
            return self.enqueue(type_, payload, **options)
        except QueueFull:
            return None

    def enqueue_many(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], **options: Unpack[EnqueueArguments]
    ) -> list[BlockingHandle]:
        """Enqueue one job a payload, all or none; see JobQueue.enqueue."""
        handles = self._run(self._jobs.enqueue_many(type_, payloads, **options))
        return [BlockingHandle(one.id, one.queue, one.type, one.created, self) for one in handles]

    def result(self, job_id: str, timeout: float | None = None) -> Any:
        """Wait until a job has completed and return its result; see JobQueue.result."""
        return self._run(self._jobs.result(job_id, timeout))

    def status(self, job_id: str) -> Status:
        """Return where a job is in its life; see JobQueue.status_of."""
        return self._run(self._jobs.status_of(job_id))

    def close(self) -> None:
        """Disconnect and end the thread; a second time is safe."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            try:
                asyncio.run_coroutine_threadsafe(self._jobs.close(), loop).result()
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()

    def after_fork(self) -> None:
        """Begin a thread of the child's own at the next call: only the one that forks lives on in the child."""
        leave(self._loop, self._thread)
        self._lock, self._loop, self._thread = threading.Lock(), None, None

    def __enter__(self) -> Self:
        try:
            self._run(self._jobs.open())
        except BaseException:
            with contextlib.suppress(QueueCoreError):
                self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the client's thread and wait for it; Ctrl+C cancels it there."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._started())
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise QueueCoreError("this client is closed")
            if self._thread is threading.current_thread():
                raise QueueCoreError("the blocking client was called within its own thread")
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), name="jobs-blocking", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
