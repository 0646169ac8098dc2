"""The processes of tasks that ask for one: kept warm, a job at a time each, replaced when a job takes them down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from queue_core.errors import ConfigurationError
from queue_core.job import Failure, Outcome
from queue_core.queue import JobQueue
from queue_core.settings import Limits
from queue_core.signature import sign
from queue_core.tasks import Definition
from queue_core.worker import outcomes
from queue_core.worker.attempt import Attempt
from queue_core.worker.children import Child, ChildLost
from queue_core.worker.slots import START_SECONDS, Slots, begin

EXCEPTION = "ProcessDied"
TRIES = 3
"""Children tried for a job before it is blamed for none of them taking it."""


class ProcessPool:
    """Warm children; jobs beyond their number wait for one, and their time limit does not run."""

    def __init__(self, target: str, worker: str, most: int | None) -> None:
        self._target = target
        self._worker = worker
        self._slots = Slots(most, 2)
        self._idle: list[Child] = []

    async def execute(self, attempt: Attempt, definition: Definition, limits: Limits) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store; a dead child fails the attempt.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        async with self._slots.taken(attempt):
            begin(attempt, definition, START_SECONDS)
            try:
                return await self._run(attempt, partial(begin, attempt, definition))
            except ChildLost as lost:
                message = f"the process that ran this job {lost.how}"
                failure = Failure("crashed", EXCEPTION, message, "", *sign(EXCEPTION, message))
                return outcomes.crashed(attempt.claim, attempt.run_us(), failure, definition.policy)
            except OSError as error:
                return outcomes.failed(attempt.claim, attempt.run_us(), error, definition.policy, limits)

    def hold_back(self) -> None:
        """Begin nothing more: give back the jobs that wait for a child."""
        self._slots.hold_back()

    async def _run(self, attempt: Attempt, begun: Callable[[], None]) -> Outcome:
        tries = 0
        while True:
            tries += 1
            child = await self._take()
            try:
                outcome = await child.run(attempt, begun)
            except ChildLost as lost:
                await child.kill()
                if lost.begun or tries >= TRIES:
                    raise
            except BaseException:
                await child.kill()
                raise
            else:
                self._idle.append(child)
                return outcome

    async def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await child.kill()
        return await Child.start(self._target, self._worker)

    async def close(self) -> None:
        """End the children; those that run a job belong to its attempt."""
        while self._idle:
            await self._idle.pop().kill()


def target_of(jobs: JobQueue, target: str | None) -> str | None:
    """Return how children find the queue object: as told, or as the module of its first process task names it.

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
