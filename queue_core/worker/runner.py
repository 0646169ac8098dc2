"""Runs claimed jobs: one task each, a bounded number at a time, a few waiting so that a slot is never idle."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import inf
from types import CodeType
from typing import Any

from queue_core.client.lifespan import Lifespan
from queue_core.client.logs import claim_fields, enter_attempt, enter_worker
from queue_core.client.middleware import Hooks
from queue_core.client.tasks import Definition
from queue_core.model import outcome as outcomes
from queue_core.model.job import MAX_LOSSES, Claim, Outcome
from queue_core.model.settings import Limits
from queue_core.ports.store import JobStore
from queue_core.threads import DaemonThreads
from queue_core.worker.attempt import MainTask, RunningAttempt
from queue_core.worker.children.pool import Isolation, ProcessPool, is_suspect
from queue_core.worker.children.starter import ChildStarter
from queue_core.worker.execution import ExecutionContext, Handlers, code_of, execute
from queue_core.worker.journal import EventPublisher
from queue_core.worker.settler import AnySettler

logger = logging.getLogger("queue_core.worker")


AHEAD_SECONDS = 0.1
"""Waiting jobs are what the slots will start within this time, by how many ended in the time before."""
MAX_AHEAD = 1000
PATIENCE_SECONDS = 1.0
"""After so long, jobs that wait although nothing ends any more are given back to workers that have free slots."""
STUBBORN_SECONDS = 5.0
"""What a handler may take to clean up after its cancellation; one that swallows it is given up then."""
LIMITS_TICK = 0.05
"""Seconds between two checks of the time limits."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a runner runs, and how."""

    tasks: Handlers
    hooks: Hooks
    limits: Limits
    concurrency: int
    # the worker's id
    worker: str
    store: JobStore
    # package.module:name of the queue object; None: a suspect job cannot be run alone
    target: str | None = None
    # losses that bury a job
    max_losses: int = MAX_LOSSES
    # child processes at a time of either kind; None: one for each processor
    children: int | None = None
    # what handlers share in this process; None: nothing
    lifespan: Lifespan | None = None
    # seconds of a lease
    lease: float = inf


class Runner:
    """Slots, the jobs in them, and the few that wait for one."""

    def __init__(
        self, plan: RunPlan, settler: AnySettler, publisher: EventPublisher, held: dict[str, RunningAttempt]
    ) -> None:
        self._tasks = plan.tasks
        self._limits = plan.limits
        self.concurrency = concurrency = plan.concurrency
        self._worker, self._max_losses, self._lease = plan.worker, plan.max_losses, plan.lease
        lifespan = plan.lifespan or Lifespan(())
        leaves = bool(lifespan)
        self._isolation = self._pool = None
        if plan.target is not None:
            starter = ChildStarter(plan.target, plan.worker, plan.max_losses)
            self._isolation = Isolation(starter, lambda: self.draining, plan.children, leaves)
            self._pool = ProcessPool(starter, plan.children, leaves)
        self._settler = settler
        self._publisher = publisher
        self._held = held
        self._waiting: deque[RunningAttempt] = deque()
        self._running: set[RunningAttempt] = set()
        # Threads start as they are needed; more than the slots only replace those that were given up.
        self._threads = DaemonThreads(2 * concurrency + 10, "job")
        self._around = ExecutionContext(plan.limits, plan.worker, self._threads, plan.hooks, plan.store, lifespan.state)
        # attempts that ended since they were last counted, and how many of them there were in a second
        self._ended = 0
        self._counted_at = time.monotonic()
        self._per_second = 0.0
        # seconds of time.monotonic since when more wait than will start soon
        self._surplus_since: float | None = None
        self._filling = False
        self.draining = False  # whether nothing begins any more
        self._changed = asyncio.Event()
        # jobs that may still be accepted
        self.left = sys.maxsize
        # what the context variables hold for every job
        self.context = contextvars.copy_context()
        # what all of it runs in; set by a worker
        self.main: MainTask | None = None
        # attempts whose thread was given up
        self._given_up: list[RunningAttempt] = []
        # attempts whose coroutine was given up and goes on
        self._stubborn: set[RunningAttempt] = set()

    def take_context(self) -> None:
        """Have every job find the context variables as they are here, and its worker noted for logs."""
        self.context = contextvars.copy_context()
        enter_worker(self.context, self._worker)

    @property
    def busy(self) -> int:
        """Jobs that are running now."""
        return len(self._running)

    @property
    def stuck_threads(self) -> int:
        """Threads that were given up and still run; from any thread."""
        return sum(attempt.thread is not None for attempt in list(self._given_up))

    @property
    def stuck(self) -> int:
        """Handlers that were given up and still run, in threads or as coroutines; from any thread."""
        return self.stuck_threads + len(self._stubborn)

    @property
    def used_up(self) -> bool:
        """Whether all jobs that may be accepted have ended, or a tenth of the slots is lost to stuck handlers."""
        done = self.left <= 0 and not self._running and not self._waiting
        return done or self.stuck * 10 >= max(10, self.concurrency)

    def job_of(self, task: asyncio.Task[Any] | None, codes: Set[CodeType]) -> Claim | None:
        """Return the job whose handler a task runs just now, by the code that runs in its thread; from any thread.

        A task runs more than its handler: hooks, and the start of a child process.
        """
        claim = next((a.claim for a in list(self._running) if a.task is task is not None), None)
        return claim if claim is not None and code_of(self._tasks.get(claim.type).function) in codes else None

    def free(self) -> int:
        """Return how many jobs would begin at once."""
        return max(0, self.concurrency - len(self._running) - len(self._waiting))

    def room(self) -> int:
        """Return how many more jobs to hold: the free slots and what will start within about 100 ms."""
        return min(self.left, self.concurrency + self._ahead() - len(self._running) - len(self._waiting))

    def held_of(self, queue: str) -> int:
        """Return how many attempts of a queue are running, waiting here, or not stored yet."""
        return sum([attempt.claim.queue == queue for attempt in self._held.values()])

    def _ahead(self) -> int:
        return min(MAX_AHEAD, int(self._per_second * AHEAD_SECONDS))

    async def wait_for_room(self) -> int:
        """Wait until there is room for a worthwhile claim: a quarter of the slots, or whatever is idle."""
        while True:
            room = self.room()
            if room > 0 and (not self._waiting or room * 4 >= self.concurrency):
                return room
            self._changed.clear()
            await self._changed.wait()

    async def wait_until_idle(self) -> None:
        """Wait until nothing runs."""
        while self._running:
            self._changed.clear()
            await self._changed.wait()

    def accept(
        self, claims: Sequence[Claim], claimed_at: float, start_count: int, start_by: float = inf, since: float = 0.0
    ) -> None:
        """Take jobs whose claim was sent at this monotonic time; they start as slots come free, best rank first.

        The store knows that the first `start_count` of them start at once. After `start_by` they are given back.
        `since`: when their slots went to the best rank, if that was before.
        """
        self.left -= len(claims)
        for place, claim in enumerate(claims):
            attempt = RunningAttempt(claim, claimed_at, self._settler.journal_of(claim.queue), self._lease)
            attempt.ahead = place >= start_count
            attempt.start_by = start_by
            attempt.since = since or claimed_at
            if claim.id in self._held:
                # This worker slept beyond its lease and got its own job again: the earlier attempt is over.
                self.stop_jobs([claim.id], lost=True)
            self._held[claim.id] = attempt
            self._waiting.append(attempt)
        self._fill()

    def _fill(self) -> None:
        if self._filling:
            return  # a job that ended within its own start must not start the next one on top of its stack
        self._filling = True
        try:
            while self._waiting and len(self._running) < self.concurrency and not self.draining:
                attempt = self._waiting.popleft()
                if attempt.handed_back:
                    self._lose(attempt)
                elif attempt.start_by < (now := time.monotonic()) or attempt.outlived(now):
                    self.left += 1
                    self._settler.put(outcomes.released(attempt.claim, 0))
                else:
                    self._start(attempt)
        finally:
            self._filling = False

    def _start(self, attempt: RunningAttempt) -> None:
        self._running.add(attempt)
        attempt.started = time.perf_counter()
        # Before the publisher is woken: the handler comes first, then the event of it.
        # A context of its own: jobs are started from wherever another one has ended, and its variables are not theirs.
        # The attempt learns of its task when that has begun: one that is cancelled before would never run, nor end it.
        asyncio.create_task(self._run(attempt), context=self.context.copy())  # noqa: RUF006  the loop has it until then
        self._publisher.started(attempt.claim)

    async def _run(self, attempt: RunningAttempt) -> None:
        attempt.task = asyncio.current_task()
        enter_attempt(attempt.claim)
        outcome = None
        try:
            held_back = self.draining and attempt.stop_reason is None  # it was to begin in this turn of the loop
            outcome = outcomes.released(attempt.claim, 0) if held_back else await self._outcome(attempt)
        except Exception:
            # Not the handler's doing: the job runs again. The loss counts, for it may be a job that has this effect.
            logger.exception("job %s: the worker itself failed", attempt.claim.id)
            if attempt.stop_reason != "lost":
                outcome = outcomes.lost_with_worker(self._worker, attempt.claim, attempt.run_us(), self._max_losses)
        finally:
            if attempt.abandoned:
                self._stubborn.discard(attempt)
            else:
                self._end(attempt, outcome)

    def _end(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        """Free the attempt's slot, and hand on what is to be stored; None: nothing."""
        self._running.discard(attempt)
        self._ended += 1
        self._fill()
        self._changed.set()
        if outcome is not None:
            self._settler.put(outcome, attempt.settled)
        elif self._held.get(attempt.claim.id) is attempt:
            del self._held[attempt.claim.id]

    def give_up(self, attempt: RunningAttempt) -> None:
        """End an attempt by the reason for which it was stopped, although its handler swallowed the cancellation."""
        if attempt.abandoned or attempt.ending or attempt not in self._running:
            return
        outcome = self._stopped(attempt, self._tasks.get(attempt.claim.type), asyncio.CancelledError())
        attempt.abandoned = True
        self._stubborn.add(attempt)
        logger.warning(
            "job %s: its handler swallowed its cancellation and is given up; %d such handlers run",
            attempt.claim.id,
            len(self._stubborn),
            extra=claim_fields(attempt.claim),
        )
        if attempt.task is not None:
            attempt.task.cancel()  # one that swallows a single one may obey the next
        self._end(attempt, outcome)

    def give_up_running(self) -> None:
        """Give up what was stopped and still runs: the worker ends."""
        for attempt in list(self._running):
            self.give_up(attempt)

    def forget_stubborn(self) -> None:
        """Let the event loop end without the handlers that were given up."""
        for attempt in self._stubborn:
            if attempt.task is not None:
                attempt.task._log_destroy_pending = False  # type: ignore[attr-defined]
                asyncio._unregister_task(attempt.task)

    async def _outcome(self, attempt: RunningAttempt) -> Outcome | None:
        """Run the handler and return what to store; None when the lease is lost and nothing may be stored."""
        definition = self._tasks.get(attempt.claim.type)
        try:
            now = time.monotonic()
            attempt.check_start(now)
            if self._isolation is not None and not definition.process and is_suspect(attempt.claim):
                return await self._isolation.execute(attempt, definition)
            if definition.timeout and not definition.process:
                attempt.deadline = now + definition.timeout
            if definition.process and self._pool is not None:
                return await self._pool.execute(attempt, definition)
            return await execute(attempt, definition, self._around)
        except asyncio.CancelledError as error:
            return self._stopped(attempt, definition, error)

    def _stopped(self, attempt: RunningAttempt, definition: Definition, error: BaseException) -> Outcome | None:
        claim, run_us, reason = attempt.claim, attempt.run_us(), attempt.stop_reason
        if attempt.thread is not None:
            self._given_up = [*(one for one in self._given_up if one.thread is not None), attempt]
            stuck = self.stuck_threads
            logger.warning("job %s: its thread cannot be ended and is given up; %d such threads run", claim.id, stuck)
        if reason == "timeout":
            late = outcomes.time_limit_error(definition.timeout, error, attempt.thread)
            return outcomes.failed(claim, run_us, late, definition.policy, self._limits)
        if reason == "cancel":
            return outcomes.cancelled(claim, run_us)
        if reason == "lost":
            return None
        if reason is None and self.main is not None and self.main.cancelling():
            self.stop_starting()
            reason = "release"
        if reason == "release":
            if self.main is not None and self.main.lost:
                return outcomes.lost_with_worker(self._worker, claim, run_us, self._max_losses)
            return outcomes.released(claim, run_us)
        return outcomes.failed(claim, run_us, error, definition.policy, self._limits)  # the handler cancelled itself

    async def watch_limits(self) -> None:
        """Stop jobs that run longer than their time limit, and give back what waits too long, for ever."""
        while True:
            await asyncio.sleep(LIMITS_TICK)
            now = time.monotonic()
            if now - self._counted_at >= AHEAD_SECONDS:
                self._count(now)
            for attempt in list(self._running):
                if attempt.deadline <= now:
                    attempt.stop("timeout")
                if now - attempt.stopped_at >= STUBBORN_SECONDS:
                    self.give_up(attempt)

    def _count(self, now: float) -> None:
        """Measure how fast jobs end, and give back those for which that turned out too slow."""
        self._per_second = self._ended / (now - self._counted_at)
        self._ended, self._counted_at = 0, now
        surplus = len(self._waiting) - self._ahead()
        if surplus <= 0:
            self._surplus_since = None
        elif self._surplus_since is None:
            self._surplus_since = now
        elif now - self._surplus_since >= PATIENCE_SECONDS:
            self._surplus_since = None
            self.left += surplus
            for _ in range(surplus):
                self._settler.put(outcomes.released(self._waiting.pop().claim, 0))

    def stop_jobs(self, ids: Sequence[str], lost: bool) -> None:
        """Stop jobs whose lease is lost, or that have a cancel request."""
        for job_id in ids:
            attempt = self._held.get(job_id)
            if attempt is None:
                continue
            if attempt in self._running:
                attempt.stop("lost" if lost else "cancel")
            elif attempt in self._waiting:
                self._waiting.remove(attempt)
                del self._held[job_id]
                if not lost:
                    self._held[job_id] = attempt
                    self._settler.put(outcomes.cancelled(attempt.claim, 0))

    def drop(self, attempts: Sequence[RunningAttempt]) -> None:
        """Forget jobs that were handed back before they began."""
        for attempt in attempts:
            if attempt in self._waiting:
                self._waiting.remove(attempt)
                self._lose(attempt)
        self._changed.set()

    def _lose(self, attempt: RunningAttempt) -> None:
        self.left += 1
        if self._held.get(attempt.claim.id) is attempt:
            del self._held[attempt.claim.id]

    def stop_starting(self) -> None:
        """Begin nothing more; give back what waits for a child process."""
        self.draining = True
        for children in (self._isolation, self._pool):
            if children is not None:
                children.stop_starting()

    def release_waiting(self) -> None:
        """Give back the jobs that have not started."""
        while self._waiting:
            self._settler.put(outcomes.released(self._waiting.popleft().claim, 0))

    def release_running(self) -> None:
        """Stop the running jobs and give them back."""
        for attempt in list(self._running):
            attempt.stop("release")

    async def close(self) -> None:
        """Let the threads go; those that still run end with the process. End the child processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            await self._pool.close()
