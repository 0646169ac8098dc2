"""Claims for programs that do without a Worker; the duties of a leader are done meanwhile, as by every worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from queue_core.client.context import ClaimFacts
from queue_core.client.effects import offer, ready_of
from queue_core.client.logs import log_failure
from queue_core.client.middleware import Hooks
from queue_core.client.operating.executor import Executor
from queue_core.client.tasks import Duration, TaskRegistry
from queue_core.errors import InvalidArgument, QueueCoreError, StaleLease
from queue_core.model import outcome as outcomes
from queue_core.model.codec import decode_payload
from queue_core.model.job import Claim, Outcome, Settled, attempt_of
from queue_core.model.retry import Policy, Reschedule, Retry
from queue_core.model.settings import JobsSettings, Limits
from queue_core.model.signature import failure_of
from queue_core.model.states import Status
from queue_core.model.text import storable
from queue_core.model.validation import check_lease, check_percent
from queue_core.ports.backend import Backend
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.ports.store import (
    ClaimRequest,
    Doubt,
    HeartbeatReply,
    HeartbeatRequest,
    JobStore,
    LeaseRenewal,
    StoreHeartbeat,
)
from queue_core.runtime import end_tasks
from queue_core.worker import neighbours
from queue_core.worker.claims import Claims
from queue_core.worker.heartbeat import version
from queue_core.worker.journal import EventPublisher
from queue_core.worker.leader import LEADERSHIP_SECONDS, Duty, Sweeper, keep_running

logger = logging.getLogger("queue_core.manual")


_BECOMES = {
    "completed": Status.COMPLETED,
    "retrying": Status.RETRYING,
    "dead": Status.DEAD,
    "released": Status.QUEUED,
    "cancelled": Status.CANCELLED,
}


class Keeper(Protocol):
    """What a claimed job needs of the queue object that claimed it."""

    async def settle(self, outcome: Outcome) -> Settled:
        """Store the end of the attempt, or raise StaleLease."""
        ...

    async def refresh(self, queue: str, renewal: LeaseRenewal, lease: float) -> bool:
        """Prolong the lease, or raise StaleLease; return whether a cancellation of the job was requested."""
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
    another worker may run it. All raise `StoreUnavailable` when the store does not answer; trying again is safe.
    """

    def __init__(self, keeper: Keeper, claim: Claim, payload: dict[str, Any], terms: Terms) -> None:
        super().__init__(claim)
        self._keeper = keeper
        self._terms = terms
        self._began = time.perf_counter()
        self.payload = payload
        # whether a cancellation of the job was requested, as of the last refresh: end it with `release`
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

        Raises:
            InvalidArgument: it is neither an exception nor a text; nothing was written.
        """
        if not isinstance(error, BaseException | str):
            raise InvalidArgument(f"a job fails with an exception or a text, not {error!r}")
        raised = error if isinstance(error, BaseException) else RuntimeError(storable(error))
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
        """Prolong the lease from now on, by as long as it was claimed for unless given otherwise, and note progress.

        Raises:
            InvalidArgument: no length of a lease, or no percentage.
        """
        length = self._terms.lease if lease is None else check_lease(lease)
        percent = None if progress is None else check_percent(progress)
        renewal = LeaseRenewal(self.id, self.token, percent, storable(str(message)[:200]))
        self.cancel_requested = await self._keeper.refresh(self.queue, renewal, length)

    async def _end(self, outcome: Outcome) -> Status:
        answer = await self._keeper.settle(outcome)
        if outcome.failure is not None:
            log_failure(outcome, answer, self.attempt)
        if answer.cancelled:
            return Status.CANCELLED
        return Status.SCHEDULED if outcome.kind == "released" and answer.due is not None else _BECOMES[outcome.kind]

    def _run_us(self) -> int:
        return round((time.perf_counter() - self._began) * 1e6)


FIRST_POLL, MAX_POLL = 0.02, 0.5
"""Seconds between two polls for a job to claim, growing while there is none."""
STRAYS_SECONDS = 0.5
"""Seconds between two searches for what claims have brought whose answers did not come."""
CLOSE_SECONDS = 1.0
"""Seconds that closing waits for jobs to be given back that cancelled and failed claims have brought."""


class ManualClaims:
    """One consumer, known to the store under a worker's id. Its duties run from its first claim until it is closed."""

    def __init__(
        self, backend: Backend, hooks: Hooks, executor: Executor, tasks: TaskRegistry, settings: JobsSettings
    ) -> None:
        self._backend = backend
        self._tasks = tasks
        self._settings = settings
        # the number of its release, from the first claim on
        self._release = 0
        self.id = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._publisher = EventPublisher(backend.bus, self.id, settings.rules)
        self._sweeper = Sweeper(
            backend,
            executor,
            hooks,
            self._publisher,
            Duty(self.id, LEADERSHIP_SECONDS, settings.defaults.max_losses),
        )
        self._starting = asyncio.Lock()
        self._announcing: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._heartbeat = ManualHeartbeat(backend.store, self.id)
        # what cancelled and failed claims leave to be done
        self._behind: set[asyncio.Task[None]] = set()
        self._finding: asyncio.Task[None] | None = None

    async def claim(self, queue: str, types: tuple[str, ...] | None, lease: float, wait: float) -> ClaimedJob | None:
        """Claim the best job of a queue for so many seconds of a lease, waiting up to so many seconds for one.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        await self._start()
        ends = asyncio.get_running_loop().time() + wait
        pause = FIRST_POLL
        while True:
            request = ClaimRequest(queue, self.id, types, 1, lease, release=self._release)
            claiming = asyncio.create_task(self._claim_one(request))
            try:
                found, job = await asyncio.shield(claiming)
            except asyncio.CancelledError:
                # The store may be giving a job right now, which no worker would run until its lease ends.
                self._keep(self._return(claiming))
                raise
            if job is not None:
                return job
            left = ends - asyncio.get_running_loop().time()
            if not found and left <= 0:
                return None
            if not found:
                await asyncio.sleep(min(pause, left))
                pause = min(MAX_POLL, pause * 1.5)

    async def _claim_one(self, request: ClaimRequest) -> tuple[bool, ClaimedJob | None]:
        """Claim a job; return whether there was one, and what the program gets of it."""
        number, sent = self._heartbeat.claims.begin(request.queue), time.monotonic()
        try:
            claims = await self._backend.store.claim(request._replace(number=number))
        except Exception:
            self._heartbeat.claims.failed(number)
            self._find_strays(request)
            raise
        self._heartbeat.claims.answered(number)
        for claim in claims:
            return True, await self._given(claim, request.lease, sent)
        return False, None

    async def _return(self, claiming: asyncio.Task[tuple[bool, ClaimedJob | None]]) -> None:
        """Give back the job that a cancelled claim brought."""
        with contextlib.suppress(QueueCoreError):  # what it may have brought is looked for
            _, job = await claiming
            if job is not None:
                await job.release()

    def _find_strays(self, request: ClaimRequest) -> None:
        """Search from now on, for a while, for what claims have brought whose answers did not come."""
        if self._finding is None or self._finding.done():
            self._finding = self._keep(self._give_back_strays(request))

    async def _give_back_strays(self, request: ClaimRequest) -> None:
        while doubts := self._heartbeat.claims.doubts(False):
            await asyncio.sleep(STRAYS_SECONDS)
            with contextlib.suppress(QueueCoreError):
                reply = await self._heartbeat.renew(request.queue, request.lease, (), doubts)
                for stray in reply.strays:
                    with contextlib.suppress(StaleLease):
                        await self.settle(outcomes.released_stray(stray))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return task

    async def _given(self, claim: Claim, lease: float, sent: float) -> ClaimedJob | None:
        """Return what the program gets of a claim that was sent at this time; None: nothing.

        Then this payload cannot be read, and the job is buried, or this process slept until others could have the job.
        """
        await self._forget(claim)
        if sent + lease <= time.monotonic():
            with contextlib.suppress(StaleLease):
                await self.settle(outcomes.released(claim, 0))
            return None
        known = claim.type in self._tasks
        policy = self._tasks.get(claim.type).policy if known else Retry().resolved(self._settings.defaults)
        terms = Terms(lease, policy, self._settings.limits)
        self._publisher.started(claim)
        try:
            return ClaimedJob(self, claim, decode_payload(claim.payload), terms)
        except ValueError as error:
            unreadable = outcomes.unreadable(claim, error, terms.limits)
            with contextlib.suppress(StaleLease):
                log_failure(unreadable, await self.settle(unreadable), attempt_of(claim))
            return None

    async def _forget(self, claim: Claim) -> None:
        """Take it from the candidates: without workers no other process would."""
        if self._backend.dispatcher is not None:
            with contextlib.suppress(DispatchUnavailable):
                await self._backend.dispatcher.forget(claim.queue, [claim.id])

    async def settle(self, outcome: Outcome) -> Settled:
        """Store the end of an attempt.

        Raises:
            StaleLease: its lease was over, and nothing was written.
            StoreUnavailable: the store did not answer in time; trying again is safe.
        """
        (answer,) = await self._backend.store.settle([outcome])
        if not answer.accepted:
            raise StaleLease(outcome.id, outcome.token)
        self._publisher.ended(outcome, answer)
        await offer(self._backend.dispatcher, ready_of([(outcome, answer)]))
        return answer

    async def refresh(self, queue: str, renewal: LeaseRenewal, lease: float) -> bool:
        """Prolong a lease and return whether a cancellation of the job was requested.

        Raises:
            StaleLease: the lease was over.
            StoreUnavailable: the store did not answer in time.
        """
        reply = await self._heartbeat.renew(queue, lease, (renewal,))
        if reply.failure is not None and renewal.id in reply.unknown:
            raise reply.failure
        if renewal.id in reply.lost:
            raise StaleLease(renewal.id, renewal.token)
        return renewal.id in reply.cancel

    async def _start(self) -> None:
        async with self._starting:
            if self._sweeping is None:
                if self._settings.release is not None:
                    self._release = await self._backend.store.register_release(self._settings.release)
                    self._heartbeat.release = self._release
                await self._backend.store.upkeep()
                # Without a first leader no store gives out tokens.
                await self._sweeper.run_once()
                self._announcing = asyncio.create_task(keep_running("publisher", self._publisher.run))
                self._sweeping = asyncio.create_task(keep_running("sweeper", self._sweeper.run))

    async def close(self) -> None:
        """Leave the duties to others; jobs that were claimed and not ended run again when their leases end."""
        behind = list(self._behind)
        if behind:
            await asyncio.wait(behind, timeout=CLOSE_SECONDS)
            await end_tasks(*behind)
        sweeping, self._sweeping = self._sweeping, None
        await end_tasks(sweeping)
        if self._announcing is not None:
            await self._publisher.close(self._announcing)
        await self._heartbeat.close()
        if sweeping is not None:
            with contextlib.suppress(QueueCoreError, TimeoutError):  # the entry expires by itself
                await asyncio.wait_for(self._heartbeat.unregister(), 2.0)


class ManualHeartbeat:
    """One entry among the workers, with the queues of the claims that were prolonged."""

    def __init__(self, store: JobStore, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._store_heartbeat: StoreHeartbeat | None = None
        # a store heartbeat serves one thread at a time
        self._lock = asyncio.Lock()
        self._queues: set[str] = set()
        self.claims = Claims()
        # the number of the program's release
        self.release = 0

    async def renew(
        self, queue: str, lease: float, leases: Sequence[LeaseRenewal], doubts: Sequence[Doubt] = ()
    ) -> HeartbeatReply:
        """Prolong leases, and ask for what claims in doubt have given."""
        self._queues.add(queue)
        # It announces no types: what a dispatcher hands out is for workers.
        entry = HeartbeatRequest(
            worker=self._worker, host=socket.gethostname(), pid=os.getpid(), version=version(),
            queues=tuple(sorted(self._queues)), types=(), concurrency=1, busy=1, quiet=False, lease=lease,
            interval=lease, leases=leases, place=neighbours.place(), process=neighbours.process(), doubts=doubts,
            held_in=(queue,), release=self.release,
        )  # fmt: skip
        async with self._lock:
            if self._store_heartbeat is None:
                self._store_heartbeat = self._store.open_heartbeat()
            return await asyncio.to_thread(self._store_heartbeat.renew, entry)

    async def close(self) -> None:
        """Give the connection back."""
        if self._store_heartbeat is not None:
            await asyncio.to_thread(self._store_heartbeat.close)

    async def unregister(self) -> None:
        """Remove the entry."""
        await self._store.unregister_worker(self._worker, neighbours.place())
