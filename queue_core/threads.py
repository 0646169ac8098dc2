"""Threads that Python does not wait for when it ends, and that take calls for as long as it runs.

`ThreadPoolExecutor` refuses new work once the main thread has ended, though other threads of the program still work,
and joins all of its threads then, also those that a time limit gave up.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Calls: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]"


class DaemonThreads(ThreadPoolExecutor):
    """Runs calls in daemon threads, which start as they are needed; they end with this object.

    The base class is what an event loop demands of its default executor; nothing of it is used.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most)
        self._most = most
        self._name = name
        self._calls: Calls = SimpleQueue()
        # counts the threads that wait for a call
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._closed = False
        self._lock = threading.Lock()
        weakref.finalize(self, self._calls.put, None).atexit = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run a call in the next free thread."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads '{self._name}' have ended")
            future: Future[R] = Future()
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and self._started < self._most:
                name = f"{self._name}_{self._started}"
                self._started += 1
                threading.Thread(target=_run, args=(self._calls, self._idle), name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end after their calls; nothing waits for them."""
        with self._lock:
            self._closed = True
            while cancel_futures:
                try:
                    found = self._calls.get_nowait()
                except Empty:
                    break
                if found is not None:
                    found[0].cancel()
            self._calls.put(None)


def _run(calls: Calls, idle: threading.Semaphore) -> None:
    while True:
        try:
            found = calls.get_nowait()
        except Empty:
            idle.release()
            found = calls.get()
        if found is None:
            calls.put(None)  # for the next thread
            return
        _run_call(*found)
        del found  # what it holds may be large, and the next call may be far off


def _run_call(future: Future[R], call: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  for the code that waits for the call
        future.set_exception(error)
        del future  # the error holds this frame
    else:
        future.set_result(result)
