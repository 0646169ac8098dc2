"""Runs a job alone in a process of its own, so that what it does to its process is proven to be its own doing.

For jobs whose workers were lost twice, or which were buried as poison before. The time limit of such a job begins when
its process has it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from queue_core.job import Claim, Failure, Outcome
from queue_core.losses import SUSPECT_LOSSES
from queue_core.signature import sign
from queue_core.tasks import Definition
from queue_core.worker import outcomes
from queue_core.worker.attempt import Attempt
from queue_core.worker.children import Child, ChildLost
from queue_core.worker.slots import START_SECONDS, Slots, begin

EXCEPTION = "ProcessDied"
WITNESS = 1.0
"""Seconds that a worker outlives a child before it blames the job: who ends a service ends its processes one by one."""
LEAST = 4
"""Children at a time on a machine with few processors: jobs that sleep for long must not hold up all others."""
OF_THE_SERVICE = frozenset({-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
"""Ends by the signals that are sent to all processes of a service when it is to stop."""


def is_suspect(claim: Claim) -> bool:
    """Tell whether a job runs alone."""
    return claim.crashes > 0 or claim.losses >= SUSPECT_LOSSES


@dataclass(slots=True)
class Isolation:
    """Starts a child for each job, a few at a time: what lost one worker may have been started many times over."""

    # package.module:name of the queue object
    target: str
    worker: str
    # losses that bury a job
    max_losses: int
    # whether the worker is about to end
    draining: Callable[[], bool]
    # children at a time; None: one for each processor, at least a few
    most: int | None
    _slots: Slots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = Slots(self.most, LEAST)

    def hold_back(self) -> None:
        """Begin nothing more: give back the jobs that wait for a child."""
        self._slots.hold_back()

    async def execute(self, attempt: Attempt, definition: Definition) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store.

        A child that died while the worker lives on buries the job as poison. One that never had the job, or that ended
        by a signal of its service or with its worker, says nothing about the job: that is a loss like any other.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        async with self._slots.taken(attempt):
            begin(attempt, definition, START_SECONDS)
            return await self._run(attempt, partial(begin, attempt, definition))

    async def _run(self, attempt: Attempt, begun: Callable[[], None]) -> Outcome:
        child = await Child.start(self.target, self.worker)
        try:
            return await child.run(attempt, begun)
        except ChildLost as lost:
            await asyncio.sleep(WITNESS)
            to_blame = lost.begun and lost.code not in OF_THE_SERVICE and not self.draining()
            return self._poison(attempt, lost.how) if to_blame else self._lost(attempt, lost)
        finally:
            await child.kill()

    def _poison(self, attempt: Attempt, how: str) -> Outcome:
        what = f"the process that ran this job alone {how}"
        message = f"{what}; before that, {attempt.claim.losses} workers were lost while they ran it"
        failure = Failure("poison", EXCEPTION, message, "", *sign(EXCEPTION, what))
        return outcomes.buried(attempt.claim, attempt.run_us(), failure)

    def _lost(self, attempt: Attempt, lost: ChildLost) -> Outcome:
        why = "which says nothing about the job" if lost.begun else "before it had the job"
        what = f"the process that was to run this job alone {lost.how}, {why}"
        failure = Failure("lost", EXCEPTION, what, "", *sign(EXCEPTION, what))
        return outcomes.lost(attempt.claim, attempt.run_us(), failure, self.max_losses)
