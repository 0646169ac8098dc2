"""Lifecycle events for many readers: one subscription to the bus, and a bounded buffer for each reader.

A reader that is slow loses events and receives a `Gap` in their place; the others are not slowed down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from queue_core.errors import QueueCoreError
from queue_core.model.events import Event, EventBatch
from queue_core.ports.delivery import EventBus
from queue_core.runtime import end_tasks

logger = logging.getLogger("queue_core.delivery")

BUFFERED_EVENTS = 1000
"""Events that wait for a slow reader; what comes beyond is lost to it."""
SUBSCRIBE_SECONDS = 2.0
"""Seconds that a reader waits for the subscription to begin. Where it takes longer, the reader begins with a gap."""

RESUBSCRIBE_SECONDS = 5.0
"""Seconds until a subscription that failed is tried again."""

Wanted = Callable[[Event], bool]


class Received(NamedTuple):
    """One event."""

    event: Event
    # seconds since the epoch by this process's clock
    at: float


class Gap(NamedTuple):
    """Events that this reader may have missed."""

    # seconds since the epoch by this process's clock: nothing before is missing
    since: float
    # events that were dropped because the reader is slow; 0: it is not known how many were lost on their way
    dropped: int = 0


class EventReader:
    """What one reader has not read yet."""

    def __init__(self, wanted: Wanted, buffer: int) -> None:
        self._wanted = wanted
        self._buffer = buffer
        self._items: deque[Received | Gap] = deque()
        self._stirred = asyncio.Event()
        self._closed = False

    def put(self, event: Event, at: float) -> None:
        """Add an event if it is wanted."""
        if not self._wanted(event):
            return
        last = self._items[-1] if self._items else None
        if isinstance(last, Gap) and last.dropped:
            # Full once, it is read to the end before anything is added: so one gap takes the place of many.
            self._items[-1] = last._replace(dropped=last.dropped + 1)
        elif len(self._items) < self._buffer:
            self._items.append(Received(event, at))
        else:
            self._items.append(Gap(at, 1))
        self._stirred.set()

    def report_gap(self, since: float) -> None:
        """Note that events may be missing from this moment on."""
        if not self._items or not isinstance(self._items[-1], Gap):
            self._items.append(Gap(since))
        self._stirred.set()

    def restart(self) -> None:
        """Begin here: that nothing was received before is no gap."""
        self._items.clear()
        self._stirred.clear()

    def close(self) -> None:
        """End the reading, once everything was read."""
        self._closed = True
        self._stirred.set()

    async def next(self, seconds: float) -> Received | Gap | None:
        """Return the next event, or the gap in its place; None after so many seconds without one.

        Raises:
            QueueCoreError: the feed was closed.
        """
        if not self.pending:
            self._stirred.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stirred.wait()
        if self._items:
            return self._items.popleft()
        if self._closed:
            raise QueueCoreError("the queue object was closed while its events were read")
        return None

    @property
    def pending(self) -> bool:
        """Whether `next` returns, or raises, at once."""
        return bool(self._items) or self._closed


class EventFeed:
    """The subscription, which lasts from the first reader to the last one."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._readers: set[EventReader] = set()
        # those that want the events of one job, by its id
        self._of_job: dict[str, set[EventReader]] = {}
        self._task: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        # seconds since the epoch at which the last message came
        self._heard_at = 0.0

    @asynccontextmanager
    async def reading(
        self, wanted: Wanted = lambda event: True, *, job_id: str | None = None, buffer: int | None = None
    ) -> AsyncIterator[EventReader]:
        """Receive the wanted events, of one job or of all: inside the context no later one is missed unnoticed."""
        reader = EventReader(wanted, BUFFERED_EVENTS if buffer is None else buffer)
        group = self._readers if job_id is None else self._of_job.setdefault(job_id, set())
        group.add(reader)
        try:
            await self._start(reader)
            yield reader
        finally:
            group.discard(reader)
            if job_id is not None and not group and self._of_job.get(job_id) is group:
                del self._of_job[job_id]
            if not self._readers and not self._of_job:
                await self._stop()

    async def _start(self, reader: EventReader) -> None:
        if self._task is None or self._task.done():
            self._started = asyncio.Event()
            self._task = asyncio.create_task(self._run())
        elif self._started.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SUBSCRIBE_SECONDS):
                await self._started.wait()
                reader.restart()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        await end_tasks(task)

    async def _run(self) -> None:
        self._heard_at = time.time()
        while True:
            try:
                async for batch in self._bus.subscribe():
                    self._hand_out(batch)
                    self._started.set()
            except Exception:  # a bus reconnects by itself; readers must not wait for one that cannot
                logger.exception("events are interrupted")
            for reader in self._everyone():
                reader.report_gap(self._heard_at)
            await asyncio.sleep(RESUBSCRIBE_SECONDS)

    def _hand_out(self, batch: EventBatch) -> None:
        before, self._heard_at = self._heard_at, time.time()
        if batch.gap:
            for reader in self._everyone():
                reader.report_gap(before)
        for event in batch.events:
            for reader in self._readers:
                reader.put(event, self._heard_at)
            for reader in self._of_job.get(event.id, ()):
                reader.put(event, self._heard_at)

    def _everyone(self) -> list[EventReader]:
        return [*self._readers, *(reader for group in self._of_job.values() for reader in group)]

    async def close(self) -> None:
        """End all readings; doing it twice is safe."""
        for reader in self._everyone():
            reader.close()
        await self._stop()
