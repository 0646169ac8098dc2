"""Several databases of one server under one prefix: channels know no database, so their names keep them apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from queue_core.delivery.redis_events import RedisEventBus
from queue_core.model.events import Event, EventName
from queue_core.model.settings import RedisSettings
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import make_pipelined

PATIENCE = 60.0


def in_database(redis_url: str, number: int) -> str:
    """Return the address of another database of the same server."""
    return f"{redis_url.partition('?')[0]}?db={number}"


@asynccontextmanager
async def bus_in(redis_url: str, prefix: str, database: int) -> AsyncIterator[RedisEventBus]:
    """Return events in a database."""
    url = in_database(redis_url, database)
    settings = RedisSettings.model_validate({"url": url, "prefix": prefix, "timeout": 30})
    bus = RedisEventBus(settings, CircuitBreaker("redis"), make_pipelined(settings))
    try:
        yield bus
    finally:
        await bus.close()


def ended(job_id: str) -> Event:
    """Return the event of a job that has completed."""
    return Event(EventName.COMPLETED, "work", job_id, "task", 1)


async def test_events_of_one_database_are_not_heard_in_another(redis_url: str, redis_prefix: str) -> None:
    async with bus_in(redis_url, redis_prefix, 0) as first, bus_in(redis_url, redis_prefix, 5) as second:
        batches = second.subscribe()
        assert (await anext(batches)).gap
        await first.publish([ended("theirs")])
        await second.publish([ended("ours")])
        async with asyncio.timeout(PATIENCE):
            batch = await anext(batches)
        assert [event.id for event in batch.events] == ["ours"]


async def test_the_end_of_a_job_is_not_said_by_another_database(redis_url: str, redis_prefix: str) -> None:
    async with (
        bus_in(redis_url, redis_prefix, 0) as first,
        bus_in(redis_url, redis_prefix, 5) as second,
        first.watch("work", "a-job") as theirs,
        second.watch("work", "a-job") as ours,
    ):
        await first.publish([ended("a-job")])
        assert await theirs(PATIENCE)
        assert not await ours(0.2)
        await second.publish([ended("a-job")])
        assert await ours(PATIENCE)


async def test_channels_have_their_documented_names(redis_url: str, redis_prefix: str) -> None:
    """Other programs subscribe to them: database 0 has the plain names, database n those with @n behind them."""
    async with Redis.from_url(redis_url, decode_responses=True) as client:
        for database, end in ((0, ""), (5, "@5")):
            wanted = [f"{redis_prefix}events{end}", f"{redis_prefix}{{work}}:job:a-job:done{end}"]
            async with client.pubsub() as pubsub, bus_in(redis_url, redis_prefix, database) as bus:
                await pubsub.subscribe(*wanted)
                async with bus.watch("work", "a-job"):
                    await bus.publish([ended("a-job")])
                    heard: set[str] = set()
                    async with asyncio.timeout(PATIENCE):
                        while heard != set(wanted):
                            message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=1.0)
                            heard |= {message["channel"]} if message else set()
