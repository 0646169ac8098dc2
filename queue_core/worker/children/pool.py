"""The processes of tasks that ask for one: kept warm, a job at a time each, replaced when a job takes them down."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf

from queue_core.client.tasks import Definition
from queue_core.errors import ConfigurationError
from queue_core.model import outcome
from queue_core.model.job import Claim, Failure, Outcome
from queue_core.model.outcome import SUSPECT_LOSSES
from queue_core.model.signature import sign
from queue_core.queue import JobQueue
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.children.process import ChildLost, ChildProcess
from queue_core.worker.children.starter import EXCEPTION, ChildStarter

# Child processes that run jobs one after the other, so that what a job does to its process costs that job only.

START_SECONDS = 30.0
"""What a new child may take to import the queue object before the job's time limit begins."""


class Slots:
    """So many places for children, given as they were asked for; None: one for each processor, but at least some."""

    def __init__(self, most: int | None, least: int) -> None:
        self._free = asyncio.Semaphore(max(least, os.cpu_count() or 1) if most is None else most)
        # attempts that no child has taken yet
        self._waiting: set[RunningAttempt] = set()

    @asynccontextmanager
    async def taken(self, attempt: RunningAttempt) -> AsyncIterator[None]:
        """Wait for a place and hold it.

        Raises:
            CancelledError: the attempt was stopped.
        """
        self._waiting.add(attempt)
        try:
            async with self._free:
                self._waiting.discard(attempt)
                yield
        finally:
            self._waiting.discard(attempt)

    def stop_starting(self) -> None:
        """Begin nothing more: give back the jobs that wait."""
        for attempt in list(self._waiting):
            attempt.stop("release")


def begin(attempt: RunningAttempt, definition: Definition, seconds: float = 0.0) -> None:
    """Count the attempt's run time from now on, and its time limit from so many seconds later."""
    attempt.started = time.perf_counter()
    if definition.timeout:
        attempt.deadline = time.monotonic() + seconds + definition.timeout


CHILD_TRIES = 3
"""Children tried for a job before it is given back: none of them has taken it."""


class ProcessPool:
    """Warm children; jobs beyond their number wait for one, and their time limit does not run."""

    def __init__(self, starter: ChildStarter, most: int | None, leaves: bool) -> None:
        self._leaves = leaves
        self._starter = starter
        self._slots = Slots(most, 2)
        self._idle: list[ChildProcess] = []

    async def execute(self, attempt: RunningAttempt, definition: Definition) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store; a child's death fails the attempt.

        Where no child could take the job, that is a loss like any other.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        async with self._slots.taken(attempt):
            try:
                return await self._run(attempt, definition)
            except ChildLost as lost:
                if not lost.started:
                    return self._starter.lost(attempt, lost, "the process that was to run this job")
                message = f"the process that ran this job {lost.how}"
                failure = Failure("crashed", EXCEPTION, message, "", *sign(EXCEPTION, message))
                return outcome.crashed(attempt.claim, attempt.run_us(), failure, definition.policy)

    def stop_starting(self) -> None:
        """Begin nothing more: give back the jobs that wait for a child."""
        self._slots.stop_starting()
        self._starter.stop_starting()

    async def _run(self, attempt: RunningAttempt, definition: Definition) -> Outcome:
        tries = 0
        while True:
            tries += 1
            child = await self._take(attempt)
            begin(attempt, definition, START_SECONDS)
            try:
                outcome = await child.run(attempt, partial(self._begin, attempt, definition))
            except ChildLost as lost:
                await child.kill()
                attempt.deadline = inf
                if lost.started:
                    raise
                self._starter.note_failure()
                if tries >= CHILD_TRIES:
                    raise
            except BaseException:
                await child.kill()
                raise
            else:
                self._idle.append(child)
                return outcome

    def _begin(self, attempt: RunningAttempt, definition: Definition) -> None:
        self._starter.note_start()
        begin(attempt, definition)

    async def _take(self, attempt: RunningAttempt) -> ChildProcess:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await child.kill()
        return await self._starter.start(attempt)

    async def close(self) -> None:
        """End the children; those that run a job belong to its attempt."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(child.close(self._leaves) for child in idle))


def target_of(jobs: JobQueue, target: str | None) -> str | None:
    """Return how children find the queue object: as given, or as the module of its first process task names it.

    Raises:
        ConfigurationError: there are process tasks, and no module has the object under a name.
    """
    processes = [definition for name in jobs.tasks.types() if (definition := jobs.tasks.get(name)).process]
    if target is not None or not processes:
        return target
    for definition in processes:
        module = sys.modules.get(definition.function.__module__)
        for name, value in vars(module).items() if module is not None and module.__name__ != "__main__" else ():
            if value is jobs:
                return f"{definition.function.__module__}:{name}"
    raise ConfigurationError(
        f"task '{processes[0].name}' runs in a process of its own, which has to import the queue object: "
        "give the worker target='package.module:jobs'"
    )


# Runs a job alone in a process of its own, so that what it does to its process is proven to be its own doing.
#
# For jobs whose workers were lost twice, or which were buried as poison before. The time limit of such a job begins
# when its process has it.

WITNESS_SECONDS = 1.0
"""Seconds that a worker outlives a child before it blames the job: who ends a service ends its processes one by one."""
MIN_CHILDREN = 4
"""Children at a time on a machine with few processors: jobs that sleep for long must not hold up all others."""
OF_THE_SERVICE = frozenset({-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
"""Ends by the signals that are sent to all processes of a service when it is to stop."""


def is_suspect(claim: Claim) -> bool:
    """Return whether a job runs alone."""
    return claim.crashes > 0 or claim.losses >= SUSPECT_LOSSES


@dataclass(slots=True)
class Isolation:
    """Starts a child for each job, a few at a time: what lost one worker may have been started many times over."""

    starter: ChildStarter
    # whether the worker is about to end
    draining: Callable[[], bool]
    # children at a time; None: one for each processor, at least a few
    most: int | None
    # whether children have lifespans to leave
    leaves: bool
    _slots: Slots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = Slots(self.most, MIN_CHILDREN)

    def stop_starting(self) -> None:
        """Begin nothing more: give back the jobs that wait for a child."""
        self._slots.stop_starting()
        self.starter.stop_starting()

    async def execute(self, attempt: RunningAttempt, definition: Definition) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store.

        A child that died while the worker lives on buries the job as poison. One that never had the job, or that ended
        by a signal of its service or with its worker, is no evidence about the job: that is a loss like any other.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        async with self._slots.taken(attempt):
            try:
                return await self._run(attempt, definition)
            except ChildLost as lost:
                await asyncio.sleep(WITNESS_SECONDS)
                if lost.started and lost.code not in OF_THE_SERVICE and not self.draining():
                    return self._poison(attempt, lost.how)
                return self.starter.lost(attempt, lost, "the process that was to run this job alone")

    async def _run(self, attempt: RunningAttempt, definition: Definition) -> Outcome:
        child = await self.starter.start(attempt)
        begin(attempt, definition, START_SECONDS)
        try:
            outcome = await child.run(attempt, partial(self._begin, attempt, definition))
            await child.close(self.leaves)
            return outcome
        except ChildLost as lost:
            if not lost.started:
                self.starter.note_failure()
            raise
        finally:
            await child.kill()

    def _begin(self, attempt: RunningAttempt, definition: Definition) -> None:
        self.starter.note_start()
        begin(attempt, definition)

    def _poison(self, attempt: RunningAttempt, how: str) -> Outcome:
        what = f"the process that ran this job alone {how}"
        losses = attempt.claim.losses
        lost = "a worker was lost while it ran it" if losses == 1 else f"{losses} workers were lost while they ran it"
        # A retry forgets the losses of a job that was buried like this before.
        message = f"{what}; before that, {lost}" if losses else what
        failure = Failure("poison", EXCEPTION, message, "", *sign(EXCEPTION, what))
        return outcome.buried(attempt.claim, attempt.run_us(), failure)
