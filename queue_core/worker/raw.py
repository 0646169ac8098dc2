"""One handler for whole queues: every job whatever its type, without a registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from queue_core.context import JobContext
from queue_core.errors import ConfigurationError
from queue_core.payloads import PayloadTypes
from queue_core.queue import JobQueue
from queue_core.retry import Retry
from queue_core.settings import Defaults
from queue_core.tasks import Definition, EnqueueOptions
from queue_core.worker.pool import target_of

RawHandler = Callable[[JobContext], Any]
"""Async, or plain and then run in threads; it reads `ctx.type` and `ctx.payload`, and returns the job's result."""


class Handlers(Protocol):
    """Where a worker finds what to run: the registered tasks, or one handler for everything."""

    def get(self, name: str) -> Definition:
        """Return what runs jobs of this type."""
        ...


class OneHandler:
    """Gives the same handler for every type, with the queue's default policy and time limit."""

    def __init__(self, handler: RawHandler, defaults: Defaults) -> None:
        self._definition = _definition(handler, defaults)

    def get(self, name: str) -> Definition:
        """Return the handler."""
        return self._definition


def handlers_of(
    jobs: JobQueue, handler: RawHandler | None, queues: object, target: str | None
) -> tuple[Handlers, str | None]:
    """Return what a worker runs, and how its child processes find the queue object, where they can.

    Raises:
        ConfigurationError: these do not go together, or the handler takes no JobContext.
    """
    if handler is None:
        return jobs.tasks, target_of(jobs, target)
    if not queues:
        raise ConfigurationError("a worker's handler gets every job of its queues: name them with queues=[…]")
    if target is not None:
        raise ConfigurationError("target= is for registered tasks; a worker's handler runs in the worker itself")
    return OneHandler(handler, jobs.settings.defaults), None


def _definition(handler: RawHandler, defaults: Defaults) -> Definition:
    name = getattr(handler, "__name__", type(handler).__name__)
    try:
        inspect.signature(handler).bind(None)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"a worker's handler takes one JobContext; '{name}' does not: {error}") from None

    # Whatever names a payload holds, they meet no parameter.
    def call(ctx: JobContext, /, **payload: Any) -> Any:
        return handler(ctx)

    signature = inspect.signature(call)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return Definition(
        name=name,
        function=call,
        signature=signature,
        takes_context=True,
        is_async=inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__),
        policy=Retry().resolved(defaults),
        timeout=defaults.timeout,
        options=EnqueueOptions(),
        payloads=PayloadTypes(name, call, signature),
    )
