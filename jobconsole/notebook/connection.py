"""A connection for calls without `await` where a loop runs already, as in a notebook's kernel: a thread has its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queue_core.errors import QueueCoreError
from queue_core.model.addresses import mask
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.client.operations import Operations
    from queue_core.queue import JobQueue

T = TypeVar("T")

STOP_SECONDS = 10.0
"""How long an interrupted call may take to end in order: an operation is then cancelled in the store."""
NOTICE_SECONDS = 0.3
"""Between two looks for an interrupt."""
_LONGEST_SENTENCE = 2_000
"""Characters of an error's sentence."""


class LoopThread:
    """Runs coroutines in a daemon thread of its own, which begins with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process = os.getpid()

    @property
    def closed(self) -> bool:
        """Whether nothing runs here any more."""
        return self._closed

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine; the future has its result.

        Raises:
            QueueCoreError: the thread has ended, is the calling one, or is of the process that forked this one.
        """
        return asyncio.run_coroutine_threadsafe(work, self._loop_for(work))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; an interrupt cancels it, and waits for its end.

        Raises:
            QueueCoreError: as `start`; otherwise what the coroutine raises.
        """
        loop, call = self._loop_for(work), InterruptibleCall(work)
        try:
            return result_of(asyncio.run_coroutine_threadsafe(call.run(), loop))
        except BaseException:
            call.stop(loop)
            raise

    def close(self) -> None:
        """End the thread; a second time is safe."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None and self._process == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(STOP_SECONDS)

    def _loop_for(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        try:
            return self._started()
        except BaseException:
            work.close()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._process != os.getpid():
            raise QueueCoreError("this connection is of the process that made it; call connect() in this one")
        with self._lock:
            if self._closed:
                raise QueueCoreError("this connection is closed; connect() makes another one")
            if self._thread is threading.current_thread():
                raise QueueCoreError("a call without 'await' was made in the thread that it would wait for")
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), name="jobconsole-notebook", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def result_of(future: Future[T]) -> T:
    """Wait for a future's result; an interrupt is noticed within a part of a second.

    One that comes just before a thread begins to wait would else be noticed at the end of the wait.
    """
    while not wait({future}, NOTICE_SECONDS).done:
        pass
    return future.result()


class InterruptibleCall(Generic[T]):
    """A coroutine that another thread waits for, which may be interrupted at any moment."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False
        self._ended = threading.Event()

    async def run(self) -> T:
        """Run the coroutine, unless the call was stopped already."""
        self._task = asyncio.current_task()
        try:
            if self._stopped:
                self._work.close()
                raise asyncio.CancelledError
            return await self._work
        finally:
            self._ended.set()

    def stop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel it and wait for its end, in which an operation is cancelled in the store; from the other thread."""
        self._stopped = True
        if self._task is not None and not self._ended.is_set():
            loop.call_soon_threadsafe(self._task.cancel)
            self._ended.wait(STOP_SECONDS)


class NotebookConnection:
    """A queue that is opened in a thread of its own; all that a notebook shows and changes goes through it."""

    def __init__(self, jobs: JobQueue, read_only: bool) -> None:
        self.jobs = jobs
        self.read_only = read_only
        self.thread = LoopThread()

    @property
    def operations(self) -> Operations:
        """The operations; where this connection is read-only, every change raises `ReadOnly`."""
        return self.jobs.operations.read_only() if self.read_only else self.jobs.operations

    @property
    def closed(self) -> bool:
        """Whether it cannot be used any more."""
        return self.thread.closed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; an interrupt cancels it.

        Raises:
            QueueCoreError: what the coroutine raises, which IPython shows as one sentence.
        """
        with in_one_sentence():
            return self.thread.run(work)

    def close(self) -> None:
        """Disconnect; a second time is safe."""
        if not self.closed:
            with suppress(QueueCoreError):
                self.thread.run(self.jobs.close())
            self.thread.close()


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Let IPython show an error of this package as one sentence; the error itself, with its traceback, is unchanged."""
    try:
        yield
    except QueueCoreError as error:
        text = sentence_of(error)
        # IPython asks the exception for its lines.
        vars(error)["_render_traceback_"] = lambda: [text]
        raise


def sentence_of(error: BaseException) -> str:
    """Return an error as one harmless line, without passwords of addresses."""
    return f"{type(error).__name__}: {safe(mask(str(error)), _LONGEST_SENTENCE)}"
