"""Notifications that spare idle processes from polling."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from queue_core.errors import QueueCoreError
from queue_core.stores.postgres.session.listening import Notifications

GATHER_SECONDS = 0.02
"""Seconds for which what is due soon rides on the next notification."""


class PostgresSignals:
    """Notifications between processes that spare idle ones from polling: leaders, due times, orders, new jobs."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._queues: set[str] = set()
        self._notified = asyncio.Event()
        self._notifying: asyncio.Task[None] | None = None
        self._soon = False
        # worker -> its place, and the call for each order for it and each new worker there
        self.orders: dict[str, tuple[str, Callable[[], None]]] = {}
        # time.monotonic of the last notification of a leader of the sweeps
        self.led_at = float("-inf")
        for channel, call in (
            ("committed", self._commit),
            ("due", self._due),
            ("leader", self._lead),
            ("orders", self._order),
        ):
            notifications.on(channel, call)

    def _commit(self, queue: str) -> None:
        self._queues.add(queue)
        self._notified.set()

    def _due(self, _: str) -> None:
        self._notified.set()

    def _lead(self, worker: str) -> None:
        self.led_at = time.monotonic() if worker else float("-inf")

    def _order(self, name: str) -> None:
        for worker, (place, call) in self.orders.items():
            if name in (worker, place):
                call()

    async def wait(self, seconds: float) -> set[str]:
        """Wait until jobs were committed in callers' transactions, or some are due soon, or the time is over.

        Return the queues that got jobs in such transactions.
        """
        self._notifications.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        self._notified.clear()
        queues, self._queues = self._queues, set()
        return queues

    def soon(self) -> None:
        """Notify the leader of a due time before its next read; many of these in one notification."""
        self._soon = True
        if self._notifying is None or self._notifying.done():
            self._notifying = asyncio.create_task(self._notify())

    async def _notify(self) -> None:
        while self._soon:
            self._soon = False
            with contextlib.suppress(QueueCoreError):  # the leader finds it a little later
                await self._notifications.notify("due", [""])
            await asyncio.sleep(GATHER_SECONDS)

    async def close(self) -> None:
        """Send the remaining notifications; idempotent."""
        if self._notifying is not None:
            await asyncio.gather(self._notifying, return_exceptions=True)
