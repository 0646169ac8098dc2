"""Messages between processes through Redis that spare idle ones from polling: leaders, due times, orders."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

from queue_core.model.settings import RedisSettings
from queue_core.redis.client import keys_of, make_client
from queue_core.runtime import end_tasks

logger = logging.getLogger("queue_core.delivery")


SILENCE_SECONDS = 4.0
"""Seconds without a message after which none seem to arrive. The leader sends one every 1.3 s at the latest, and
receives it, too: where publishing or subscribing is cut off, or not allowed, all processes poll."""
RECONNECT_AFTER = 15.0
"""Seconds without a message after which to reconnect: a hanging connection looks like an idle one."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0
"""Seconds between two tries to subscribe, doubling, with jitter."""

DUE, TICKS, LEADER, ORDER = "due", "ticks", "leader", "order"
"""The first word of a message. `leader` is followed by its id, or nothing where it has resigned; `order` by the
worker that received one, or the place that a worker has joined or left."""


class RedisSignals:
    """One subscription of a worker process; others only publish."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._channel = keys_of(settings).notifications
        self._task: asyncio.Task[None] | None = None
        self._notified = asyncio.Event()
        # worker -> its place, and the call for each order for it and each change of the workers there
        self.orders: dict[str, tuple[str, Callable[[], None]]] = {}
        # time.monotonic of the last message, and of the last message of a leader
        self._heard_at = self.led_at = float("-inf")
        # schedules have changed since the leader read their ticks
        self.ticks_changed = True

    def start(self) -> None:
        """Start listening; doing it twice is safe."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def hears(self) -> bool:
        """Return whether a message was received recently."""
        return time.monotonic() - self._heard_at < SILENCE_SECONDS

    async def wait(self, seconds: float) -> None:
        """Wait until something is due before what the leader knew of, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        self._notified.clear()

    async def close(self) -> None:
        """Stop listening; doing it twice is safe."""
        task, self._task = self._task, None
        await end_tasks(task)
        self._heard_at = float("-inf")

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            client = make_client(self._settings, held=True)
            try:
                await self._session(client)
            except (RedisError, OSError, TimeoutError) as error:
                logger.debug("news of other processes are interrupted: %s", error)
            finally:
                pause = FIRST_PAUSE if self._heard_at > float("-inf") else min(MAX_PAUSE, pause * 2)
                # What was missed meanwhile is found by looking.
                self._heard_at = float("-inf")
                await client.aclose()
                await client.connection_pool.disconnect()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    async def _session(self, client: Redis) -> None:
        """Listen on one connection until it breaks, or nothing arrives on it."""
        pubsub = client.pubsub()
        try:
            async with asyncio.timeout(self._settings.timeout):
                await pubsub.subscribe(self._channel)
            while True:
                async with asyncio.timeout(RECONNECT_AFTER):
                    message = await pubsub.get_message(timeout=None)
                if message is not None and message["type"] == "message":
                    self._hear(str(message["data"]))
        finally:
            await pubsub.aclose()  # type: ignore[no-untyped-call]

    def _hear(self, text: str) -> None:
        self._heard_at = time.monotonic()
        kind, _, name = text.partition(" ")
        if kind == LEADER:
            self.led_at = self._heard_at if name else float("-inf")
        elif kind == ORDER:
            for worker, (place, call) in list(self.orders.items()):
                if name in (worker, place):
                    call()
        elif kind in (DUE, TICKS):
            self.ticks_changed = self.ticks_changed or kind == TICKS
            self._notified.set()
