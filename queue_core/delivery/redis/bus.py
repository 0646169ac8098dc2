"""Lifecycle events over Redis pub/sub: many in one message, numbered, with gaps made visible."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from queue_core.delivery.circuit import Circuit
from queue_core.delivery.redis.reaching import within
from queue_core.delivery.redis.watching import Watching
from queue_core.dispatch import DispatchUnavailable
from queue_core.events import Event, EventBatch, by_queue, decode_message, encode_events
from queue_core.redis.client import keys_of, make_client
from queue_core.redis.scripts import Call, Scripts
from queue_core.settings import RedisSettings

LARGEST = 1000
"""Events in one message: some 150 KB, far below any output buffer limit of a subscriber."""
PAUSE_FIRST, PAUSE_MOST = 0.1, 5.0
"""Seconds between two attempts to subscribe again, doubling."""

_FINAL = frozenset({"completed", "dead", "cancelled"})


class RedisEventBus:
    """See queue_core.bus.EventBus for what each method does."""

    def __init__(self, settings: RedisSettings, circuit: Circuit) -> None:
        self._timeout = settings.timeout
        self._circuit = circuit
        self._keys = keys_of(settings)
        self._client = make_client(settings)
        self._listening = make_client(settings, held=True)
        self._scripts = Scripts(self._client, "queue_core.delivery.redis")
        self._watching = Watching(self._listening, self._scripts, self._keys, self._timeout, circuit)

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events, many in one message; failing to is never an error of the caller."""
        calls = [
            self._message(queue, group[start : start + LARGEST])
            for queue, group in by_queue(events).items()
            for start in range(0, len(group), LARGEST)
        ]
        if not calls:
            return
        try:
            async with within(self._timeout, self._circuit):
                await self._scripts.run_many(calls)
        except DispatchUnavailable:
            return  # events are hints; whoever shows state reads the store

    def _message(self, queue: str, events: Sequence[Event]) -> Call:
        keys = [self._keys.of(queue, name) for name in ("eseq", "gen", "waiters")]
        at = f"{time.time():.3f}"
        finished = [event.id for event in events if event.event in _FINAL]
        args = [
            self._keys.events,
            *self._keys.done_parts(queue),
            json.dumps(queue),
            at,
            encode_events(events),
            *finished,
        ]
        return Call("publish", keys, args)

    async def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they come, for ever; reconnects by itself and reports what it may have missed as a gap."""
        pause = PAUSE_FIRST
        while True:
            try:
                async for batch in self._session():
                    pause = PAUSE_FIRST
                    yield batch
            except DispatchUnavailable:
                yield EventBatch("", "", 0, time.time(), (), gap=True)
            await asyncio.sleep(pause)
            pause = min(PAUSE_MOST, pause * 2)

    async def _session(self) -> AsyncIterator[EventBatch]:
        """Yield from one subscription until it breaks."""
        pubsub = self._listening.pubsub()
        last: dict[str, tuple[str, int]] = {}
        try:
            async with within(self._timeout):
                await pubsub.subscribe(self._keys.events)
            while True:
                async with within(None):
                    message = await pubsub.get_message(timeout=None)
                if message is None:
                    continue
                # The client library reconnects in silence: the only sign is that it is told of its subscription again.
                if message["type"] == "subscribe":
                    last.clear()
                    yield EventBatch("", "", 0, time.time(), (), gap=True)
                elif message["type"] == "message" and (batch := decode_message(message["data"])) is not None:
                    yield _judged(batch, last)
        finally:
            await pubsub.aclose()  # type: ignore[no-untyped-call]

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: once inside the context, nothing said from then on is missed."""
        return self._watching.watch(queue, job_id)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._watching.close()
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
