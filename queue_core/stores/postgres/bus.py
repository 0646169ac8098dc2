"""Lifecycle events by NOTIFY, bounded in rate and size; what does not fit is told as a gap, so that readers look."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import uuid4

from queue_core.delivery.local import LocalEventBus
from queue_core.errors import QueueCoreError
from queue_core.events import VERSION, Event, EventBatch, by_queue, decode_message
from queue_core.settings import PostgresSettings
from queue_core.stores.postgres.listening import Notifications

LARGEST = 7_500
"""Bytes of one message; the server refuses 8,000."""
MOST_A_SECOND = 50
"""Messages that one process sends in a second; the rest of that second's events become gaps."""

GAP = 1.0
"""Seconds between two gaps that subscribers are told of while notifications do not arrive."""
READY = 1.0
"""Seconds for which whoever waits for a job's end waits for the connection first; then it looks."""
LOOK_FIRST, LOOK_MOST = 0.05, 1.0
"""Seconds between two looks at such a job while notifications do not arrive, growing."""


class PostgresEventBus:
    """See queue_core.bus.EventBus for what each method does."""

    def __init__(self, settings: PostgresSettings, notifications: Notifications | None = None) -> None:
        self.hearing = self._notifications = notifications or Notifications(settings)
        self._local = LocalEventBus()
        # made when somebody listens: who does not is sent no events
        self._listens = False
        self._gaps: asyncio.Task[None] | None = None
        self._generation = uuid4().hex[:12]
        self._numbers: dict[str, int] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._second, self._sent = 0, 0

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events, many in one message; failing to is never an error of the caller."""
        messages = [message for queue, group in by_queue(events).items() for message in self._messages(queue, group)]
        if not messages:
            return
        try:
            await self._notifications.send("events", messages)
        except QueueCoreError:
            return  # events are hints; whoever shows state reads the store

    def _messages(self, queue: str, events: Sequence[Event]) -> list[str]:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._sent = second, 0
        messages: list[str] = []
        bodies: list[str] = []
        size = 0
        for body in [json.dumps(event.body(), separators=(",", ":")) for event in events]:
            if size + len(body) > LARGEST - 400 and bodies:
                messages.append(self._message(queue, bodies))
                bodies, size = [], 0
            bodies.append(body if len(body) < LARGEST - 400 else "")
            size += len(body) + 1
        messages.append(self._message(queue, bodies))
        room = max(0, MOST_A_SECOND - self._sent)
        self._sent += len(messages)
        # The numbers of what is left out are missing at the next message: subscribers see the gap.
        return messages[:room]

    def _message(self, queue: str, bodies: Sequence[str]) -> str:
        number = self._numbers[queue] = self._numbers.get(queue, 0) + 1
        head = {"v": VERSION, "queue": queue, "gen": self._generation, "n": number, "at": round(time.time(), 3)}
        events = ",".join(body for body in bodies if body)
        return f'{json.dumps(head, separators=(",", ":"))[:-1]},"events":[{events}]}}'

    def _hear(self, payload: str) -> None:
        batch = decode_message(payload)
        if batch is None:
            return
        key = (batch.generation, batch.queue)
        before = self._last.get(key)
        self._last[key] = batch.number
        self._local.deliver(batch if before in (None, batch.number - 1) else batch._replace(gap=True))

    def _gap(self) -> None:
        self._local.deliver(EventBatch("", "", 0, time.time(), (), gap=True))
        self._local.tell(self._local.watched)

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._notifications.on("events", self._hear)
            self._notifications.on_gap(self._gap)
        self._notifications.start()

    async def _tell_gaps(self) -> None:
        """Let subscribers read the store again and again while no events arrive."""
        while True:
            await asyncio.sleep(GAP)
            if self._notifications.lost_since is not None:
                self._gap()

    def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they come, for ever; reconnects by itself and reports what it may have missed as a gap."""
        self._listen()
        if self._gaps is None or self._gaps.done():
            self._gaps = asyncio.create_task(self._tell_gaps())
        return self._local.subscribe()

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: once inside the context, nothing said from then on is missed."""
        return self._watch(queue, job_id)

    @asynccontextmanager
    async def _watch(self, queue: str, job_id: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        self._listen()
        if self._notifications.lost_since is None:
            await self._notifications.wait_until_listening(READY)
        async with self._local.watch(queue, job_id) as heard:
            pause = LOOK_FIRST

            async def wait(seconds: float) -> bool:
                nonlocal pause
                if self._notifications.arriving:
                    return await heard(seconds)
                pause = min(LOOK_MOST, pause * 1.5)
                return await heard(min(seconds, pause))

            yield wait

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        gaps, self._gaps = self._gaps, None
        if gaps is not None:
            gaps.cancel()
            await asyncio.gather(gaps, return_exceptions=True)
        await self._notifications.close()
