"""Offers and events of new jobs in one script."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from queue_core.delivery.redis_dispatcher import RedisDispatcher
from queue_core.delivery.redis_events import RedisEventBus
from queue_core.model.events import Event, EventName
from queue_core.model.job import Ready
from queue_core.ports.delivery import AnnouncingDispatcher, DispatchUnavailable
from tests.waiting import PATIENCE

READY = [Ready("a", "one", 2), Ready("b", "one", 1), Ready("c", "two", 1)]
EVENTS = [
    Event(EventName.CREATED, queue, job_id, "type", 0, {"priority": 5, "status": "queued"})
    for queue, job_id in (("one", "a"), ("one", "b"), ("two", "c"), ('"three"', "d"))
]


async def test_jobs_are_offered_and_published(
    dispatcher: RedisDispatcher, bus: RedisEventBus, client: Redis, redis_prefix: str
) -> None:
    assert isinstance(dispatcher, AnnouncingDispatcher)
    batches = bus.subscribe()
    assert (await anext(batches)).gap
    await dispatcher.announce(READY, EVENTS)
    found = {batch.queue: batch for batch in [await anext(batches) for _ in range(3)]}
    assert [event for queue in ("one", "two", '"three"') for event in found[queue].events] == EVENTS
    assert await client.zrange(f"{redis_prefix}{{one}}:pending", 0, -1) == ["b", "a"]
    assert await client.zrange(f"{redis_prefix}{{two}}:pending", 0, -1) == ["c"]
    await bus.publish(EVENTS[:1])
    after = await anext(batches)
    assert (after.number, after.gap) == (found["one"].number + 1, False)
    await dispatcher.announce(READY, [])
    await bus.publish(EVENTS[:1])
    before = (await anext(batches)).number
    assert before == after.number + 1  # without events nothing is numbered
    for number in (before + 1, before + 2):
        await dispatcher.announce(READY[:1], EVENTS[:1])
        batch = await anext(batches)
        assert (batch.number, batch.gap) == (number, False)
    await batches.aclose()  # type: ignore[attr-defined]


async def test_offers_wake_workers(dispatcher: RedisDispatcher) -> None:
    await dispatcher.announce(READY, EVENTS)
    taken = await dispatcher.take(["one"], 5, 30.0)
    assert taken is not None
    assert taken.ids == ["b", "a"]


async def test_workers_that_wait_for_messages_get_one(
    dispatcher: RedisDispatcher, client: Redis, redis_prefix: str
) -> None:
    """As on a cluster: one for the queue that has new jobs, and that workers wait for."""
    dispatcher._wake_channel = channel = f"{redis_prefix}wake"
    await client.set(f"{redis_prefix}{{one}}:sleepers", 1)
    async with client.pubsub() as listening:
        await listening.subscribe(channel)
        assert await listening.get_message(timeout=PATIENCE)
        for _ in range(2):
            await dispatcher.announce(READY, EVENTS)
        await client.publish(channel, "end")
        found = [await listening.get_message(ignore_subscribe_messages=True, timeout=PATIENCE) for _ in range(2)]
    assert [message["data"] for message in found if message] == ["one", "end"]


async def test_events_pass_a_foreign_ready_set(
    dispatcher: RedisDispatcher, bus: RedisEventBus, client: Redis, redis_prefix: str
) -> None:
    await client.set(f"{redis_prefix}{{two}}:pending", "foreign")
    batches = bus.subscribe()
    assert (await anext(batches)).gap
    with pytest.raises(DispatchUnavailable, match="WRONGTYPE"):
        await dispatcher.announce(READY[2:], EVENTS[2:3])
    assert [event.id for event in (await anext(batches)).events] == ["c"]
    await batches.aclose()  # type: ignore[attr-defined]
