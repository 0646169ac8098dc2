"""What is in front of asynchronous methods where a program uses the blocking client.

A coroutine that no code awaits does nothing, and Python warns of it where few look: a call of `task.enqueue(…)` in a
plain function would lose its job. So it raises there, with the name of the call that is meant.

A web server has plain views and asynchronous ones, and the first of them opens the queue object. Where that was done in
the event loop of the blocking client, asynchronous calls of another loop run there, and are awaited here.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from queue_core.client.tasks import Task
from queue_core.errors import QueueCoreError
from queue_core.queue import JobQueue
from queue_core.runtime import is_served

# The methods whose coroutines carry out what a program asks for.
_OF_TASKS = ("enqueue", "try_enqueue", "enqueue_many")
_OF_QUEUES = (*_OF_TASKS, "result", "status_of", "get", "attempts", "list", "count", "cancel", "claim_next", "stats",
              "health", "wait_for")  # fmt: skip
# What it returns goes on with its heartbeats and its end in the loop that it was made in.
_OF_ONE_LOOP = frozenset({"claim_next"})
_NAMES = {"status_of": "status", "wait_for": "result"}
_CHECK_SECONDS = 1.0
"""Between two checks whether the event loop of a call is still there."""


def guard(jobs: JobQueue) -> None:
    """Let the asynchronous methods of a queue object and its tasks raise where they could not be awaited.

    That is in plain functions. In other event loops than the one in which the object is open they run in that one, and
    raise where they cannot. Objects of which no blocking client was made have no such methods in front.
    """
    if jobs.guard is not None:
        return

    def guard_task(task: Task[Any, Any]) -> None:
        task.guard = guard_task
        for name in _OF_TASKS:
            _put_before(
                jobs, task, name, f"{task.name}.{name}(…)", f"queue.{name}({task.name}, …) of queue = jobs.blocking()"
            )

    for name in _OF_QUEUES:
        _put_before(
            jobs, jobs, name, f"jobs.{name}(…)", f"queue.{_NAMES.get(name, name)}(…) of queue = jobs.blocking()"
        )
    jobs.guard = guard_task
    for task in list(jobs.made):
        guard_task(task)


def _put_before(jobs: JobQueue, owner: JobQueue | Task[Any, Any], name: str, called: str, instead: str) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        running, home = running_loop(), jobs.home
        if running is None:
            raise QueueCoreError(f"{called} is for async code; here it is {instead}")
        if home in (None, running):
            return method(*args, **kwargs)
        if home is not None and is_served(home) and not _stays(owner, name, kwargs):
            return _in_loop(home, method, args, kwargs)
        raise QueueCoreError(
            f"{called}: the queue object is open in another event loop, that of a blocking client, a worker or "
            f"a service; use an object of its own in this loop, or {instead}, for which this loop waits"
        )

    setattr(owner, name, call)


def _stays(owner: JobQueue | Task[Any, Any], name: str, kwargs: dict[str, Any]) -> bool:
    """Whether a call is of its own event loop alone: a claim, and one with a connection, which belongs to it."""
    connection = owner.chosen.connection if isinstance(owner, Task) else kwargs.get("connection")
    return name in _OF_ONE_LOOP or connection is not None


async def _in_loop(
    home: asyncio.AbstractEventLoop,
    method: Callable[..., Coroutine[Any, Any, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run an asynchronous method in the event loop of another thread, while this one goes on.

    Raises:
        QueueCoreError: that loop was closed meanwhile.
    """
    future = asyncio.run_coroutine_threadsafe(method(*args, **kwargs), home)
    here = asyncio.wrap_future(future)
    try:
        while not (await asyncio.wait({here}, timeout=_CHECK_SECONDS))[0]:
            if home.is_closed():
                raise QueueCoreError(_ENDED)
        if future.cancelled():
            raise QueueCoreError(_ENDED)
        return here.result()
    finally:
        # Where this call is cancelled, what it waits for is, too.
        here.cancel()


_ENDED = "the event loop in which the queue object was open was closed during this call"


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
