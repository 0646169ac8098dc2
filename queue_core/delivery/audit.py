"""Keeps the dispatcher true: each second the head of each queue, and everything after it lost its data."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence

from queue_core.model.job import Ready
from queue_core.ports.delivery import Dispatcher, DispatchUnavailable
from queue_core.ports.store import JobStore

logger = logging.getLogger("queue_core.audit")


HEAD_JOBS = 500
"""Ready jobs checked per queue and round; whatever is lost deeper surfaces as the head moves."""
QUEUES_PER_READ, PEEK_JOBS = 500, 20
"""Queues whose heads are read together, and so many jobs of each: most have fewer."""
DEEP_QUEUES = 10
"""Queues of which so many jobs are ready that their whole heads are read, in one statement."""
SETTLE_SECONDS = 0.1
"""A job that a worker has taken and is just claiming looks lost for a moment, so what is missing is checked twice."""
PAGE_JOBS = 5000
"""Jobs offered at a time in a rebuild, and where nearly all of a head is lacking."""
NEARLY_ALL = 0.9
"""Part of a full head, or of a page, that lacks where many offers were lost: after a pause, a large commit in
another program, a type announced late, a restored database. By heads alone 500 of those a second would come back."""
MAX_PAGED_JOBS = 50_000
"""Jobs checked by pages in one round, over all queues: about a second. The next round goes on there."""
IDLE_SECONDS, IDLE_QUEUES = 10.0, 20
"""Seconds between two checks of queues that have no ready jobs, and so many of them at a time, in turn: what another
program has written there would keep workers from waiting at the dispatcher."""


class DeliveryAudit:
    """For the leader alone; running it twice at once is harmless."""

    def __init__(self, store: JobStore, dispatcher: Dispatcher, queues: Sequence[str] = ()) -> None:
        self._store = store
        self._dispatcher = dispatcher
        # Of the worker itself. Declared whole while they are empty they need no rebuild when many jobs have come.
        self._own = queues
        # whether the last round ended early, the dispatcher being out of reach
        self.waits = False
        # queues whose heads were deep in the last round: another look at their first jobs would cost as much again
        self._deep: set[str] = set()
        # the rank up to which a queue was paged through whose head was lacking
        self._reached: dict[str, int] = {}
        # jobs that this round may still page through
        self._left = MAX_PAGED_JOBS
        # time.monotonic of the last check of idle queues, and the last of these
        self._idle_at, self._idle_last = time.monotonic(), ""

    async def run_once(self) -> int:
        """Check every queue that may have ready jobs once and return how many jobs were offered again."""
        offered, self._left, self.waits = 0, MAX_PAGED_JOBS, False
        try:
            queues = await self._store.ready_queues()
            asked = list(dict.fromkeys([*queues, *await self._idle(queues), *self._own]))
            # An idle fleet costs the dispatcher next to nothing.
            doubtful = set(await self._dispatcher.doubtful(asked)) if asked else set()
            for queue in doubtful:
                offered += await self.rebuild(queue)
            self._own = ()
            offered += await self._check([queue for queue in queues if queue not in doubtful])
        except DispatchUnavailable as error:
            self.waits = True
            logger.debug("audit waits for the dispatcher: %s", error)
        return offered

    async def _idle(self, ready: Sequence[str]) -> list[str]:
        """Return the queues without ready jobs whose turn it is, from time to time."""
        now = time.monotonic()
        if now - self._idle_at < IDLE_SECONDS:
            return []
        self._idle_at = now
        names = sorted(set(await self._store.queues()).difference(ready))
        turn = [name for name in names if name > self._idle_last] + [name for name in names if name <= self._idle_last]
        part = turn[:IDLE_QUEUES]
        self._idle_last = part[-1] if part else ""
        return part

    async def _check(self, queues: Sequence[str]) -> int:
        """Check the heads of queues, many together; those whose heads are deep in a few statements more."""
        if not self._dispatcher.holds_ids:
            return await self._check_first(queues)
        offered, peek = 0, min(PEEK_JOBS, HEAD_JOBS)
        deep = self._deep.union(self._reached).intersection(queues)
        rest = [queue for queue in queues if queue not in deep]
        for start in range(0, len(rest), QUEUES_PER_READ):
            heads = await self._store.list_claimable_in(rest[start : start + QUEUES_PER_READ], peek)
            found = {queue for queue, count in Counter(job.queue for job in heads).items() if count >= peek}
            offered += len(await self._check_heads([job for job in heads if job.queue not in found], peek))
            deep |= found
        self._deep = set()
        rest = sorted(deep)
        for start in range(0, len(rest), DEEP_QUEUES):
            part = rest[start : start + DEEP_QUEUES]
            heads = await self._store.list_claimable_in(part, HEAD_JOBS)
            self._deep |= {queue for queue, count in Counter(job.queue for job in heads).items() if count >= peek}
            missing = await self._check_heads(heads, HEAD_JOBS)
            offered += len(missing)
            for queue in part:
                offered += await self._page_on(queue, [job for job in missing if job.queue == queue])
        return offered

    async def _check_first(self, queues: Sequence[str]) -> int:
        """Notify of queues whose first jobs still wait."""
        offered = 0
        for start in range(0, len(queues), QUEUES_PER_READ):
            heads = await self._store.list_claimable_in(queues[start : start + QUEUES_PER_READ], 1)
            offered += len(await self._check_heads(heads, 1))
        return offered

    async def _check_heads(self, heads: Sequence[Ready], limit: int) -> list[Ready]:
        """Offer those of the first ready jobs that the dispatcher lacks, and return them."""
        missing = await self._dispatcher.missing(heads) if heads else []
        if not missing:
            return []
        await asyncio.sleep(SETTLE_SECONDS)
        suspects = {job.id for job in missing}
        again = await self._store.list_claimable_in(sorted({job.queue for job in missing}), limit)
        missing = await self._dispatcher.missing([job for job in again if job.id in suspects])
        await self._dispatcher.offer(missing)
        return missing

    async def offer_head(self, queue: str) -> None:
        """Offer the first ready jobs that the dispatcher misses without a second check, for they have just come."""
        try:
            missing = await self._dispatcher.missing(await self._store.list_claimable(queue, HEAD_JOBS))
            await self._dispatcher.offer(missing)
            await self._page_on(queue, missing)
        except DispatchUnavailable:
            return  # workers look into the store themselves

    async def _page_on(self, queue: str, missing: Sequence[Ready] = ()) -> int:
        """Offer what is lacking behind a head that was, or where the last round stopped; return how much.

        Types that no live worker announced are left out: they would come back at once.
        """
        rank = self._reached.pop(queue, None)
        if len(missing) >= NEARLY_ALL * HEAD_JOBS:
            rank = missing[-1].rank
        offered = 0
        while rank is not None and self._left > 0:
            page = await self._store.list_ready(queue, rank, PAGE_JOBS, whole=False)
            self._left -= PAGE_JOBS
            missing = await self._dispatcher.missing(page)
            if missing:
                ready = await self._store.filter_claimable(queue, [job.id for job in missing])
                await self._dispatcher.offer(ready)
                offered += len(ready)
            rank = page[-1].rank if len(page) == PAGE_JOBS and len(missing) >= NEARLY_ALL * PAGE_JOBS else None
        if rank is not None:
            self._reached[queue] = rank
        return offered

    async def rebuild(self, queue: str) -> int:
        """Offer what is lacking of the whole backlog of a queue by rank, then declare the ready set whole."""
        offered, rank = 0, -1
        while page := await self._store.list_ready(queue, rank, PAGE_JOBS):
            missing = await self._dispatcher.missing(page)
            if 0 < len(missing) < NEARLY_ALL * len(page):
                # The set was not lost: workers have just taken most of these.
                missing = await self._store.filter_claimable(queue, [job.id for job in missing])
            await self._dispatcher.offer(missing)
            offered += len(missing)
            rank = page[-1].rank
            if len(page) < PAGE_JOBS:
                break  # what comes behind it is new, and its producers offer it: this would go on as long as they do
        await self._dispatcher.mark_current(queue)
        self._reached.pop(queue, None)
        if offered:
            logger.info("rebuilt the ready set of queue '%s': jobs offered: %d", queue, offered)
        return offered
