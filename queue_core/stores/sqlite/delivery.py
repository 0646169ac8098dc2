"""Delivery by SQLite alone: workers are told which queues to look into, by this process at once, by others soon."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from queue_core.dispatch import DispatchUnavailable, Taken
from queue_core.errors import QueueCoreError
from queue_core.job import Ready
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.watching import Watcher


class SqliteDispatcher:
    """See queue_core.dispatch.Dispatcher for what each method does. It holds no jobs, so there is nothing to lose.

    Other processes need no word: whatever makes a job ready also counts it as arrived in its queue.
    """

    def __init__(self, file: SqliteFile, watcher: Watcher) -> None:
        self._file = file
        self._watcher = watcher

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Wake those in this process who wait for the queues of these jobs; keep the hint for who comes."""
        for job in ready:
            self._watcher.hints.hint([job.queue])

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Taken | None:
        """Wait until one of the queues may have ready jobs; the store is to be asked for them."""
        self._watcher.start()
        return await self._watcher.hints.take(queues, timeout)

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Do nothing: no ids are held."""

    async def lacking(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return the first ready job of each queue: whoever is idle should look."""
        return list({job.queue: job for job in reversed(heads)}.values())

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return nothing: there is nothing to lose."""
        return []

    async def mark(self, queue: str) -> None:
        """Do nothing: it was never in doubt."""

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        start = time.perf_counter()
        try:
            await self._file.read(lambda transaction: transaction.version())
        except QueueCoreError as error:
            raise DispatchUnavailable(str(error)) from error
        return time.perf_counter() - start

    async def facts(self) -> dict[str, Any]:
        """Return nothing: the inspector tells all about the file."""
        return {}

    async def close(self) -> None:
        """Stop watching; doing it twice is safe."""
        await self._watcher.close()
