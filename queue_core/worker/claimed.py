"""A job that a program claimed by itself, and the verbs that end it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from queue_core.asking import Reschedule
from queue_core.claim_facts import ClaimFacts
from queue_core.job import Claim, Outcome, Settled
from queue_core.retry import Policy
from queue_core.settings import Limits
from queue_core.signature import failure_of
from queue_core.states import Status
from queue_core.store import Beat
from queue_core.tasks import Duration
from queue_core.text import storable
from queue_core.worker import outcomes
from queue_core.worker.asked import seconds

_BECOMES = {
    "completed": Status.COMPLETED,
    "retrying": Status.RETRYING,
    "dead": Status.DEAD,
    "released": Status.QUEUED,
    "cancelled": Status.CANCELLED,
}


class Keeper(Protocol):
    """What a claimed job needs of whoever claimed it."""

    async def settle(self, outcome: Outcome) -> Settled:
        """Store the end of the attempt, or raise StaleLease."""
        ...

    async def refresh(self, queue: str, beat: Beat, lease: float) -> bool:
        """Prolong the lease, or raise StaleLease; return whether somebody asked to cancel the job."""
        ...


class Terms(NamedTuple):
    """What holds for a claim."""

    # seconds
    lease: float
    policy: Policy
    limits: Limits


class ClaimedJob(ClaimFacts):
    """One running job that belongs to this program until its lease ends; `refresh` prolongs it.

    Every verb raises `StaleLease` when the lease was over and the job taken back: nothing was written then, and
    somebody else may run it. All raise `StoreUnavailable` when the store does not answer; trying again is safe.
    """

    def __init__(self, keeper: Keeper, claim: Claim, payload: dict[str, Any], terms: Terms) -> None:
        super().__init__(claim)
        self._keeper = keeper
        self._terms = terms
        self._began = time.perf_counter()
        self.payload = payload
        # whether somebody has asked to cancel the job, as of the last refresh: end it with `release`
        self.cancel_requested = False

    def __repr__(self) -> str:
        return f"<ClaimedJob {self.type} {self.id}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self._claim.id

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued."""
        return datetime.fromtimestamp(self._claim.created_at, UTC)

    async def complete(self, result: object = None) -> None:
        """End the attempt well; the result is kept as JSON."""
        await self._end(outcomes.completed(self._claim, self._run_us(), result, self._terms.limits))

    async def fail(self, error: BaseException | str, *, retry: bool = True) -> Status:
        """End the attempt with an error; return what became of the job: retrying, dead, or cancelled.

        The policy of its task decides, where this process has it, else the defaults; `retry=False` buries the job
        at once. A RetryLater or Reschedule means what it means in a handler.
        """
        raised = error if isinstance(error, BaseException) else RuntimeError(storable(str(error)))
        if retry:
            outcome = outcomes.failed(self._claim, self._run_us(), raised, self._terms.policy, self._terms.limits)
        else:
            failure = failure_of(raised, "error", self._terms.limits.traceback)
            outcome = outcomes.buried(self._claim, self._run_us(), failure)
        return await self._end(outcome)

    async def release(self) -> Status:
        """Give the job back to its place in the queue without using an attempt; return queued, or cancelled."""
        return await self._end(outcomes.released(self._claim, self._run_us()))

    async def reschedule(self, *, delay: Duration | None = None, at: datetime | None = None) -> Status:
        """Give the job back to the back of its queue, after a delay or at a time, without using an attempt."""
        return await self._end(outcomes.rescheduled(self._claim, self._run_us(), Reschedule(delay=delay, at=at)))

    async def refresh(self, lease: Duration | None = None, *, progress: float | None = None, message: str = "") -> None:
        """Prolong the lease from now on, by as long as it was claimed for unless said otherwise, and note progress."""
        length = self._terms.lease if lease is None else seconds(lease, "a lease")
        percent = None if progress is None else max(0, min(100, int(progress)))
        beat = Beat(self.id, self.token, percent, storable(str(message)[:200]))
        self.cancel_requested = await self._keeper.refresh(self.queue, beat, length)

    async def _end(self, outcome: Outcome) -> Status:
        answer = await self._keeper.settle(outcome)
        if answer.cancelled:
            return Status.CANCELLED
        return Status.SCHEDULED if outcome.kind == "released" and answer.due is not None else _BECOMES[outcome.kind]

    def _run_us(self) -> int:
        return round((time.perf_counter() - self._began) * 1e6)
