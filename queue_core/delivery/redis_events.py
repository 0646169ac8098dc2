"""Lifecycle events through Redis, and waiting for the end of a job."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import groupby

from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from queue_core.delivery.gaps import GapNotices
from queue_core.model.events import (
    Event,
    EventBatch,
    by_queue,
    decode_message,
    encode_end,
    encode_events,
    encode_progress,
    encode_text,
    is_final,
)
from queue_core.model.rules import Rules, rules_of
from queue_core.model.settings import RedisSettings
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import keys_of, make_client, within
from queue_core.redis.failover import receive
from queue_core.redis.keys import ClusterKeys, Keys
from queue_core.redis.pipeline import PipelinedConnection
from queue_core.redis.scripts import Call, Scripts
from queue_core.runtime import Batcher, end_tasks, parts_of

EXPECT_MS = 60_000
"""Seconds that the server remembers a wait for a job; a longer wait is renewed."""
FIRST_READ_PAUSE, MAX_READ_PAUSE = 0.1, 5.0
"""Seconds between two attempts to read again after the connection was lost, doubling."""


NAMES_PER_SEND = 1000
"""Names, or waits, that are sent together."""


class _Channel:
    """A job's channel and those who listen to it."""

    def __init__(self) -> None:
        self.confirmed = asyncio.Event()
        self.listeners: list[asyncio.Event] = []

    def notify(self) -> None:
        for ended in self.listeners:
            ended.set()


class Watching:
    """Channels of jobs come and go on one connection, so that a hundred who wait do not need a hundred."""

    def __init__(self, listening: Redis, scripts: Scripts, keys: Keys, timeout: float, circuit: CircuitBreaker) -> None:
        self._listening = listening
        self._scripts = scripts
        self._keys = keys
        self._timeout = timeout
        self._circuit = circuit
        self._channels: dict[str, _Channel] = {}
        # The end of a job that an operator cancels is published without a queue: a job's second channel, and its first.
        self._seconds: dict[str, str] = {}
        self._pubsub: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        # subscriptions that nothing waits for
        self._ending: set[asyncio.Task[None]] = set()
        # names with whether to subscribe to them, and queues with the ids of jobs
        self._subscribing: Batcher[tuple[str, bool], None] = Batcher(self._send_names, NAMES_PER_SEND)
        self._expecting: Batcher[tuple[str, str], None] = Batcher(self._send_waits, NAMES_PER_SEND)
        for batcher in (self._subscribing, self._expecting):
            batcher.limit_waits(timeout, TimeoutError)
        # seconds of time.monotonic at which a message was read last
        self._heard_at = float("-inf")

    @asynccontextmanager
    async def watch(self, queue: str, job_id: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: once inside the context, no message from then on is missed."""
        name = self._keys.done(queue, job_id)
        ended = asyncio.Event()
        channel = self._channels.setdefault(name, _Channel())
        channel.listeners.append(ended)
        try:
            try:
                async with within(None, self._circuit):
                    await self._subscribe(name, self._second(job_id), channel)
                    await self._expecting.put([(queue, job_id)])
            except DispatchUnavailable:
                yield _deaf
            else:
                yield self._waiter(queue, job_id, ended)
        finally:
            channel.listeners.remove(ended)
            if not channel.listeners and self._channels.get(name) is channel:
                second = self._second(job_id)
                del self._channels[name]
                self._seconds.pop(second, None)
                await self._unsubscribe(name, second)

    def _second(self, job_id: str) -> str:
        return self._keys.done("", job_id)

    async def _subscribe(self, name: str, second: str, channel: _Channel) -> None:
        """Subscribe and wait for the confirmation, as long as messages come.

        Of thousands of waits that begin together the last one's is read when all others are, which takes this process
        longer than the server.

        Raises:
            TimeoutError, redis.RedisError, OSError: nothing came in time.
        """
        self._seconds[second] = name
        await self._subscribing.put([(second, True), (name, True)])
        while not channel.confirmed.is_set():
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._timeout):
                    await channel.confirmed.wait()
            except TimeoutError:
                if self._heard_at < began:
                    raise

    async def _unsubscribe(self, *names: str) -> None:
        if self._pubsub is not None:
            with contextlib.suppress(DispatchUnavailable):
                async with within(self._timeout):
                    await self._subscribing.put([(name, False) for name in names])

    async def _send_names(self, names: Sequence[tuple[str, bool]]) -> list[None]:
        """Subscribe to names and end subscriptions, in their order."""
        if self._pubsub is None:
            self._pubsub = self._listening.pubsub()
        async with asyncio.timeout(self._timeout):
            for wanted, group in groupby(names, lambda one: one[1]):
                send = self._pubsub.subscribe if wanted else self._pubsub.unsubscribe
                await send(*[name for name, _ in group])
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read(self._pubsub))
        return [None] * len(names)

    async def _send_waits(self, waits: Sequence[tuple[str, str]]) -> list[None]:
        """Let the server know for which jobs' ends messages are wanted."""
        calls = [
            Call("expect", [self._keys.of(place, "waiters")], [job_id, EXPECT_MS])
            for queue, job_id in waits
            for place in (queue, "")
        ]
        async with asyncio.timeout(self._timeout):
            await self._scripts.run_many(calls)
        return [None] * len(waits)

    def _waiter(self, queue: str, job_id: str, ended: asyncio.Event) -> Callable[[float], Awaitable[bool]]:
        expected = time.monotonic()

        async def wait(seconds: float) -> bool:
            nonlocal expected
            if time.monotonic() - expected > EXPECT_MS / 2000:
                expected = time.monotonic()
                with contextlib.suppress(DispatchUnavailable):
                    async with within(min(seconds, self._timeout)):
                        await self._expecting.put([(queue, job_id)])
            try:
                async with asyncio.timeout(seconds):
                    await ended.wait()
            except TimeoutError:
                return False
            ended.clear()
            return True

        return wait

    async def _read(self, pubsub: PubSub) -> None:
        pause = FIRST_READ_PAUSE
        while True:
            try:
                async with within(None):
                    message = await receive(pubsub)
            except DispatchUnavailable:
                await asyncio.sleep(pause)
                pause = min(MAX_READ_PAUSE, pause * 2)
                continue
            pause = FIRST_READ_PAUSE
            if message is None:
                continue
            self._heard_at = time.monotonic()
            second = message["channel"] in self._seconds
            channel = self._channels.get(self._seconds.get(message["channel"], message["channel"]))
            if channel is None and message["type"] == "subscribe":
                # Its end could not be sent, and the client library has subscribed to it again.
                ending = asyncio.create_task(self._unsubscribe(message["channel"]))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
            if channel is None or (second and message["type"] != "message"):
                continue
            # A second confirmation comes after a lost connection: a message may have been missed meanwhile.
            if message["type"] == "message" or (message["type"] == "subscribe" and channel.confirmed.is_set()):
                channel.notify()
            elif message["type"] == "subscribe":
                channel.confirmed.set()

    async def close(self) -> None:
        """Stop listening; doing it twice is safe."""
        reader, self._reader = self._reader, None
        pubsub, self._pubsub = self._pubsub, None
        await asyncio.gather(*self._ending, return_exceptions=True)
        await end_tasks(reader)
        if pubsub is not None:
            await pubsub.aclose()  # type: ignore[no-untyped-call]


async def _deaf(seconds: float) -> bool:
    await asyncio.sleep(seconds)
    return False


MAX_MESSAGE_EVENTS = 1000
"""Events in one message: some 150 KB, far below any output buffer limit of a subscriber."""
CHECK_LISTENERS_FROM = 50
"""Events from which on it costs less to look for subscribers first than to send what has none: 3 µs an event."""
FIRST_SUBSCRIBE_PAUSE, MAX_SUBSCRIBE_PAUSE = 0.1, 5.0
"""Seconds between two attempts to subscribe again, doubling."""

ENDS_BYTES_PER_CALL = 256 << 10
"""About the bytes of ends in one call."""


class RedisEventBus:
    """See queue_core.ports.delivery.EventBus for what each method does."""

    def __init__(
        self,
        settings: RedisSettings,
        circuit: CircuitBreaker,
        pipelined: PipelinedConnection,
        rules: Rules | None = None,
    ) -> None:
        self._rules = rules or {}
        self._timeout = settings.timeout
        self._circuit = circuit
        self._keys = keys_of(settings)
        self._client = make_client(settings)
        self._listening = make_client(settings, held=True)
        self._pipelined = pipelined
        self._scripts = Scripts(self._client, "queue_core.delivery.redis", pipelined)
        self._left_out = GapNotices(self._send_gaps)
        self._watching = Watching(self._listening, self._scripts, self._keys, self._timeout, circuit)

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events, many in one message; failing to is never an error of the caller."""
        groups = by_queue(events)
        # Who subscribes behind this look begins with the store, which has what these events are about.
        omitted = len(events) >= CHECK_LISTENERS_FROM and await self._unheard(groups, waiting=False)
        calls = [
            self._message(queue, group[start : start + MAX_MESSAGE_EVENTS], omitted)
            for queue, group in groups.items()
            for start in range(0, len(group), MAX_MESSAGE_EVENTS)
        ]
        calls += [call for queue, group in groups.items() for call in self._on_own_channels(queue, group)]
        if not calls:
            return
        try:
            async with within(self._timeout, self._circuit):
                await self._scripts.run_many(calls)
        except DispatchUnavailable:  # events are hints; what shows state reads the store
            self.report_gap(groups)

    def report_gap(self, queues: Collection[str]) -> None:
        """Leave out a number of each queue, as soon as the server is there: subscribers see a gap."""
        self._left_out.note(queues)

    async def _send_gaps(self, queues: Sequence[str]) -> None:
        at = f"{time.time():.3f}"
        calls = [
            Call(
                "leave_out",
                [self._keys.of(queue, name) for name in ("event_seq", "generation")],
                [self._keys.events, encode_text(queue), at],
            )
            for queue in queues
        ]
        async with within(self._timeout, self._circuit):
            await self._scripts.run_many(calls)
        for queue in queues:
            self._left_out.shown(queue)

    async def omits(self, queues: Collection[str]) -> bool:
        """Return whether no events are wanted; False on a cluster, where each node knows its own subscribers alone."""
        return await self._unheard(queues, waiting=True)

    async def _unheard(self, queues: Collection[str], waiting: bool) -> bool:
        """Return whether there are no subscribers, and with `waiting` whether the end of no job is waited for."""
        if isinstance(self._keys, ClusterKeys) or not queues:
            return False
        keys = [self._keys.of(queue, "waiters") for queue in queues]
        call = Call("count_listeners", keys, [self._keys.events, int(waiting)])
        try:
            async with within(self._timeout, self._circuit):
                (listeners,) = await self._scripts.run_many([call])
        except DispatchUnavailable:
            return False
        return int(listeners) == 0

    def _on_own_channels(self, queue: str, events: Sequence[Event]) -> Iterator[Call]:
        now, place = time.time(), [self._keys.of(queue, "event_seq")]
        if (progress := encode_progress(queue, events, now)) is not None:
            yield Call("send", place, [self._keys.progress, progress])
        # An operator's cancellation is published without a queue.
        if rules_of(self._rules, queue).publish_results if queue else self._rules:
            ends = [(self._keys.done(queue, one.id), encode_end(one, now)) for one in events if is_final(one)]
            for part in parts_of(ends, lambda end: len(end[1]), ENDS_BYTES_PER_CALL):
                yield Call("send", place, [text for end in part for text in end])

    def _message(self, queue: str, events: Sequence[Event], omitted: bool) -> Call:
        keys = [self._keys.of(queue, name) for name in ("event_seq", "generation", "waiters")]
        at = f"{time.time():.3f}"
        finished = [event.id for event in events if is_final(event)]
        args = [
            self._keys.events,
            *self._keys.done_parts(queue),
            json.dumps(queue),
            at,
            "" if omitted else encode_events(events),
            *finished,
        ]
        return Call("publish", keys, args)

    async def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they come, for ever; reconnects by itself and reports what it may have missed as a gap."""
        pause = FIRST_SUBSCRIBE_PAUSE
        while True:
            try:
                async for batch in self._session():
                    pause = FIRST_SUBSCRIBE_PAUSE
                    yield batch
            except DispatchUnavailable:
                yield EventBatch("", "", 0, time.time(), (), gap=True)
            await asyncio.sleep(pause)
            pause = min(MAX_SUBSCRIBE_PAUSE, pause * 2)

    async def _session(self) -> AsyncIterator[EventBatch]:
        """Yield from one subscription until it breaks."""
        pubsub = self._listening.pubsub()
        last: dict[str, tuple[str, int]] = {}
        try:
            async with within(self._timeout):
                await pubsub.subscribe(self._keys.events)
            while True:
                async with within(None):
                    message = await receive(pubsub)
                if message is None:
                    continue
                # The client library reconnects in silence: the only sign is that its subscription is confirmed again.
                if message["type"] == "subscribe":
                    last.clear()
                    yield EventBatch("", "", 0, time.time(), (), gap=True)
                elif message["type"] == "message" and (batch := decode_message(message["data"])) is not None:
                    yield _judged(batch, last)
        finally:
            await pubsub.aclose()  # type: ignore[no-untyped-call]

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: once inside the context, no message from then on is missed."""
        return self._watching.watch(queue, job_id)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._left_out.close()
        await self._watching.close()
        await self._pipelined.close()
        for client in (self._client, self._listening):
            await client.aclose()
            await client.connection_pool.disconnect()


def _judged(batch: EventBatch, last: dict[str, tuple[str, int]]) -> EventBatch:
    """Return the batch, marked as following a gap when its number does not follow the queue's last one."""
    before = last.get(batch.queue)
    last[batch.queue] = (batch.generation, batch.number)
    if before is None or before == (batch.generation, batch.number - 1):
        return batch
    return batch._replace(gap=True)
