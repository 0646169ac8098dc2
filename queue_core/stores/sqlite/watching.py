"""Sees what other processes do to the file: a quick look at its change counter, often while something goes on."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import suppress
from functools import partial
from uuid import uuid4

from queue_core.delivery.hints import Hints
from queue_core.delivery.local import LocalEventBus
from queue_core.errors import QueueCoreError
from queue_core.events import EventBatch, decode_message
from queue_core.stores.sqlite import news
from queue_core.stores.sqlite.file import SqliteFile

PAUSE_FIRST, PAUSE_MOST = 0.05, 0.25
"""Seconds between two looks, growing while nothing changes, with jitter; a look takes some 15 µs."""
EVERYWHERE = 5.0
"""Seconds after which all queues with ready jobs are named again, in case a hint was taken and not followed."""
RENEW = 5.0
"""Seconds between two words to the others that this process listens."""
KNOWN = 1.5
"""Seconds after which the others know of a new listener; what happened before, they did not tell."""

logger = logging.getLogger("queue_core.delivery")


class Watcher:
    """One for each queue object; works from the first question on until it is closed."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self.me = uuid4().hex[:12]
        # the workers of this process that wait for jobs
        self.hints = Hints()
        # the subscribers of this process, and those who wait for the end of a job
        self.local = LocalEventBus()
        self._seen = news.Seen()
        self._everywhere_at = float("-inf")
        self._renewed_at = float("-inf")
        self._gap_at: float | None = None
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking; doing it twice is safe."""
        if self._task is None or self._task.done():
            self._hurry = asyncio.Event()  # of this event loop, should there have been another
            self._task = asyncio.create_task(self._run())

    def hurry(self) -> None:
        """Look at once and then often: somebody waits for something to happen."""
        self.start()
        self._hurry.set()

    async def _run(self) -> None:
        pause, lost = PAUSE_FIRST, False
        while True:
            try:
                changed = await self._look()
                await self._listen()
                lost = False
            except QueueCoreError as error:
                if not lost:
                    logger.warning("what other processes do is not seen for now: %s", error)
                changed, lost = False, True
            pause = PAUSE_FIRST if changed else min(PAUSE_MOST, pause * 1.5)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.5, 1.0)):
                    await self._hurry.wait()
                pause = PAUSE_FIRST
            self._hurry.clear()

    async def _look(self) -> bool:
        everywhere = time.monotonic() - self._everywhere_at >= EVERYWHERE
        watched = self.local.watched
        found = await self._file.read(
            partial(news.look, seen=self._seen, me=self.me, watched=watched, everywhere=everywhere)
        )
        changed = found.seen.version != self._seen.version
        self._seen = found.seen
        if everywhere:
            self._everywhere_at = time.monotonic()
        self.hints.hint(found.arrived)
        self.local.tell(found.ended)
        if found.missed:
            self._gap()
        for body in found.messages:
            if (batch := decode_message(body)) is not None:
                self.local.deliver(batch)
        return changed

    async def _listen(self) -> None:
        now = time.monotonic()
        if not self.local.heard:
            self._renewed_at = float("-inf")
        elif now - self._renewed_at >= RENEW:
            if self._renewed_at == float("-inf"):
                self._gap_at = now + KNOWN
            await self._file.write_soft(partial(news.listen, me=self.me))
            self._renewed_at = now
        if self._gap_at is not None and now >= self._gap_at:
            self._gap_at = None
            self._gap()

    def _gap(self) -> None:
        self.local.deliver(EventBatch("", "", 0, time.time(), (), gap=True))

    async def close(self) -> None:
        """Stop looking; doing it twice is safe."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
