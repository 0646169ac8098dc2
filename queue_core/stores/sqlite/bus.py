"""Lifecycle events: at once within the process, and through the file for others while any of them listens."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

from queue_core.errors import QueueCoreError
from queue_core.events import VERSION, Event, EventBatch, by_queue
from queue_core.stores.sqlite import news
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.watching import Watcher

LARGEST = 1_000
"""Events in one message."""
ASK = 1.0
"""Seconds for which it is remembered whether other processes listen."""


class SqliteEventBus:
    """See queue_core.bus.EventBus for what each method does."""

    def __init__(self, file: SqliteFile, watcher: Watcher) -> None:
        self._file = file
        self._watcher = watcher
        self._numbers: Counter[str] = Counter()
        self._heard = False
        self._asked_at = float("-inf")

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events, many in one message; failing to is never an error of the caller."""
        if not events:
            return
        await self._watcher.local.publish(events)
        # Events are hints; whoever shows state reads the store.
        with suppress(QueueCoreError):
            if await self._is_heard():
                messages = list(self._messages(events))
                await self._file.write_soft(partial(news.send, me=self._watcher.me, messages=messages))

    async def _is_heard(self) -> bool:
        if time.monotonic() - self._asked_at >= ASK:
            self._asked_at = time.monotonic()
            self._heard = await self._file.read(partial(news.heard, me=self._watcher.me))
        return self._heard

    def _messages(self, events: Sequence[Event]) -> Iterator[str]:
        for queue, group in by_queue(events).items():
            for start in range(0, len(group), LARGEST):
                self._numbers[queue] += 1
                message = {
                    "v": VERSION,
                    "queue": queue,
                    "gen": self._watcher.me,
                    "n": self._numbers[queue],
                    "at": round(time.time(), 3),
                    "events": [event.body() for event in group[start : start + LARGEST]],
                }
                yield json.dumps(message, separators=(",", ":"))

    def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they come, for ever; what may have been missed shows as a gap."""
        batches = self._watcher.local.subscribe()
        self._watcher.hurry()
        return batches

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: once inside the context, nothing said from then on is missed."""
        self._watcher.hurry()
        return self._watcher.local.watch(queue, job_id)

    async def close(self) -> None:
        """Stop watching; doing it twice is safe."""
        await self._watcher.close()
