"""Runs a job alone in a process of its own, so that what it does to its process is proven to be its own doing.

For jobs whose workers were lost twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from queue_core.job import Failure, Outcome
from queue_core.signature import sign
from queue_core.worker import outcomes
from queue_core.worker.attempt import Attempt
from queue_core.worker.children import Child, ChildLost

EXCEPTION = "ProcessDied"


@dataclass(frozen=True, slots=True)
class Isolation:
    """Starts a child for each job."""

    # package.module:name of the queue object
    target: str
    worker: str

    async def execute(self, attempt: Attempt) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store; a dead child buries the job as poison.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        child = await Child.start(self.target, self.worker)
        try:
            return await child.run(attempt)
        except ChildLost as lost:
            return self._buried(attempt, lost.how)
        finally:
            await child.kill()

    def _buried(self, attempt: Attempt, how: str) -> Outcome:
        message = (
            f"the process that ran this job alone {how}; before that, {attempt.claim.crashes} workers died with it"
        )
        signature, title = sign(EXCEPTION, f"the process that ran this job alone {how}")
        failure = Failure("poison", EXCEPTION, message, "", signature, title)
        return outcomes.buried(attempt.claim, attempt.run_us(), failure)
