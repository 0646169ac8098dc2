"""An event loop in a thread of its own, which a thread that calls again and again runs in its place.

A call into another thread wakes that one, and its end this one: up to as much processor time as the enqueue itself. So
a thread that calls soon after its last call takes the loop and runs it until its call has ended. What else goes on in
the loop does so meanwhile, and the loop's own thread has it back when no further call has come for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time

# What the functions of `signal` call; those make enums of numbers, which takes 30 µs for all that is asked here.
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, Self, TypeVar

from queue_core.blocking.guard import running_loop
from queue_core.runtime import leave
from queue_core.threads import DaemonThreads

T = TypeVar("T")

LOOP_CHECK_SECONDS = 1.0
"""Seconds between two checks whether the event loop of a call is still there."""
RESUME_DELAY = 0.001
"""Seconds after a call until the loop's own thread runs it again. Other timers and answers of servers wait for that."""
MAX_RESUME_DELAY = 0.004
"""Seconds that it becomes while one call follows the other: to look whether they go on costs processor time, too."""
SERIES_GAP = 0.01
"""Seconds between two calls of a thread that make a series. Before a later one the loop's own thread has it for most
of the time, and to take it costs what a call into that thread does."""
MAX_THREADS = 8
"""Addresses that are looked up at the same time."""
# Programs have handlers that raise for these: limits of time, orderly ends.
_RAISING = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF")
    if hasattr(signal, name)
]


class LoopEnded(Exception):
    """The event loop was closed before a call had ended."""


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that some thread runs, or will within `RESUME_DELAY`."""

    served = True


class SharedLoop:
    """An event loop that one thread at a time runs: its own, or one that makes a series of calls."""

    def __init__(self, name: str) -> None:
        self.loop = _Loop()
        # drivers look addresses up in it, also after the end of the main thread
        self.loop.set_default_executor(DaemonThreads(MAX_THREADS, f"{name}-call"))
        # held by the thread that runs the loop
        self._turn = threading.Lock()
        # for what follows
        self._lock = threading.Lock()
        # calls that run while another thread has the loop, and threads that want it for their call
        self._submitted = 0
        self._requests = 0
        # the thread of the last call, and when that ended
        self._last: tuple[int, float] = (0, float("-inf"))
        # whether a call runs the loop in its thread
        self._lent = False
        # ends the pause of the loop's own thread
        self._wanted = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    # -- calls

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, however long it takes, while another thread runs the loop.

        Raises:
            LoopEnded: the loop was closed meanwhile.
        """
        with self._lock:
            self._submitted += 1
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
            self._wanted.set()
            return wait(future, self.loop)
        finally:
            with self._lock:
                self._submitted -= 1
                self._last = (threading.get_ident(), time.monotonic())

    def call_soon(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that ends soon, in this thread where it is in a series of such calls; else as `call`."""
        if not self._in_series() or not _may_run_here():
            return self.call(work)
        with _Interrupts() as interrupts, self._taken():
            if self._ending:
                work.close()
                raise LoopEnded
            task = self.loop.create_task(work)
            interrupts.cancel(task)
            return self._run(task)

    def _in_series(self) -> bool:
        caller, ended = self._last
        return caller == threading.get_ident() and time.monotonic() - ended < SERIES_GAP and not self._submitted

    @contextlib.contextmanager
    def _taken(self) -> Iterator[None]:
        """Have the loop in this thread."""
        with self._lock:
            self._requests += 1
        try:
            if not self._turn.acquire(blocking=False):
                with contextlib.suppress(RuntimeError):  # closed
                    self.loop.call_soon_threadsafe(self.loop.stop)
                self._turn.acquire()
            self._lent = True
        finally:
            with self._lock:
                self._requests -= 1
        try:
            yield
        finally:
            self._lent = False
            self._last = (threading.get_ident(), time.monotonic())
            self._turn.release()
            if self._submitted:
                self._wanted.set()

    def _run(self, task: asyncio.Task[T]) -> T:
        task.add_done_callback(self._stop)
        while not task.done():
            self.loop.run_forever()  # another thread may have stopped it, in the belief that its own one had it
            if self._ending and not task.done():
                raise LoopEnded
        return task.result()

    def _stop(self, task: asyncio.Task[Any]) -> None:
        self.loop.stop()

    # -- its own thread

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._ending:
                with self._turn:
                    if not self._ending:
                        self.loop.run_forever()
                    self._wanted.clear()
                self._pause()
        finally:
            with self._turn:
                self._close()

    def _pause(self) -> None:
        """Leave the loop to calls for as long as they follow each other."""
        pause = RESUME_DELAY
        while not self._ending:
            wanted = self._wanted.wait(pause)
            self._wanted.clear()
            if not self._requests and (wanted or not self._lent):
                return
            pause = min(2 * pause, MAX_RESUME_DELAY)

    def _close(self) -> None:
        self.loop.served = False
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()  # other threads wait for their ends
        self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        # Its executor ends with it. To shut that down by the loop starts one more thread, which nothing can at the
        # interpreter's end from Python 3.12 on.
        self.loop.close()

    def close(self) -> None:
        """End the loop and its thread; calls under way raise LoopEnded."""
        self._ending = True
        self._wanted.set()
        with contextlib.suppress(RuntimeError):  # a failure of its own has closed it
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def after_fork(self) -> None:
        """Leave the loop in the child of a fork, where its thread does not live on."""
        leave(self.loop, self._thread)


def wait(future: Future[T], loop: asyncio.AbstractEventLoop) -> T:
    """Wait for what another thread's event loop runs; an interrupt cancels it.

    Raises:
        LoopEnded: the loop was closed meanwhile.
    """
    while True:
        try:
            return future.result(LOOP_CHECK_SECONDS)
        except TimeoutError:
            if future.done():
                return future.result()
            if loop.is_closed():
                raise LoopEnded from None
        except CancelledError:
            raise LoopEnded from None
        except BaseException:
            future.cancel()
            raise


def _may_run_here() -> bool:
    """Whether an event loop may run in this thread: it runs none, and no handler of a signal raises in its midst."""
    if running_loop() is not None:
        return False
    if threading.current_thread() is not threading.main_thread():
        return True
    interrupt = getsignal(signal.SIGINT)
    return (interrupt is signal.default_int_handler or not callable(interrupt)) and not any(
        callable(handler) for handler in map(getsignal, _RAISING)
    )


class _Interrupts:
    """Holds Ctrl+C in the main thread, and raises it at the end; a task that it is given is cancelled by it.

    In the midst of the loop it could end any task there, and behind the taking of a lock it would leave that to no one.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False
        self._holds = False

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and getsignal(signal.SIGINT) is signal.default_int_handler:
            self._holds = True
            set_handler(signal.SIGINT, self._note)
        return self

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task at the next interrupt, or at once when there has been one."""
        self._task = task
        if self._interrupted:
            task.cancel()

    def _note(self, *_: object) -> None:
        self._interrupted = True
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def __exit__(self, *_: object) -> None:
        if self._holds:
            set_handler(signal.SIGINT, signal.default_int_handler)
        if self._interrupted:
            raise KeyboardInterrupt
