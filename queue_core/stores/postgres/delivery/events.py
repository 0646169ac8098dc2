"""Events by PostgreSQL alone: NOTIFY carries as many messages as there is room for, and gaps show the rest."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import uuid4

from queue_core.delivery.gaps import GapNotices
from queue_core.delivery.local import LocalEventBus
from queue_core.errors import QueueCoreError
from queue_core.model.events import (
    MESSAGE_VERSION,
    Event,
    EventBatch,
    by_queue,
    decode_message,
    encode_end,
    encode_progress,
    is_final,
)
from queue_core.model.rules import Rules, rules_of
from queue_core.model.settings import PostgresSettings
from queue_core.runtime import end_tasks
from queue_core.stores.postgres.dialect import LONGEST_NAME, channels_of
from queue_core.stores.postgres.session.listening import Notifications

MAX_MESSAGE_BYTES = 7_500
"""Bytes of one message; the server refuses 8,000."""
MESSAGE_OVERHEAD = 200
"""Bytes of a message beside its queue's name and its events."""
MAX_MESSAGES_A_SECOND = 50
"""Messages that one process sends in a second; the rest of that second's events become gaps."""

GAP_INTERVAL = 1.0
"""Seconds between two gaps sent to subscribers while notifications do not arrive."""
CONNECTION_WAIT = 1.0
"""Seconds that a caller waiting for a job's end waits for the connection first; then it reads the job."""
FIRST_POLL, MAX_POLL = 0.05, 1.0
"""Seconds between two reads of such a job, growing: at most so many while notifications do not arrive, and as many as
the caller asks for while they do, for the event of its end may be one of those that are left out."""


class PostgresEventBus:
    """See queue_core.ports.delivery.EventBus for what each method does."""

    def __init__(
        self, settings: PostgresSettings, notifications: Notifications | None = None, rules: Rules | None = None
    ) -> None:
        self._rules = rules or {}
        self._channels = channels_of(settings.schema)
        self.notification_health = self._notifications = notifications or Notifications(settings)
        self._local = LocalEventBus()
        # created for the first listener: without one no events are received
        self._listens = False
        self._gaps: asyncio.Task[None] | None = None
        self._generation = uuid4().hex[:12]
        self._numbers: dict[str, int] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._second, self._sent = 0, 0
        self._left_out = GapNotices(self._send_gaps)

    async def publish(self, events: Sequence[Event]) -> None:
        messages = self.messages(events)
        if messages:
            try:
                await self._notifications.notify_each(messages)
            except QueueCoreError:  # events are hints; state is read from the store
                self.report_gap({event.queue for event in events})

    async def omits(self, queues: Collection[str]) -> bool:
        """Return whether this second's messages are used up."""
        if self._room() > 0:
            return False
        self.report_gap(queues)
        return True

    def report_gap(self, queues: Collection[str]) -> None:
        """Leave out a message of each queue: its number is missing at the next one, so that subscribers see a gap."""
        for queue in queues:
            self._numbers[queue] = self._numbers.get(queue, 0) + 1
        self._left_out.note(queues)

    async def _send_gaps(self, queues: Sequence[str]) -> None:
        """Send messages without events, as many as there is room for."""
        sent = queues[: max(0, self._room())]
        messages = [("events", self._message(queue, [])) for queue in sent]
        if not messages:
            return
        self._sent += len(messages)
        try:
            await self._notifications.notify_each(messages)
        except QueueCoreError:
            self.report_gap(sent)

    def messages(self, events: Sequence[Event]) -> list[tuple[str, str]]:
        """Return the channels with the messages that carry events; they are numbered, so send them."""
        groups = by_queue(events)
        messages = [("events", message) for queue, group in groups.items() for message in self._messages(queue, group)]
        others = [message for queue, group in groups.items() for message in self._on_own_channels(queue, group)]
        return messages + others

    def _on_own_channels(self, queue: str, events: Sequence[Event]) -> Iterator[tuple[str, str]]:
        now = time.time()
        progress = encode_progress(queue, events, now)
        if progress is not None and len(progress.encode()) <= MAX_MESSAGE_BYTES and self._sent < MAX_MESSAGES_A_SECOND:
            self._sent += 1
            yield "progress", progress
        # An operator's cancellation is published without a queue.
        if rules_of(self._rules, queue).publish_results if queue else self._rules:
            for event in filter(is_final, events):
                channel, message = f"done_{event.id}", encode_end(event, now)
                if len(message.encode()) > MAX_MESSAGE_BYTES:
                    message = encode_end(event, now, room=0)
                if (
                    len(self._channels) + 1 + len(channel) <= LONGEST_NAME
                    and len(message.encode()) <= MAX_MESSAGE_BYTES
                ):
                    yield channel, message

    def _messages(self, queue: str, events: Sequence[Event]) -> list[str]:
        room = self._room()
        if room <= 0:
            self.report_gap([queue])
            return []
        messages: list[str] = []
        bodies: list[str] = []
        size, most = 0, MAX_MESSAGE_BYTES - MESSAGE_OVERHEAD - len(json.dumps(queue))
        encoded = [json.dumps(event.body(), separators=(",", ":")) for event in events]
        fitting = [body for body in encoded if len(body) <= most]
        for body in fitting:
            if size + len(body) > most and bodies:
                messages.append(self._message(queue, bodies))
                bodies, size = [], 0
            bodies.append(body)
            size += len(body) + 1
        if bodies:
            messages.append(self._message(queue, bodies))
        self._sent += min(len(messages), room)
        if len(messages) > room:
            self._left_out.note([queue])
        if len(fitting) < len(encoded):
            self.report_gap([queue])
        return messages[:room]

    def _room(self) -> int:
        """Return how many messages may still be sent in this second."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._sent = second, 0
        return MAX_MESSAGES_A_SECOND - self._sent

    def _message(self, queue: str, bodies: Sequence[str]) -> str:
        number = self._numbers[queue] = self._numbers.get(queue, 0) + 1
        head = {"v": MESSAGE_VERSION, "queue": queue, "gen": self._generation, "n": number, "at": round(time.time(), 3)}
        if self._left_out.shown(queue):
            head["gap"] = True
        return f'{json.dumps(head, separators=(",", ":"))[:-1]},"events":[{",".join(bodies)}]}}'

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
        self._local.notify(self._local.watched)

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._notifications.on("events", self._hear)
            self._notifications.on_gap(self._gap)
        self._notifications.start()

    async def _publish_gaps(self) -> None:
        """Send gaps periodically while no events arrive, so that subscribers read the store."""
        while True:
            await asyncio.sleep(GAP_INTERVAL)
            if self._notifications.lost_since is not None:
                self._gap()

    def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they come, for ever; reconnects by itself and reports what it may have missed as a gap."""
        self._listen()
        if self._gaps is None or self._gaps.done():
            self._gaps = asyncio.create_task(self._publish_gaps())
        return self._subscribed(self._local.subscribe())

    async def _subscribed(self, batches: AsyncIterator[EventBatch]) -> AsyncIterator[EventBatch]:
        # The first batch shows that no later event is missed, so it waits until they are listened to.
        if self._notifications.lost_since is None:
            await self._notifications.wait_until_listening(CONNECTION_WAIT)
        async for batch in batches:
            yield batch

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: inside the context no later event is missed."""
        return self._watch(queue, job_id)

    @asynccontextmanager
    async def _watch(self, queue: str, job_id: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        self._listen()
        if self._notifications.lost_since is None:
            await self._notifications.wait_until_listening(CONNECTION_WAIT)
        async with self._local.watch(queue, job_id) as heard:
            pause = FIRST_POLL

            async def wait(seconds: float) -> bool:
                nonlocal pause
                before, pause = pause, pause * 1.5
                return await heard(min(seconds, before if self._notifications.arriving else min(MAX_POLL, before)))

            yield wait

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        # What this second's messages have left out shows now or never.
        self._sent = 0
        await self._left_out.close()
        gaps, self._gaps = self._gaps, None
        await end_tasks(gaps)
        await self._notifications.close()
