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
from queue_core.store import Beat, ClaimRequest, Heart, WorkerBeat
from queue_core.worker import outcomes
from queue_core.worker.announcer import Announcer
from queue_core.worker.asked import version
from queue_core.worker.claimed import ClaimedJob, Terms
from queue_core.worker.sweeper import LEADERSHIP, Duty, Sweeper

POLL_FIRST, POLL_MOST = 0.02, 0.5
"""Seconds between two looks for a job to claim, growing while there is none."""
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
        self._heart: Heart | None = None
        # a heart serves one thread at a time
        self._beating = asyncio.Lock()
        # queues of the claims that were prolonged
        self._queues: set[str] = set()

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
            lease = terms("").lease
            claims = await self._parts.store.claim(ClaimRequest(queue, self.id, wanted, 1, lease))
            for claim in claims:
                if (job := await self._given(claim, terms(claim.type))) is not None:
                    return job
            left = ends - asyncio.get_running_loop().time()
            if not claims and left <= 0:
                return None
            if not claims:
                await asyncio.sleep(min(pause, left))
                pause = min(POLL_MOST, pause * 1.5)

    async def _given(self, claim: Claim, terms: Terms) -> ClaimedJob | None:
        """Return what the program gets; None: nobody can read this payload, and the job is buried."""
        await self._forget(claim)
        extra = {"priority": claim.priority, "attempt": attempt_of(claim), "worker": self.id}
        self._announcer.tell(Event(EventName.CLAIMED, claim.queue, claim.id, claim.type, claim.token, extra))
        try:
            return ClaimedJob(self, claim, decode_payload(claim.payload), terms)
        except ValueError as error:
            with contextlib.suppress(StaleLease):
                await self.settle(outcomes.invalid_payload(claim, error, terms.limits))
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
        self._queues.add(queue)
        # It announces no types: what a dispatcher hands out is for workers.
        entry = WorkerBeat(
            worker=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version(),
            queues=tuple(sorted(self._queues)),
            types=(),
            concurrency=1,
            busy=1,
            quiet=False,
            lease=lease,
            interval=lease,
            leases=(beat,),
        )
        async with self._beating:
            if self._heart is None:
                self._heart = self._parts.store.heart()
            reply = await asyncio.to_thread(self._heart.beat, entry)
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
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
        if self._announcing is not None:
            await self._announcer.close(self._announcing)
        if self._heart is not None:
            await asyncio.to_thread(self._heart.close)
        if sweeping is not None:
            with contextlib.suppress(QueueCoreError, TimeoutError):  # the entry expires by itself
                await asyncio.wait_for(self._parts.store.retire(self.id), 2.0)


async def _kept_up(name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await run()
            return
        except Exception:
            logger.exception("the %s failed and starts again", name)
            await asyncio.sleep(RESTART_SECONDS)
