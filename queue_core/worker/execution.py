"""Calls one job's handler and says what came of it; used in the worker itself and in the process of a job alone."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

from queue_core.codec import decode_payload
from queue_core.context import JobContext
from queue_core.errors import SoftTimeLimitExceeded
from queue_core.job import Outcome
from queue_core.middleware import Hooks
from queue_core.settings import Limits
from queue_core.store import JobStore
from queue_core.tasks import Definition
from queue_core.worker import outcomes, soft
from queue_core.worker.attempt import Attempt
from queue_core.worker.completion import begin


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What handlers of a worker run in."""

    limits: Limits
    # the worker's id
    worker: str
    threads: Executor
    hooks: Hooks
    store: JobStore
    # whether soft time limits run
    timed: bool = True


async def execute(attempt: Attempt, definition: Definition, around: Surroundings) -> Outcome:
    """Run the handler and return the outcome to store; `attempt.settled` says whether it has been stored already.

    Raises:
        CancelledError: the attempt was stopped, or the handler cancelled itself.
    """
    try:
        outcome = await _handled(attempt, definition, around)
    except BaseException:
        if attempt.completion is not None:
            await attempt.completion.undo()
        raise
    if attempt.abandoned:
        if attempt.completion is not None:
            await attempt.completion.undo()
        raise asyncio.CancelledError
    if attempt.completion is None:
        return outcome

    def failed(error: Exception) -> Outcome:
        return outcomes.failed(attempt.claim, attempt.run_us(), error, definition.policy, around.limits)

    return await attempt.completion.end(attempt, outcome, failed)


async def _handled(attempt: Attempt, definition: Definition, around: Surroundings) -> Outcome:
    claim, limits = attempt.claim, around.limits
    try:
        payload = decode_payload(claim.payload)
    except ValueError as error:
        return outcomes.unreadable(claim, error, limits)
    try:
        arguments = definition.payloads.loaded(payload, claim.payload)
    except ValueError as error:
        return outcomes.misfit(claim, 0, error, definition.policy, limits)
    own = partial(begin, attempt, definition, around.store)
    args = (JobContext(claim, payload, around.worker, attempt, own),) if definition.takes_context else ()
    try:
        if around.hooks.around:
            ctx = args[0] if args else JobContext(claim, payload, around.worker, attempt, own)
            call = partial(_call, attempt, definition, args, arguments, around)
            result = await around.hooks.around_run(ctx, call)
        elif definition.is_async and not definition.soft_timeout:
            result = await definition.function(*args, **arguments)
        else:
            result = await _call(attempt, definition, args, arguments, around)
    except asyncio.CancelledError as error:
        if attempt.stop_reason is None and isinstance(error, SoftTimeLimitExceeded):
            return outcomes.failed(claim, attempt.run_us(), error, definition.policy, limits)
        raise
    except BaseException as raised:  # noqa: BLE001  a handler's SystemExit must not end the worker
        problem = _readable(raised)
        if attempt.stop_reason is not None:
            # What goes wrong while a handler cleans up is not why its attempt ended.
            raise asyncio.CancelledError from problem
        if isinstance(problem, TypeError) and (misfit := _misfit(definition, payload)) is not None:
            return outcomes.misfit(claim, attempt.run_us(), misfit, definition.policy, limits)
        return outcomes.failed(claim, attempt.run_us(), problem, definition.policy, limits)
    return outcomes.completed(claim, attempt.run_us(), result, limits)


async def _call(
    attempt: Attempt,
    definition: Definition,
    args: tuple[JobContext, ...],
    arguments: dict[str, Any],
    around: Surroundings,
) -> Any:
    if definition.is_async:
        handler = definition.function(*args, **arguments)
    else:
        handler = _in_thread(attempt, definition, args, arguments, around.threads)
    if definition.soft_timeout and around.timed:
        return await soft.within(attempt, definition.soft_timeout, definition.is_async, handler)
    return await handler


async def _in_thread(
    attempt: Attempt, definition: Definition, args: tuple[JobContext, ...], arguments: dict[str, Any], threads: Executor
) -> Any:
    def call() -> Any:
        attempt.thread = threading.get_ident()
        try:
            return definition.function(*args, **arguments)
        except (StopIteration, GeneratorExit) as error:  # to a coroutine these mean its own end
            raise RuntimeError(f"the handler raised {type(error).__name__}") from error
        finally:
            attempt.thread = None

    # The context variables of whoever awaits this, such as a hook's trace, hold in the thread too.
    return await asyncio.get_running_loop().run_in_executor(threads, contextvars.copy_context().run, call)


def _misfit(definition: Definition, payload: dict[str, Any]) -> Exception | None:
    try:
        definition.signature.bind(**payload)
    except TypeError as error:
        return TypeError(f"the payload does not fit the task '{definition.name}': {error}")
    return None


def _readable(error: BaseException) -> BaseException:
    """Return the error, or what stands for one that raises when it is asked for its class, as `isinstance` does."""
    try:
        _ = error.__class__
    except BaseException:  # noqa: BLE001  a job's own code, it may raise anything
        return RuntimeError(f"{type(error).__qualname__} was raised, and raises when it is asked for its class")
    return error
