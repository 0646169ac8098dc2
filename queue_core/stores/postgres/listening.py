"""One LISTEN connection a process, shared by whoever wants to be told, that comes back by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import psycopg

from queue_core.settings import PostgresSettings
from queue_core.stores.postgres.bounded import BROKEN
from queue_core.stores.postgres.lane import connection_options
from queue_core.stores.postgres.sql import load

PAUSE_FIRST, PAUSE_MOST = 0.1, 5.0
"""Seconds between two tries to connect again, doubling."""
PROBE = 30.0
"""Seconds of silence after which a statement shows whether the connection is still there."""

logger = logging.getLogger("queue_core.delivery")


class Listener:
    """Calls back for each notification, and for each time after which some may have been missed.

    Through a pooler in transaction mode LISTEN cannot work: `listen_url` is then the direct address. Where there is
    none, the audit and the workers' own looks replace the notifications.
    """

    def __init__(
        self, settings: PostgresSettings, channels: dict[str, Callable[[str], None]], on_gap: Callable[[], None]
    ):
        self._settings = (
            settings if settings.listen_url is None else settings.model_copy(update={"url": settings.listen_url})
        )
        self._channels = channels
        self._on_gap = on_gap
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()

    def start(self) -> None:
        """Start listening; doing it twice is safe."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def wait_until_listening(self, seconds: float) -> None:
        """Wait until notifications arrive, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._listening.wait()

    async def _run(self) -> None:
        pause = PAUSE_FIRST
        while True:
            try:
                options: dict[str, Any] = {**connection_options(self._settings), "prepare_threshold": None}
                async with await psycopg.AsyncConnection.connect(**options) as connection:
                    await self._listen(connection)
                    pause = PAUSE_FIRST
                    await self._hear(connection)
            except BROKEN as error:
                logger.info("notifications lost, connecting again: %s", error)
            finally:
                self._listening.clear()
            await asyncio.sleep(pause)
            pause = min(PAUSE_MOST, pause * 2)

    async def _listen(self, connection: psycopg.AsyncConnection[Any]) -> None:
        for channel in self._channels:
            await connection.execute(load(f"notify/listen_{channel}"))
        self._listening.set()
        self._on_gap()

    async def _hear(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            async for notification in connection.notifies(timeout=PROBE):
                call = self._channels.get(notification.channel.removeprefix("queue_core_"))
                if call is not None:
                    call(notification.payload)
            await connection.execute(load("notify/probe"))

    async def close(self) -> None:
        """Stop listening; doing it twice is safe."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Commits:
    """Gathers the queues that callers' own transactions have put jobs into."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._queues: set[str] = set()
        self._told = asyncio.Event()
        self._listener = Listener(settings, {"committed": self._hear}, lambda: None)

    def _hear(self, queue: str) -> None:
        self._queues.add(queue)
        self._told.set()

    async def wait(self, seconds: float) -> set[str]:
        """Wait until there are some, or the time is over, and return them."""
        self._listener.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told.wait()
        self._told.clear()
        queues, self._queues = self._queues, set()
        return queues

    async def close(self) -> None:
        """Stop listening; doing it twice is safe."""
        await self._listener.close()
