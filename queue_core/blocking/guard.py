"""Refusals in front of asynchronous methods where a program uses the blocking client.

A coroutine that no code awaits does nothing, and Python warns of it where few look: a call of `task.enqueue(…)` in a
plain function would lose its job. So it raises there, with the name of the call that is meant.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from queue_core.client.tasks import Task
from queue_core.errors import QueueCoreError
from queue_core.queue import JobQueue

# The methods whose coroutines carry out what a program asks for.
_OF_TASKS = ("enqueue", "try_enqueue", "enqueue_many")
_OF_QUEUES = (*_OF_TASKS, "result", "status_of", "get", "attempts", "list", "count", "cancel", "claim_next", "stats",
              "health")  # fmt: skip


def guard(jobs: JobQueue) -> None:
    """Let the asynchronous methods of a queue object and its tasks raise where they could not be awaited.

    That is in plain functions, and in other event loops than the one in which the object is open. Objects of which no
    blocking client was made have no such methods in front.
    """
    if jobs.guard is not None:
        return

    def refuse_in(owner: object, name: str, called: str, instead: str) -> None:
        method = getattr(owner, name)

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            running = running_loop()
            if running is None:
                raise QueueCoreError(f"{called} is for async code; here it is {instead}")
            if jobs.home not in (None, running):
                raise QueueCoreError(
                    f"{called}: the queue object is open in another event loop, that of a blocking client, a worker or "
                    f"a service; use an object of its own in this loop, or {instead}, for which this loop waits"
                )
            return method(*args, **kwargs)

        setattr(owner, name, call)

    def guard_task(task: Task[Any, Any]) -> None:
        task.guard = guard_task
        for name in _OF_TASKS:
            refuse_in(task, name, f"{task.name}.{name}(…)", f"queue.{name}({task.name}, …) of queue = jobs.blocking()")

    for name in _OF_QUEUES:
        instead = "status" if name == "status_of" else name
        refuse_in(jobs, name, f"jobs.{name}(…)", f"queue.{instead}(…) of queue = jobs.blocking()")
    jobs.guard = guard_task
    for task in list(jobs.made):
        guard_task(task)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
