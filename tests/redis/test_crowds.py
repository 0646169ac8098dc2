"""More callers at a time than a client has connections wait for one; none of them fails."""

import asyncio

from queue_core.delivery.redis_dispatcher import RedisDispatcher
from queue_core.delivery.redis_events import RedisEventBus
from queue_core.model.events import Event, EventName
from queue_core.model.job import Ready, new_id
from queue_core.redis.client import MAX_CONNECTIONS

CROWD = 3 * MAX_CONNECTIONS


async def test_offers(dispatcher: RedisDispatcher) -> None:
    ready = [Ready(new_id(), "default", rank) for rank in range(CROWD)]
    await asyncio.gather(*(dispatcher.offer([job]) for job in ready))
    assert await dispatcher.missing(ready) == []
    await asyncio.gather(*(dispatcher.forget("default", [job.id]) for job in ready))
    assert len(await dispatcher.missing(ready)) == CROWD


async def test_events(bus: RedisEventBus) -> None:
    heard: set[str] = set()
    batches = bus.subscribe()
    assert (await anext(batches)).gap
    ids = {new_id() for _ in range(CROWD)}
    await asyncio.gather(*(bus.publish([Event(EventName.CREATED, "default", job_id)]) for job_id in ids))
    async with asyncio.timeout(30):
        while heard != ids:
            heard |= {event.id for event in (await anext(batches)).events}


async def test_workers_that_wait_in_one_process(dispatcher: RedisDispatcher) -> None:
    waiting = [asyncio.create_task(dispatcher.take(["default"], 1, 30.0)) for _ in range(CROWD)]
    ready = [Ready(new_id(), "default", rank) for rank in range(CROWD)]
    await dispatcher.offer(ready)
    taken = await asyncio.gather(*waiting)
    assert sorted(job_id for one in taken if one and one.ids for job_id in one.ids) == sorted(job.id for job in ready)


async def test_subscribers(bus: RedisEventBus) -> None:
    subscribers = [bus.subscribe() for _ in range(CROWD)]
    first = await asyncio.gather(*(anext(one) for one in subscribers))
    assert all(batch.gap for batch in first)
    await asyncio.gather(*(one.aclose() for one in subscribers))  # type: ignore[attr-defined]
