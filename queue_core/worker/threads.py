"""Threads for plain handlers that do not hold up the end of the program, as those of the standard library do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class HandlerThreads(Executor):
    """Runs calls in daemon threads, which start as they are needed: Python does not wait for them when it ends.

    `ThreadPoolExecutor` joins all of its threads at the end of the interpreter, also those that a time limit gave up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        # counts the threads that wait for a call
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run a call in the next free thread."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker has ended")
            future: Future[R] = Future()
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and self._started < self._most:
                self._started += 1
                threading.Thread(target=self._run, name=f"job_{self._started - 1}", daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            try:
                found = self._calls.get_nowait()
            except Empty:
                self._idle.release()
                found = self._calls.get()
            if found is None:
                self._calls.put(None)  # for the next thread
                return
            _carry_out(*found)
            del found  # what it holds may be large, and the next call may be far off

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


def _carry_out(future: Future[R], call: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  for whoever waits for the call
        future.set_exception(error)
        del future  # the error holds this frame
    else:
        future.set_result(result)
