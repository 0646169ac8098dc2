"""Sends a worker's events: gathered while the last message is on its way, never waited for by a job."""

from __future__ import annotations

import asyncio
import contextlib

from queue_core.bus import EventBus
from queue_core.events import Event

MOST = 20_000
"""Events kept while the bus is slow; what comes beyond is dropped, since events are hints."""
PART = 1000


class Announcer:
    """A buffer and the loop that empties it."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._buffer: list[Event] = []
        self._wake = asyncio.Event()
        self._closing = False

    def tell(self, event: Event) -> None:
        """Note an event."""
        if len(self._buffer) < MOST:
            self._buffer.append(event)
            self._wake.set()

    async def run(self) -> None:
        """Send until closed and empty."""
        while self._buffer or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            while self._buffer:
                part, self._buffer = self._buffer[:PART], self._buffer[PART:]
                await self._bus.publish(part)

    async def close(self, loop: asyncio.Task[None], seconds: float = 2.0) -> None:
        """Send what is left, within some seconds."""
        self._closing = True
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(loop, seconds)
