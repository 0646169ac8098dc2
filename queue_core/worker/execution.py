"""Calls one job's handler and says what came of it; used in the worker itself and in the process of a job alone."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor
from typing import Any

from queue_core.codec import decode_payload
from queue_core.context import JobContext
from queue_core.job import Outcome
from queue_core.settings import Limits
from queue_core.tasks import Definition
from queue_core.worker import outcomes
from queue_core.worker.attempt import Attempt


async def execute(attempt: Attempt, definition: Definition, limits: Limits, worker: str, threads: Executor) -> Outcome:
    """Run the handler and return the outcome to store.

    Raises:
        CancelledError: the attempt was stopped, or the handler cancelled itself.
    """
    claim = attempt.claim
    try:
        payload = decode_payload(claim.payload)
        arguments = definition.payloads.loaded(payload, claim.payload)
    except ValueError as error:
        return outcomes.invalid_payload(claim, error, limits)
    args = (JobContext(claim, payload, worker, attempt),) if definition.takes_context else ()
    try:
        if definition.is_async:
            result = await definition.function(*args, **arguments)
        else:
            result = await _in_thread(attempt, definition, args, arguments, threads)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  a handler's SystemExit must not end the worker
        if isinstance(error, TypeError) and (misfit := _misfit(definition, payload)) is not None:
            return outcomes.invalid_payload(claim, misfit, limits)
        return outcomes.failed(claim, attempt.run_us(), error, definition.policy, limits)
    return outcomes.completed(claim, attempt.run_us(), result, limits)


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

    return await asyncio.get_running_loop().run_in_executor(threads, call)


def _misfit(definition: Definition, payload: dict[str, Any]) -> Exception | None:
    try:
        definition.signature.bind(**payload)
    except TypeError as error:
        return TypeError(f"the payload does not fit the task '{definition.name}': {error}")
    return None
