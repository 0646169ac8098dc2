"""Claims for programs that do without a Worker; the duties of a leader are done meanwhile, as by every worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from queue_core.codec import decode_payload
from queue_core.dispatch import DispatchUnavailable
from queue_core.endings import dispatch, events_of
from queue_core.errors import QueueCoreError, StaleLease
from queue_core.events import Event, EventName
from queue_core.executing import Executor
from queue_core.job import Claim, Outcome, Settled, attempt_of
from queue_core.middleware import Hooks
from queue_core.opening import Parts
from queue_core.store import Beat, ClaimRequest
from queue_core.worker import outcomes
from queue_core.worker.announcer import Announcer
from queue_core.worker.claimed import ClaimedJob, Terms
from queue_core.worker.manual_heart import ManualHeart
from queue_core.worker.sweeper import LEADERSHIP, Duty, Sweeper

POLL_FIRST, POLL_MOST = 0.02, 0.5
"""Seconds between two looks for a job to claim, growing while there is none."""
STRAYS_SECONDS = 0.5
"""Seconds between two looks for what claims have brought whose answers did not come."""
CLOSE_SECONDS = 1.0
"""Seconds that closing waits for jobs to be given back that cancelled and failed claims have brought."""
RESTART_SECONDS = 1.0
"""Pause before a duty that failed unexpectedly is taken up again."""

logger = logging.getLogger("queue_core.manual")


class ManualClaims:
    """One consumer, known to the store under a worker's id. Its duties run from its first claim until it is closed."""

    def __init__(self, parts: Parts, hooks: Hooks, executor: Executor, max_losses: int) -> None:
        self._parts = parts
        self.id = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._announcer = Announcer(parts.bus)
        self._sweeper = Sweeper(
            parts.store,
            parts.dispatcher,
            parts.schedules,
            executor,
            hooks,
            self._announcer,
            Duty(self.id, LEADERSHIP, max_losses),
        )
        self._starting = asyncio.Lock()
        self._announcing: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._heart = ManualHeart(parts.store, self.id)
        # what cancelled and failed claims leave to be done
        self._behind: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    async def claim(
        self, queue: str, types: Sequence[str] | None, wait: float, terms: Callable[[str], Terms]
    ) -> ClaimedJob | None:
        """Claim the best job of a queue, waiting up to so many seconds for one; `terms` are those of its type.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        await self._start()
        ends = asyncio.get_running_loop().time() + wait
        pause = POLL_FIRST
        wanted = None if types is None else tuple(types)
        while True:
            asking = asyncio.create_task(self._ask(ClaimRequest(queue, self.id, wanted, 1, terms("").lease), terms))
            try:
                found, job = await asyncio.shield(asking)
            except asyncio.CancelledError:
                # The store may be giving a job right now, which nobody would run until its lease ends.
                self._keep(self._return(asking))
                raise
            if job is not None:
                return job
            left = ends - asyncio.get_running_loop().time()
            if not found and left <= 0:
                return None
            if not found:
                await asyncio.sleep(min(pause, left))
                pause = min(POLL_MOST, pause * 1.5)

    async def _ask(self, request: ClaimRequest, terms: Callable[[str], Terms]) -> tuple[bool, ClaimedJob | None]:
        """Claim a job; return whether there was one, and what the program gets of it."""
        number = self._heart.claims.begin(request.queue)
        try:
            claims = await self._parts.store.claim(request._replace(number=number))
        except Exception:
            self._heart.claims.failed(number)
            self._look_for_strays(request)
            raise
        self._heart.claims.answered(number)
        for claim in claims:
            return True, await self._given(claim, terms(claim.type))
        return False, None

    async def _return(self, asking: asyncio.Task[tuple[bool, ClaimedJob | None]]) -> None:
        """Give back the job that a cancelled claim brought."""
        with contextlib.suppress(QueueCoreError):  # what it may have brought is looked for
            _, job = await asking
            if job is not None:
                await job.release()

    def _look_for_strays(self, request: ClaimRequest) -> None:
        """Look from now on, for a while, for what claims have brought whose answers did not come."""
        if self._looking is None or self._looking.done():
            self._looking = self._keep(self._give_back_strays(request))

    async def _give_back_strays(self, request: ClaimRequest) -> None:
        while doubts := self._heart.claims.doubts(False):
            await asyncio.sleep(STRAYS_SECONDS)
            with contextlib.suppress(QueueCoreError):
                reply = await self._heart.beat(request.queue, request.lease, (), doubts)
                for stray in reply.strays:
                    with contextlib.suppress(StaleLease):
                        await self.settle(outcomes.unknown(stray))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return task

    async def _given(self, claim: Claim, terms: Terms) -> ClaimedJob | None:
        """Return what the program gets; None: nobody can read this payload, and the job is buried."""
        await self._forget(claim)
        extra = {"priority": claim.priority, "attempt": attempt_of(claim), "worker": self.id}
        self._announcer.tell(Event(EventName.CLAIMED, claim.queue, claim.id, claim.type, claim.token, extra))
        try:
            return ClaimedJob(self, claim, decode_payload(claim.payload), terms)
        except ValueError as error:
            with contextlib.suppress(StaleLease):
                await self.settle(outcomes.unreadable(claim, error, terms.limits))
            return None

    async def _forget(self, claim: Claim) -> None:
        """Take it from the candidates: without workers nobody else would."""
        if self._parts.dispatcher is not None:
            with contextlib.suppress(DispatchUnavailable):
                await self._parts.dispatcher.forget(claim.queue, [claim.id])

    async def settle(self, outcome: Outcome) -> Settled:
        """Store the end of an attempt.

        Raises:
            StaleLease: its lease was over, and nothing was written.
            StoreUnavailable: the store did not answer in time; trying again is safe.
        """
        (answer,) = await self._parts.store.settle([outcome])
        if not answer.accepted:
            raise StaleLease(outcome.id, outcome.token)
        for event in events_of(outcome, answer):
            self._announcer.tell(event)
        await dispatch(self._parts.dispatcher, [(outcome, answer)])
        return answer

    async def refresh(self, queue: str, beat: Beat, lease: float) -> bool:
        """Prolong a lease and return whether somebody asked to cancel the job.

        Raises:
            StaleLease: the lease was over.
            StoreUnavailable: the store did not answer in time.
        """
        reply = await self._heart.beat(queue, lease, (beat,))
        if beat.id in reply.lost:
            raise StaleLease(beat.id, beat.token)
        return beat.id in reply.cancel

    async def _start(self) -> None:
        async with self._starting:
            if self._sweeping is None:
                await self._parts.store.upkeep()
                # Without a first leader no store gives out tokens.
                await self._sweeper.run_once()
                self._announcing = asyncio.create_task(_kept_up("announcer", self._announcer.run))
                self._sweeping = asyncio.create_task(_kept_up("sweeper", self._sweeper.run))

    async def close(self) -> None:
        """Leave the duties to others; jobs that were claimed and not ended run again when their leases end."""
        behind = list(self._behind)
        if behind:
            await asyncio.wait(behind, timeout=CLOSE_SECONDS)
            for task in behind:
                task.cancel()
            await asyncio.gather(*behind, return_exceptions=True)
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
        if self._announcing is not None:
            await self._announcer.close(self._announcing)
        await self._heart.close()
        if sweeping is not None:
            with contextlib.suppress(QueueCoreError, TimeoutError):  # the entry expires by itself
                await asyncio.wait_for(self._heart.retire(), 2.0)


async def _kept_up(name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await run()
            return
        except Exception:
            logger.exception("the %s failed and starts again", name)
            await asyncio.sleep(RESTART_SECONDS)
