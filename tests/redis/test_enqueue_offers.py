"""A producer waits for its commit, not for Redis; and yet Redis hears of every job."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue
from tests.conftest import StartServers


async def test_what_was_enqueued_is_offered_before_the_close_ends(
    postgres_url: str, redis_url: str, redis_prefix: str, client: Redis
) -> None:
    async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
        handles = await asyncio.gather(*(jobs.enqueue("anything") for _ in range(5)))
    offered = await client.zrange(f"{redis_prefix}{{default}}:pending", 0, -1)
    assert set(offered) == {handle.id for handle in handles}


async def test_a_frozen_redis_holds_up_no_enqueue(postgres_url: str, start_servers: StartServers) -> None:
    servers = start_servers()
    redis = {"url": servers.redis_url, "timeout": 300}
    settings = JobsSettings.model_validate(
        {"queue_backend": "redis", "postgres": {"url": postgres_url}, "redis": redis}
    )
    async with JobQueue(settings=settings) as jobs:
        await jobs.enqueue("anything")  # makes the connections
        await jobs._enqueuer.drain()
        servers.redis.pause()
        try:
            # The offer of the first is on its way from its first call on: neither the first nor any after it waits.
            handles = [await asyncio.wait_for(jobs.enqueue("anything"), 60) for _ in range(5)]
        finally:
            servers.redis.resume()
    async with Redis.from_url(servers.redis_url, decode_responses=True) as client:
        for handle in handles:
            assert await client.zscore("jobs:{default}:pending", handle.id) is not None
