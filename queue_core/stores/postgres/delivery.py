"""Delivery by PostgreSQL alone: NOTIFY names the queues that each process's workers should claim from."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import uuid4

from queue_core.delivery.gaps import GapNotices
from queue_core.delivery.local import LocalEventBus, QueueHints
from queue_core.errors import QueueCoreError, StoreUnavailable
from queue_core.model.events import (
    VERSION,
    Event,
    EventBatch,
    by_queue,
    decode_message,
    encode_end,
    encode_progress,
    is_final,
)
from queue_core.model.job import Ready
from queue_core.model.rules import Rules, rules_of
from queue_core.model.settings import PostgresSettings
from queue_core.ports.delivery import DispatchUnavailable, Nomination
from queue_core.stores.postgres.dialect import LONGEST_NAME, channels_of
from queue_core.stores.postgres.scans.ranks import LAST, named, spell
from queue_core.stores.postgres.session.listening import Notifications

GATHER = 0.02
"""Seconds for which further offers of a queue ride on the notification that was just sent: NOTIFY takes a global lock,
and a worker that was woken claims until nothing is left."""
POLL = 90.0
"""Seconds between two polls of a process of its queues while notifications arrive, with jitter. Where they do not,
workers poll every 0.05 to 1 s."""

BACK_MOST = 10_000
"""Ranks of a queue that are kept for its next notification where one could not be sent."""

START = 1.0
"""Seconds that the first polls of a process wait for notifications to arrive."""


class PostgresDispatcher:
    """See queue_core.ports.delivery.Dispatcher for what each method does. It holds no jobs, so there is nothing to
    lose."""

    holds_ids = False

    def __init__(
        self,
        settings: PostgresSettings,
        notifications: Notifications | None = None,
        bus: PostgresEventBus | None = None,
    ) -> None:
        self._notifications = notifications or Notifications(settings)
        self._bus = bus
        self._hints = QueueHints()
        self._notifications.on("ready", self._hear)
        self._notifications.on("committed", self._hear)
        self._notifications.on_gap(self._hints.hint_all)
        # time.monotonic at which all queues are read, regardless of notifications
        self._poll_at = float("-inf")
        # by queue: the last place in the order of arrival that was offered, and earlier ranks to notify of
        self._newest: dict[str, int] = {}
        self._back: dict[str, list[int]] = {}
        # seconds of time.monotonic at which each queue was last notified of
        self._notified_at: dict[str, float] = {}
        self._late: set[str] = set()
        # that go out with the next notification
        self._events: list[Event] = []
        self._late_task: asyncio.Task[None] | None = None

    def _hear(self, queue: str) -> None:
        self._hints.hint([queue])

    def _note(self, job: Ready) -> None:
        """Keep the rank of a job that claims may already have passed."""
        place, newest = job.rank & LAST, self._newest.get(job.queue, -1)
        if place > newest:
            self._newest[job.queue] = place
        else:
            self._back.setdefault(job.queue, []).append(job.rank)

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Notify all processes of the queues of these jobs, at once or together with those of the next moment.

        A worker of this process does not wait for that moment: else the jobs of one ordering key, each of which becomes
        ready when the one before it is settled, would start that far apart. While notifications do not arrive, workers
        poll, all queues in turn.
        """
        if at_once := self._at_once(ready):
            await self._notify(at_once)

    async def announce(self, ready: Sequence[Ready], events: Sequence[Event]) -> None:
        """Offer jobs and publish events in one statement, so that a process that listens is woken once.

        Events that come with a late offer wait for it: what is enqueued one after the other takes 50 notifications a
        second, and not three times as many.
        """
        at_once = self._at_once(ready)
        self._events += events
        if at_once or not self._late:
            await self._notify(at_once)

    def _at_once(self, ready: Sequence[Ready]) -> list[str]:
        """Note jobs, let the workers of this process know, and return the queues to notify others of now."""
        now = time.monotonic()
        for job in ready:
            self._note(job)
        queues = {job.queue for job in ready}
        if self._notifications.arriving:
            self._hints.hint(queues)
        at_once = [queue for queue in queues if now - self._notified_at.get(queue, float("-inf")) >= GATHER]
        self._late |= queues.difference(at_once)
        if self._late and (self._late_task is None or self._late_task.done()):
            self._late_task = asyncio.create_task(self._notify_late())
        return at_once

    async def _notify_late(self) -> None:
        # Counted from the last notification: counted from the offer, one that comes late makes the next one late, too.
        while self._late:
            now = time.monotonic()
            due = {queue: self._notified_at.get(queue, now) + GATHER for queue in self._late}
            if (first := min(due.values())) > now:
                await asyncio.sleep(first - now)
                continue
            ready = sorted(queue for queue in self._late if due[queue] <= now)
            self._late.difference_update(ready)
            with contextlib.suppress(DispatchUnavailable):  # the audit offers them again
                await self._notify(ready)

    async def _notify(self, queues: Sequence[str]) -> None:
        """Notify of queues, and of the events that wait."""
        events, self._events = self._events, []
        others = self._bus.messages(events) if self._bus is not None else []
        if not queues and not others:
            return
        now = time.monotonic()
        self._notified_at.update(dict.fromkeys(queues, now))
        back = {queue: self._back.pop(queue) for queue in queues if queue in self._back}
        names = [("ranks", spell(named(ranks), queue)) for queue, ranks in back.items()]
        try:
            # A woken worker claims at once, so the ranks come first.
            await self._notifications.notify_each([*names, *(("ready", queue) for queue in queues), *others])
        except StoreUnavailable as error:
            # They go with the queue's next notification: nothing else names them.
            for queue, ranks in back.items():
                self._back[queue] = [*ranks, *self._back.get(queue, ())][-BACK_MOST:]
            if self._bus is not None:
                self._bus.lose({event.queue for event in events})
            raise DispatchUnavailable(str(error)) from error

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        """Wait until one of the queues may have ready jobs; the store is to be asked for them.

        Raises:
            DispatchUnavailable: notifications do not arrive.
        """
        self._notifications.start()
        if not self._notifications.arriving and (queue := self._hints.pick(queues)) is not None:
            return Nomination(queue, None)
        if not self._notifications.arriving and not await self._arriving_within(min(timeout, START)):
            raise DispatchUnavailable(self._notifications.reason or "it is not known yet whether notifications arrive")
        now = time.monotonic()
        if now >= self._poll_at:
            self._poll_at = now + POLL * random.uniform(0.75, 1.25)
            self._hints.hint_all()
        return await self._hints.take(queues, min(timeout, self._poll_at - now))

    async def _arriving_within(self, seconds: float) -> bool:
        return self._notifications.lost_since is None and await self._notifications.known(seconds)

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Do nothing: no ids are held."""

    async def missing(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return the first ready job of each queue: idle workers should claim, in case a notification was lost."""
        return list({job.queue: job for job in reversed(heads)}.values())

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return nothing: there is nothing to lose."""
        return []

    async def mark_current(self, queue: str) -> None:
        """Do nothing: it was never in doubt."""

    async def ping(self) -> float:
        try:
            return await self._notifications.ping()
        except StoreUnavailable as error:
            raise DispatchUnavailable(str(error)) from error

    async def facts(self) -> dict[str, Any]:
        """Return nothing: the inspector has the server's facts."""
        return {}

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        if self._late_task is not None:
            await asyncio.gather(self._late_task, return_exceptions=True)
        await self._notifications.close()


LARGEST = 7_500
"""Bytes of one message; the server refuses 8,000."""
MOST_A_SECOND = 50
"""Messages that one process sends in a second; the rest of that second's events become gaps."""

GAP = 1.0
"""Seconds between two gaps sent to subscribers while notifications do not arrive."""
READY = 1.0
"""Seconds that a caller waiting for a job's end waits for the connection first; then it reads the job."""
POLL_FIRST, POLL_MOST = 0.05, 1.0
"""Seconds between two reads of such a job, growing: at most so many while notifications do not arrive, and as many as
the caller asks for while they do, for the event of its end may be one of those that are left out."""


class PostgresEventBus:
    """See queue_core.ports.delivery.EventBus for what each method does."""

    def __init__(
        self, settings: PostgresSettings, notifications: Notifications | None = None, rules: Rules | None = None
    ) -> None:
        self._rules = rules or {}
        self._channels = channels_of(settings.schema)
        self.hearing = self._notifications = notifications or Notifications(settings)
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
                self.lose({event.queue for event in events})

    async def omits(self, queues: Collection[str]) -> bool:
        """Return whether this second's messages are used up."""
        if self._room() > 0:
            return False
        self.lose(queues)
        return True

    def lose(self, queues: Collection[str]) -> None:
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
            self.lose(sent)

    def messages(self, events: Sequence[Event]) -> list[tuple[str, str]]:
        """Return the channels with the messages that carry events; they are numbered, so send them."""
        groups = by_queue(events)
        messages = [("events", message) for queue, group in groups.items() for message in self._messages(queue, group)]
        others = [message for queue, group in groups.items() for message in self._on_own_channels(queue, group)]
        return messages + others

    def _on_own_channels(self, queue: str, events: Sequence[Event]) -> Iterator[tuple[str, str]]:
        now = time.time()
        progress = encode_progress(queue, events, now)
        if progress is not None and len(progress.encode()) <= LARGEST and self._sent < MOST_A_SECOND:
            self._sent += 1
            yield "progress", progress
        # An operator's cancellation is published without a queue.
        if rules_of(self._rules, queue).publish_results if queue else self._rules:
            for event in filter(is_final, events):
                channel, message = f"done_{event.id}", encode_end(event, now)
                if len(message.encode()) > LARGEST:
                    message = encode_end(event, now, room=0)
                if len(self._channels) + 1 + len(channel) <= LONGEST_NAME and len(message.encode()) <= LARGEST:
                    yield channel, message

    def _messages(self, queue: str, events: Sequence[Event]) -> list[str]:
        room = self._room()
        if room <= 0:
            self.lose([queue])
            return []
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
        self._sent += len(messages)
        if len(messages) > room:
            self._left_out.note([queue])
        return messages[:room]

    def _room(self) -> int:
        """Return how many messages may still be sent in this second."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._sent = second, 0
        return MOST_A_SECOND - self._sent

    def _message(self, queue: str, bodies: Sequence[str]) -> str:
        number = self._numbers[queue] = self._numbers.get(queue, 0) + 1
        self._left_out.shown(queue)
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
            await asyncio.sleep(GAP)
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
            await self._notifications.wait_until_listening(READY)
        async for batch in batches:
            yield batch

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: inside the context no later event is missed."""
        return self._watch(queue, job_id)

    @asynccontextmanager
    async def _watch(self, queue: str, job_id: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        self._listen()
        if self._notifications.lost_since is None:
            await self._notifications.wait_until_listening(READY)
        async with self._local.watch(queue, job_id) as heard:
            pause = POLL_FIRST

            async def wait(seconds: float) -> bool:
                nonlocal pause
                before, pause = pause, pause * 1.5
                return await heard(min(seconds, before if self._notifications.arriving else min(POLL_MOST, before)))

            yield wait

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._left_out.close()
        gaps, self._gaps = self._gaps, None
        if gaps is not None:
            gaps.cancel()
            await asyncio.gather(gaps, return_exceptions=True)
        await self._notifications.close()
