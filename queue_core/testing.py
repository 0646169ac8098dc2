"""Help for the tests of those who use this package."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import SimpleNamespace, TracebackType
from typing import Protocol, Self

from queue_core.backends import memory_backend
from queue_core.client.logs import enter_attempt, log_failure
from queue_core.client.middleware import AfterSettle, Hooks
from queue_core.client.schedules import Schedules
from queue_core.client.tasks import Duration, TaskRegistry
from queue_core.model import outcome
from queue_core.model.job import Claim, Outcome, attempt_of
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import check_seconds
from queue_core.ports.backend import Backend
from queue_core.ports.store import ClaimRequest
from queue_core.stores.memory.store import MemoryStore
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.execution import ExecutionContext, execute
from queue_core.worker.journal import Journal
from queue_core.worker.scheduler import Scheduler

WORKER = "testing"
LEASE_SECONDS = 366 * 86400.0
"""Seconds; no job is lost here, however far the clock is moved while it runs."""


class FakeClock:
    """A `Clock` that changes only when it is moved."""

    def __init__(self, now: float = 1_767_225_600.0) -> None:
        self._now = now
        self._passed = 0.0

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._now + self._passed

    def monotonic(self) -> float:
        """Return the seconds that passed since the clock was made."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let this much time pass.

        Raises:
            ValueError: the time is negative; use `set_back` for a clock that jumps.
        """
        if seconds < 0:
            raise ValueError("time does not pass backwards; use set_back to let the clock jump")
        self._passed += seconds

    def set_back(self, seconds: float) -> None:
        """Set the time of day back as a person or a time server may, while the monotonic clock continues."""
        self._now -= seconds


class Swappable(Protocol):
    """What a queue object lets tests do."""

    settings: JobsSettings
    tasks: TaskRegistry
    hooks: Hooks
    schedules: Schedules

    def swap(self, backend: Backend, opened: bool = False) -> tuple[Backend, bool]:
        """Work on another backend from now on."""
        ...


class InProcess:
    """Runs jobs in process and in memory, on the test's call, by a clock that changes only when it is moved.

    async with jobs.testing() as t:
        handle = await thumbnail.options(delay="5m").enqueue("a.png")
        t.advance(300)
        assert await t.run_due() == 1
        assert await handle.result() == {"ok": True}

    Everything of the queue object is there: retries, hooks, payload checks, the inspector. Time limits do not run, and
    tasks with `process=True` run in this process. At the end the queue object is what it was before. Lifespans are not
    entered: a test puts into `state` what its handlers are to find as `ctx.state`.
    """

    def __init__(self, jobs: Swappable) -> None:
        self.clock = FakeClock()
        self.state = SimpleNamespace()
        self._jobs = jobs
        self._store = MemoryStore(self.clock, jobs.settings.retention, jobs.settings.rules)
        self._before: tuple[Backend, bool] | None = None
        self._backend = memory_backend(self._store)
        self._scheduler = Scheduler(self._backend.schedules, jobs.hooks)
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job")
        self._journal = Journal(self._store, self.clock.monotonic)

    async def __aenter__(self) -> Self:
        await self._store.open()
        self._before = self._jobs.swap(self._backend, opened=True)
        await self._jobs.schedules.announce()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            self._jobs.swap(*self._before)
            self._before = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    def advance(self, time: Duration) -> None:
        """Let this much time pass: seconds, "1h" or a timedelta; nothing runs before `run_due`.

        Raises:
            InvalidArgument: it is no duration.
        """
        self.clock.advance(check_seconds(time, "advance"))

    async def run_due(self, most: int = 1000) -> int:
        """Run every job that is due, those included that these enqueue, one at a time; return how many ran.

        Raises:
            RuntimeError: more than `most` ran, so that there seems to be no end.
        """
        ran = 0
        if self._before is not None:
            await self._jobs.schedules.announce()  # what the test has registered since
        after = AfterSettle(self._jobs.hooks.after)
        while claim := await self._next():
            if ran == most:
                raise RuntimeError(
                    f"{most} jobs ran and more are due; does a job enqueue or reschedule itself for ever?"
                )
            ran += 1
            outcome = await self._run(claim)
            await self._journal.write()
            (settled,) = await self._store.settle([outcome])
            if settled.accepted:
                log_failure(outcome, settled, attempt_of(claim))
                after.note(outcome, settled)
        await after.close()
        return ran

    async def _next(self) -> Claim | None:
        await self._scheduler.fire_due()
        await self._store.promote(1000)
        for queue, paused in (await self._store.queues()).items():
            if paused:
                continue
            request = ClaimRequest(queue, WORKER, self._jobs.tasks.types(), 1, LEASE_SECONDS)
            if claims := await self._store.claim(request):
                return claims[0]
        return None

    async def _run(self, claim: Claim) -> Outcome:
        definition, limits = self._jobs.tasks.get(claim.type), self._jobs.settings.limits
        attempt = RunningAttempt(claim, self.clock.monotonic(), self._journal)
        around = ExecutionContext(limits, WORKER, self._threads, self._jobs.hooks, self._store, self.state, timed=False)
        try:
            # A task of its own, as in a worker: the context variables that a job sets are not those of the next one.
            context = copy_context()
            context.run(enter_attempt, claim)
            return await asyncio.create_task(execute(attempt, definition, around), context=context)
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return outcome.failed(claim, 0, error, definition.policy, limits)  # the handler cancelled itself
