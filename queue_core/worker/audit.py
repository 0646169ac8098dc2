"""Keeps the dispatcher true: each second the head of each queue, and everything after it lost its data."""

from __future__ import annotations

import asyncio
import logging

from queue_core.dispatch import Dispatcher, DispatchUnavailable
from queue_core.store import JobStore

HEAD = 500
"""Ready jobs looked at per queue and round; whatever is lost deeper surfaces as the head moves."""
SETTLE_SECONDS = 0.1
"""A job that a worker has taken and is just claiming looks lost for a moment, so what is lacking is looked at twice."""
PAGE = 5000
"""Jobs offered at a time in a rebuild."""

logger = logging.getLogger("queue_core.audit")


class Audit:
    """For the leader alone; running it twice at once is harmless."""

    def __init__(self, store: JobStore, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher

    async def run_once(self) -> int:
        """Look at every queue once and return how many jobs were offered again."""
        offered = 0
        try:
            for queue, paused in (await self._store.queues()).items():
                if not await self._dispatcher.intact(queue):
                    offered += await self.rebuild(queue)
                elif not paused:
                    offered += await self.check_head(queue)
        except DispatchUnavailable as error:
            logger.debug("audit waits for the dispatcher: %s", error)
        return offered

    async def check_head(self, queue: str) -> int:
        """Offer the first ready jobs that the dispatcher lacks."""
        lacking = await self._dispatcher.lacking(queue, await self._store.head(queue, HEAD))
        if not lacking:
            return 0
        await asyncio.sleep(SETTLE_SECONDS)
        suspects = {job.id for job in lacking}
        still = [job for job in await self._store.head(queue, HEAD) if job.id in suspects]
        lacking = await self._dispatcher.lacking(queue, still)
        await self._dispatcher.offer(lacking)
        return len(lacking)

    async def offer_head(self, queue: str) -> None:
        """Offer the first ready jobs that the dispatcher lacks without a second look, for they have just come."""
        try:
            await self._dispatcher.offer(await self._dispatcher.lacking(queue, await self._store.head(queue, HEAD)))
        except DispatchUnavailable:
            return  # workers look into the store themselves

    async def rebuild(self, queue: str) -> int:
        """Offer the whole backlog of a queue by rank, then declare the ready set whole."""
        offered, rank = 0, -1
        while page := await self._store.ready_after(queue, rank, PAGE):
            await self._dispatcher.offer(page)
            offered += len(page)
            rank = page[-1].rank
        await self._dispatcher.mark(queue)
        if offered:
            logger.info("rebuilt the ready set of queue '%s': %d jobs offered", queue, offered)
        return offered
