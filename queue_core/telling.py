"""Offers jobs that were written to workers and announces them, behind the back of the caller who wrote them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from queue_core.dispatch import DispatchUnavailable
from queue_core.events import Event, EventName
from queue_core.job import Inserted, NewJob, Ready
from queue_core.opening import Parts
from queue_core.states import Status

LIST = 50
"""Jobs that are written together, from which on telling of them takes longer than a few rounds of the event loop."""
ROUNDS = 12
"""Of the event loop, from the answer to a caller until the next insert of that caller is on its way; some 0.1 ms."""
MOST = 20_000
"""Jobs whose offers and events wait in memory while the server is slower than the producers; then these wait, too."""
PATIENCE = 0.25
"""Seconds that producers wait so for one batch. A server that takes longer hangs: what comes then is left to the
audit, and its events are dropped."""
CLOSE_SECONDS = 10.0

logger = logging.getLogger("queue_core")

_News = tuple[Sequence[NewJob], Sequence[Inserted]]


class Telling:
    """The news of batches, told one batch after the other."""

    def __init__(self, parts: Callable[[], Parts]) -> None:
        self._parts = parts
        self._waiting: deque[_News] = deque()
        # jobs in there and on their way
        self._jobs = 0
        self._task: asyncio.Task[None] | None = None
        # when the batch on its way was begun, by the loop's clock
        self._begun = 0.0
        self._moved = asyncio.Event()
        self._dropping = False

    async def add(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        """Take the news of a batch; returns at once unless very much is to be told before."""
        if self._jobs >= MOST and not await self._room():
            if not self._dropping:
                logger.warning(
                    "the offers of %d jobs wait for their server; the audit offers what comes now", self._jobs
                )
            self._dropping = True
            return
        self._dropping = False
        self._waiting.append((jobs, inserted))
        self._jobs += len(jobs)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _room(self) -> bool:
        """Wait until less is to be told; False when the server seems to hang."""
        while self._jobs >= MOST:
            left = self._begun + PATIENCE - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            self._moved.clear()
            try:
                async with asyncio.timeout(left):
                    await self._moved.wait()
            except TimeoutError:
                continue
        return True

    async def _run(self) -> None:
        while self._waiting:
            jobs, inserted = self._waiting.popleft()
            self._begun = asyncio.get_running_loop().time()
            try:
                await self._tell(jobs, inserted)
            except Exception:
                # Nobody waits for this any more: the rows are committed, and the audit offers them.
                logger.exception("enqueued jobs were not offered")
            finally:
                self._jobs -= len(jobs)
                self._moved.set()

    async def _tell(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        if len(jobs) < LIST:
            # A worker waits for the offer, nobody for the event.
            await self._offer(inserted)
            await self._parts().bus.publish(created(jobs, inserted))
            return
        # The caller may be about to hand in the next list. What is to be told of this one is put into words
        # while the server inserts that; if none comes, the rounds are over at once.
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        await asyncio.gather(self._offer(inserted), self._parts().bus.publish(created(jobs, inserted)))

    async def _offer(self, inserted: Sequence[Inserted]) -> None:
        dispatcher = self._parts().dispatcher
        if dispatcher is None:
            return
        ready = [Ready(one.id, one.queue, one.rank) for one in inserted if one.rank is not None]
        if not ready:
            return
        try:
            await dispatcher.offer(ready)
        except DispatchUnavailable:
            return  # the rows are committed; the audit offers them

    async def drain(self) -> None:
        """Wait until everything is told, or a server seems not to come back."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)


def created(jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> list[Event]:
    """Return what subscribers are told of new jobs."""
    return [
        Event(
            EventName.CREATED,
            job.queue,
            job.id,
            job.type,
            0,
            {"priority": job.priority, "status": Status.QUEUED}
            if one.due is None
            else {"priority": job.priority, "status": Status.SCHEDULED, "due": one.due},
        )
        for job, one in zip(jobs, inserted, strict=True)
        if one.created
    ]
