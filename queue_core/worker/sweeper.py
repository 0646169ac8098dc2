"""The leader's rounds: take back expired leases, promote what is due, keep the dispatcher true, fold the totals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from queue_core.dispatch import Dispatcher, DispatchUnavailable
from queue_core.errors import StoreUnavailable
from queue_core.events import Event, EventName
from queue_core.job import Ready, Reclaimed
from queue_core.losses import failure_of_loss, summary
from queue_core.store import JobStore, TransactionalStore
from queue_core.worker.announcer import Announcer
from queue_core.worker.audit import Audit

TICK = 0.5
"""Seconds between two rounds; a job that is due earlier shortens them."""
SHORTEST = 0.005
LEADERSHIP = 3.0
"""Seconds after which another worker takes over from a leader that is gone."""
SLOW = 1.0
"""Seconds between two audits and between two rounds of upkeep."""
RECLAIM_LIMIT = 1000
PROMOTE_LIMIT = 2000

logger = logging.getLogger("queue_core.worker")


class Sweeper:
    """Every worker has one; one of them at a time leads."""

    def __init__(
        self, store: JobStore, dispatcher: Dispatcher | None, announcer: Announcer, worker: str, lease: float
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._announcer = announcer
        self._worker = worker
        # A job of a lost leader waits for its lease to end and for the next leader: the shorter counts.
        self._leadership = min(LEADERSHIP, max(2 * TICK, lease))
        self._audit = None if dispatcher is None else Audit(store, dispatcher)
        self._slow_at = float("-inf")
        self._leads = False

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            pause = TICK
            try:
                if await self.run_once():
                    pause = await self._until_due()
            except StoreUnavailable as error:
                logger.warning("sweep waits for the store: %s", error)
                pause = TICK * 2
            await self._rest(pause)

    async def _rest(self, pause: float) -> None:
        """Wait for the next round; jobs that a caller's own transaction committed meanwhile are offered at once."""
        if self._audit is None or not isinstance(self._store, TransactionalStore) or not self._leads:
            await asyncio.sleep(pause)
            return
        ends = time.monotonic() + pause
        while (left := ends - time.monotonic()) > 0:
            for queue in await self._store.committed(left):
                await self._audit.offer_head(queue)

    async def run_once(self) -> bool:
        """Do one round; False when another worker leads."""
        if not await self._store.lead("sweep", self._worker, self._leadership):
            self._leads = False
            return False
        self._leads = True
        await self.reclaim()
        await self.promote()
        if time.monotonic() - self._slow_at >= SLOW:
            self._slow_at = time.monotonic()
            if self._audit is not None:
                await self._audit.run_once()
            await self._store.upkeep()
        return True

    async def reclaim(self) -> int:
        """Take back every job whose lease expired and return their number."""
        total = 0
        while True:
            lost = await self._store.reclaim(RECLAIM_LIMIT)
            total += len(lost)
            for job in lost:
                self._tell(job)
            await self._offer([Ready(job.id, job.queue, job.rank) for job in lost if job.rank is not None])
            if len(lost) < RECLAIM_LIMIT:
                return total

    async def promote(self) -> int:
        """Make every due job ready and return their number."""
        total = 0
        while True:
            ready = await self._store.promote(PROMOTE_LIMIT)
            total += len(ready)
            await self._offer(ready)
            if len(ready) < PROMOTE_LIMIT:
                return total

    async def _until_due(self) -> float:
        due = await self._store.next_due()
        return TICK if due is None else min(TICK, max(SHORTEST, due))

    async def _offer(self, ready: Sequence[Ready]) -> None:
        if self._dispatcher is None or not ready:
            return
        try:
            await self._dispatcher.offer(ready)
        except DispatchUnavailable:
            return  # the audit offers them when the dispatcher is back

    def _tell(self, job: Reclaimed) -> None:
        failure = failure_of_loss(job.worker, job.crashes)
        logger.warning("took job %s back from lost worker %s (crash %d)", job.id, job.worker, job.crashes)
        said = {
            "error": summary(failure),
            "signature": failure.signature,
            "title": failure.title,
            "kind": failure.kind,
        }
        name = EventName.RELEASED
        if job.rank is None:
            name = EventName.CANCELLED if job.cancelled else EventName.DEAD
        for event in (EventName.FAILED, name):
            self._announcer.tell(Event(event, job.queue, job.id, job.type, job.token, said))
