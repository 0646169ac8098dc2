"""Hooks around enqueueing, running and settling; each does nothing unless overridden."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from queue_core.client.context import JobContext
from queue_core.errors import ConfigurationError, QueueCoreError
from queue_core.model.job import NewJob, Outcome, OutcomeKind, Settled, summary
from queue_core.model.retry import Reschedule, RetryLater
from queue_core.model.validation import check_headers

logger = logging.getLogger("queue_core.client.middleware")


MAX_SETTLED_KEPT = 20_000
"""Settled jobs kept for hooks that are slower than the worker; more are dropped, with one log line."""


@dataclass(frozen=True, slots=True)
class SettledJob:
    """The end of an attempt, after it is stored."""

    id: str
    queue: str
    type: str
    # the attempt's lease token
    token: int
    # the job's new state: a failed job with a cancel request is cancelled instead of retried
    outcome: OutcomeKind
    # seconds that the handler ran
    run: float
    # one line: exception and message of a failed attempt
    error: str | None
    # seconds since the epoch at which the next attempt is due; None when it has none, or is ready now
    due: float | None
    # of a failed attempt's error: jobs that fail alike have the same; see queue_core.model.signature
    signature: str | None = None
    # of a failed attempt
    traceback: str | None = None


class Middleware:
    """Base class of hooks: override the methods that are needed, register with `jobs.middleware(MyMiddleware())`.

    Hooks run in the order of their registration; of `around_run` the first registered is the outermost. A hook that
    raises is logged and costs no job.
    """

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Receive the jobs of one call before they are written; `job.headers` is a dict that may be changed.

        Raising an error of this package's tree refuses the whole call, and the caller gets it: nothing is written.
        Any other exception is logged, and the jobs are enqueued.
        """

    async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        """Run a handler by awaiting `call`, in the worker, or in the job's own process.

        The handler's result or exception counts, regardless of what this hook returns or catches. If the hook raises
        before it awaited `call`, the handler runs without it; a RetryLater or Reschedule then ends the attempt, as from
        the handler. Time limit and cancellation hold for both together.
        """
        return await call()

    async def after_settle(self, job: SettledJob) -> None:
        """Receive the end of an attempt after it is stored; one after the other, concurrently with running jobs.

        A hint, not a record: a killed worker calls no hook, and a hook that is far behind misses some ends.
        """


class Hooks:
    """The middleware of one queue object."""

    def __init__(self) -> None:
        self._registered: list[Middleware] = []
        # the overridden methods of each hook; the others cost nothing
        self.before: list[Middleware] = []
        self.around: list[Middleware] = []
        self.after: list[Middleware] = []

    def add(self, hook: Middleware) -> None:
        """Register a middleware; a second time changes nothing.

        Raises:
            ConfigurationError: it is none.
        """
        if not isinstance(hook, Middleware):
            raise ConfigurationError(f"a middleware is an object of a subclass of Middleware, not {hook!r}")
        if hook in self._registered:
            return
        self._registered.append(hook)
        kind = type(hook)
        if kind.before_enqueue is not Middleware.before_enqueue:
            self.before.append(hook)
        if kind.around_run is not Middleware.around_run:
            self.around.append(hook)
        if kind.after_settle is not Middleware.after_settle:
            self.after.append(hook)

    def remove(self, hook: Middleware) -> None:
        """Take a registered middleware out again."""
        for hooks in (self._registered, self.before, self.around, self.after):
            if hook in hooks:
                hooks.remove(hook)

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """Call the hooks with jobs before they are written, and return the jobs with the headers that these gave them.

        Raises:
            QueueCoreError: a hook refused them, or gave them headers that cannot be.
        """
        if not self.before:
            return jobs
        jobs = tuple([job._replace(headers=dict(job.headers)) for job in jobs])
        for hook in self.before:
            try:
                await hook.before_enqueue(jobs)
            except QueueCoreError:
                raise
            except Exception:
                logger.exception("%s.before_enqueue failed; the jobs are enqueued", type(hook).__name__)
        for job in jobs:
            if job.headers:
                check_headers(job.headers)
        return jobs

    async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        """Run a handler within the hooks and return what it returned, or raise what it raised."""
        for hook in reversed(self.around):
            call = _Guarded(hook, ctx, call)
        return await call()


class _Guarded:
    """One hook around a call that runs once and whose end counts, whatever the hook does."""

    def __init__(self, hook: Middleware, ctx: JobContext, inner: Callable[[], Awaitable[Any]]) -> None:
        self._hook = hook
        self._ctx = ctx
        self._inner = inner
        self._started = False
        self._result: Any = None
        self._error: BaseException | None = None

    async def __call__(self) -> Any:
        try:
            await self._hook.around_run(self._ctx, self._once)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a hook's SystemExit must not end the worker
            if isinstance(error, RetryLater | Reschedule) and not self._started:
                raise  # a hook may decide that it is too early for this job
            if error is not self._error:
                logger.exception("%s.around_run failed for job %s", type(self._hook).__name__, self._ctx.job_id)
        if not self._started:
            return await self._inner()
        if self._error is not None:
            raise self._error
        return self._result

    async def _once(self) -> Any:
        if self._started:
            raise RuntimeError("a handler runs once an attempt: around_run awaited its call twice")
        self._started = True
        try:
            self._result = await self._inner()
        except BaseException as error:
            self._error = error
            raise
        return self._result


class AfterSettle:
    """Calls hooks with the ends of attempts, in order, without delaying the next batch."""

    def __init__(self, hooks: Sequence[Middleware]) -> None:
        self._hooks = hooks
        self._buffer: deque[SettledJob] = deque()
        self._task: asyncio.Task[None] | None = None
        self._behind = False
        # not that of the job whose end happens to be noted first
        self._context = contextvars.copy_context()

    def note(self, outcome: Outcome, answer: Settled) -> None:
        """Queue the end of an attempt that the store accepted."""
        if not self._hooks:
            return
        if len(self._buffer) >= MAX_SETTLED_KEPT:
            if not self._behind:
                logger.warning("after_settle is %d jobs behind; it misses some", MAX_SETTLED_KEPT)
            self._behind = True
            return
        kind: OutcomeKind = "cancelled" if answer.cancelled else outcome.kind
        failure = outcome.failure
        why = (None, None, None) if failure is None else (summary(failure), failure.signature, failure.traceback)
        error, *details = why
        ids = (outcome.id, outcome.queue, outcome.type, outcome.token)
        self._buffer.append(SettledJob(*ids, kind, outcome.run_us / 1e6, error, answer.due, *details))
        if self._task is None or self._task.done():
            self._behind = False
            self._task = asyncio.create_task(self._run(), context=self._context.copy())

    async def _run(self) -> None:
        while self._buffer:
            job = self._buffer.popleft()
            for hook in self._hooks:
                try:
                    await hook.after_settle(job)
                except Exception:
                    logger.exception("%s.after_settle failed for job %s", type(hook).__name__, job.id)

    async def close(self, seconds: float = 5.0) -> None:
        """Call the hooks for the remaining ends, for at most `seconds`."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._task, seconds)
