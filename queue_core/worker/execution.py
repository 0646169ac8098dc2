"""Calls one job's handler and returns the outcome; used in the worker itself and in the process of a job alone."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, SimpleNamespace
from typing import Any, ParamSpec, Protocol, TypeVar

from queue_core.client.context import JobContext
from queue_core.client.logs import claim_fields
from queue_core.client.middleware import Hooks
from queue_core.client.payloads import PayloadTypes, is_coroutine_function
from queue_core.client.tasks import Definition, EnqueueOptions
from queue_core.errors import ConfigurationError, SoftTimeLimitExceeded, StoreUnavailable, TransactionError
from queue_core.model import outcome as outcomes
from queue_core.model.codec import decode_payload
from queue_core.model.job import Outcome
from queue_core.model.retry import Retry
from queue_core.model.settings import Defaults, Limits
from queue_core.ports.store import JobStore, TransactionalStore
from queue_core.queue import JobQueue
from queue_core.worker.attempt import RunningAttempt, within_soft_limit
from queue_core.worker.children.pool import target_of

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("queue_core.worker")


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """Return the code that a call of it runs first; None for what is not written in Python."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


class Completion:
    """One attempt's transaction: started by the handler's first block, committed when the handler has returned."""

    def __init__(self, store: TransactionalStore) -> None:
        self._store = store
        self._beginning = asyncio.Lock()
        self._open: AbstractAsyncContextManager[Any] | None = None
        self._connection: Any = None
        self.refused: BaseException | None = None

    @asynccontextmanager
    async def block(self) -> AsyncIterator[Any]:
        """Give the connection. An exception rolls back what was done in this block, in the first one the whole."""
        async with self._beginning:
            first = self._connection is None
            if first:
                transaction = self._store.transaction()
                try:
                    self._connection = await transaction.__aenter__()
                except (StoreUnavailable, asyncio.CancelledError) as error:
                    self.refused = error
                    raise
                self._open = transaction
        if not first:
            async with self._connection.transaction():  # a savepoint: the blocks before this one stay
                yield self._connection
            return
        try:
            yield self._connection
        except BaseException:
            await self.undo()
            raise

    async def undo(self) -> None:
        """Roll back what the handler did, if anything is left of it; the next block begins a new transaction."""
        transaction, self._open, self._connection = self._open, None, None
        if transaction is not None:
            undone = _Undone()
            await transaction.__aexit__(_Undone, undone, None)

    async def end(self, attempt: RunningAttempt, outcome: Outcome, failed: Callable[[Exception], Outcome]) -> Outcome:
        """Commit a completed attempt together with what its handler did, and return how it ended.

        For every other outcome, and when the lease is over, what the handler did is rolled back.
        """
        if outcome.kind != "completed" or self._connection is None:
            await self.undo()
            return outcome
        attempt.ending = True
        try:
            if attempt.journal is not None:
                await attempt.journal.write_first([attempt])
            attempt.settled = await self._store.settle_on(self._connection, outcome)
            if not attempt.settled.accepted:
                await self.undo()
            else:
                transaction, self._open = self._open, None
                assert transaction is not None
                await transaction.__aexit__(None, None, None)
        except BaseException as error:  # whatever a deferred constraint or a lost server raises, or the loop's end
            # Whether the commit was done is not known if its answer got lost. The failure stored now decides: the
            # store refuses it after the commit, which can no longer come when the store has accepted it.
            attempt.settled = None
            attempt.perhaps = outcome
            await self.undo()
            if not isinstance(error, Exception):
                raise
            return failed(error)
        return outcome


class _Undone(Exception):
    """Ends a transaction without a commit."""


def begin(attempt: RunningAttempt, definition: Definition, store: JobStore) -> AbstractAsyncContextManager[Any]:
    """Return a block of the attempt's transaction, for `JobContext.transaction`.

    Raises:
        TransactionError: this store, or this kind of handler, has none.
    """
    if definition.process or not definition.is_async:
        where = "a child process" if definition.process else "a thread"
        raise TransactionError(
            f"ctx.transaction() is for async handlers in the worker itself; task '{definition.name}' runs in {where}"
        )
    if not isinstance(store, TransactionalStore):
        raise TransactionError(f"ctx.transaction() needs a store in PostgreSQL; this one is {store.name}")
    if attempt.completion is None:
        attempt.completion = Completion(store)
    return attempt.completion.block()


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What handlers of a worker run in."""

    limits: Limits
    # the worker's id
    worker: str
    threads: Executor
    hooks: Hooks
    store: JobStore
    # what lifespans have set up in this process
    state: SimpleNamespace
    # whether soft time limits run
    timed: bool = True


async def execute(attempt: RunningAttempt, definition: Definition, around: ExecutionContext) -> Outcome:
    """Run the handler and return the outcome to store; `attempt.settled`: whether it has been stored already.

    Raises:
        CancelledError: the attempt was stopped, or the handler cancelled itself.
    """
    try:
        outcome = await _handled(attempt, definition, around)
    except BaseException as error:
        if attempt.completion is not None:
            await attempt.completion.undo()
            if error is attempt.completion.refused and attempt.stop_reason == "timeout":
                return _given_back(attempt, "none was free within its time limit")
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


async def _handled(attempt: RunningAttempt, definition: Definition, around: ExecutionContext) -> Outcome:
    claim, limits = attempt.claim, around.limits
    try:
        payload = decode_payload(claim.payload)
    except ValueError as error:
        return outcomes.unreadable(claim, error, limits)
    try:
        arguments = definition.payloads.loaded(payload, claim.payload)
    except ValueError as error:
        return outcomes.payload_misfit(claim, 0, error, definition.policy, limits)
    own = partial(begin, attempt, definition, around.store)
    state = around.state
    args = (JobContext(claim, payload, around.worker, attempt, own, state),) if definition.takes_context else ()
    try:
        if around.hooks.around:
            ctx = args[0] if args else JobContext(claim, payload, around.worker, attempt, own, state)
            call = partial(_call, attempt, definition, args, arguments, around)
            result = await around.hooks.around_run(ctx, call)
        elif definition.is_async and not definition.soft_timeout:
            result = await definition.function(*args, **arguments)
        else:
            result = await _call(attempt, definition, args, arguments, around)
        outcomes.check_finished(result)
    except asyncio.CancelledError as error:
        if attempt.stop_reason is None and isinstance(error, SoftTimeLimitExceeded):
            return outcomes.failed(claim, attempt.run_us(), error, definition.policy, limits)
        raise
    except BaseException as raised:  # a handler's SystemExit must not end the worker
        if attempt.stop_reason is not None:
            # What goes wrong while a handler cleans up is not why its attempt ended.
            raise asyncio.CancelledError from raised
        return await _failed(attempt, definition, payload, raised, limits)
    return outcomes.completed(claim, attempt.run_us(), result, limits)


async def _failed(
    attempt: RunningAttempt, definition: Definition, payload: dict[str, Any], raised: BaseException, limits: Limits
) -> Outcome:
    """Return the outcome of a handler that raised."""
    if attempt.completion is not None and raised is attempt.completion.refused:
        await _pause(attempt)
        return _given_back(attempt, str(raised))
    # by its type: a class may have a __class__ of its own, which raises
    if issubclass(type(raised), TypeError) and (misfit := _misfit(definition, payload)) is not None:
        return outcomes.payload_misfit(attempt.claim, attempt.run_us(), misfit, definition.policy, limits)
    return outcomes.failed(attempt.claim, attempt.run_us(), raised, definition.policy, limits)


NO_CONNECTION_SECONDS = 1.0
"""How long the slot of a job that is given back since there is no connection stays taken: the next try fails, too."""


async def _pause(attempt: RunningAttempt) -> None:
    """Wait before a job is given back that keeps its place; its time limit ends that early."""
    try:
        await asyncio.sleep(NO_CONNECTION_SECONDS)
    except asyncio.CancelledError:
        if attempt.stop_reason != "timeout":
            raise


def _given_back(attempt: RunningAttempt, reason: str) -> Outcome:
    """Return the outcome of a handler that waited for its connection in vain, which is no failure of its own."""
    what = "job %s: its handler got no connection for its transaction, and is given back: %s"
    logger.warning(what, attempt.claim.id, reason, extra=claim_fields(attempt.claim))
    return outcomes.released(attempt.claim, attempt.run_us())


async def _call(
    attempt: RunningAttempt,
    definition: Definition,
    args: tuple[JobContext, ...],
    arguments: dict[str, Any],
    around: ExecutionContext,
) -> Any:
    if definition.is_async:
        handler = definition.function(*args, **arguments)
    else:
        handler = _in_thread(attempt, definition, args, arguments, around.threads)
    if definition.soft_timeout and around.timed:
        return await within_soft_limit(attempt, definition.soft_timeout, definition.is_async, handler)
    return await handler


async def _in_thread(
    attempt: RunningAttempt,
    definition: Definition,
    args: tuple[JobContext, ...],
    arguments: dict[str, Any],
    threads: Executor,
) -> Any:
    def call() -> tuple[Any, BaseException | None]:
        attempt.thread = threading.get_ident()
        try:
            return definition.function(*args, **arguments), None
        except BaseException as error:  # noqa: BLE001  a future would take some for its own end, or change their type
            return None, error
        finally:
            attempt.thread = None

    # The context variables of the code that awaits this, such as a hook's trace, hold in the thread too.
    context = contextvars.copy_context()
    result, error = await asyncio.get_running_loop().run_in_executor(threads, context.run, call)
    if error is None:
        return result
    try:
        raise outcomes.raisable(error)
    finally:
        del error  # it holds this frame


def _misfit(definition: Definition, payload: dict[str, Any]) -> Exception | None:
    try:
        definition.signature.bind(**payload)
    except TypeError as error:
        return TypeError(f"the payload does not fit the task '{definition.name}': {error}")
    return None


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
        is_async=is_coroutine_function(handler, name),
        policy=Retry().resolved(defaults),
        timeout=defaults.timeout,
        options=EnqueueOptions(),
        payloads=PayloadTypes(name, call, signature),
    )
