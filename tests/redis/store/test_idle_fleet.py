"""A fleet with nothing to do asks Redis alone for little, and hears at once of what there is to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from redis.asyncio import Redis

from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue, Retry, Worker
from queue_core.model.settings import JobsSettings, RedisSettings
from tests.conformance.working import working
from tests.waiting import PATIENCE, eventually, least

WORKERS = 16
MOST = 20
"""Commands a second of all of them."""
SECONDS = 24.0
"""Twice what lies between two beats of a worker that rests."""
QUEUES = 1000
MORE = 40
"""Commands a second that so many queues may cost besides: of those without jobs a few are looked at in turn."""


@asynccontextmanager
async def fleet(url: str, count: int) -> AsyncIterator[list[Worker]]:
    """Run workers, each on a queue object of its own, as if they were processes."""
    async with AsyncExitStack() as stack:
        workers = []
        for _ in range(count):
            settings = JobsSettings(
                queue_backend="redis", redis=RedisSettings.model_validate({"url": url, "timeout": 30})
            )
            jobs = await stack.enter_async_context(JobQueue(settings=settings))

            @jobs.task(retry=Retry(max_retries=1, delay=0.3))
            async def work(fails: bool = False) -> float:
                if fails and len(starts) % 2 == 0:
                    starts.append(time.time())
                    raise RuntimeError("the first time")
                starts.append(time.time())
                return time.time()

            workers.append(await stack.enter_async_context(working(jobs, heartbeat="1m", lease="5m")))
        yield workers


starts: list[float] = []


def resting(workers: list[Worker]) -> bool:
    """Tell whether all have found out that they hear of each other, and one leads."""
    hears = all(worker._may_rest() for worker in workers)
    return hears and sum(worker._sweeper._leads for worker in workers) == 1


@asynccontextmanager
async def rested(url: str, count: int) -> AsyncIterator[tuple[JobQueue, Redis]]:
    """Give a producer, and a client that looks, beside a fleet that has done a job and rests."""
    settings = JobsSettings(queue_backend="redis", redis=RedisSettings.model_validate({"url": url, "timeout": 30}))
    async with fleet(url, count) as workers, JobQueue(settings=settings) as jobs:
        assert await (await jobs.enqueue("work")).result(PATIENCE)
        assert await eventually(lambda: resting(workers))
        await asyncio.sleep(3.0)  # the beats that say so, and the round that follows a job
        async with Redis.from_url(url, decode_responses=True) as client:
            yield jobs, client


async def commands(client: Redis) -> int:
    return int((await client.info("stats"))["total_commands_processed"])


async def rate(client: Redis) -> float:
    before, began = await commands(client), time.monotonic()
    await asyncio.sleep(SECONDS)
    return (await commands(client) - before) / (time.monotonic() - began)


async def test_an_idle_fleet_asks_the_server_little(own_servers: EmbeddedServers) -> None:
    """Four workers asked for 171 commands a second, and 39,000 with a thousand queues."""
    async with rested(own_servers.redis_url, WORKERS) as (_, client):
        assert await least(lambda: rate(client), MOST) <= MOST
        await client.sadd("jobs:queues", *(f"q{number}" for number in range(QUEUES)))
        await asyncio.sleep(3.0)
        assert await least(lambda: rate(client), MOST + MORE) <= MOST + MORE


async def test_delayed_jobs_and_retries_wake_an_idle_leader(own_servers: EmbeddedServers) -> None:
    """It rests for 1.3 s; looking only then, these would be late by half of that on the average."""
    async with rested(own_servers.redis_url, 2) as (jobs, _):
        late = []
        for delay in (0.1, 0.3, 0.7, 1.2, 2.0):
            due = time.time() + delay
            handle = await jobs.enqueue("work", delay=delay)
            late.append(float(await handle.result(PATIENCE)) - due)
        assert min(late) > -0.01
        assert sorted(late)[len(late) // 2] < 0.05 * 5, "generous, for a busy machine; the promise is 50 ms"
        waits = []
        for _ in range(5):
            starts.clear()
            await (await jobs.enqueue("work", {"fails": True})).result(PATIENCE)
            waits.append(starts[1] - starts[0])
        assert min(waits) > 0.29
        assert sorted(waits)[2] < 0.3 + 0.05 * 5


async def test_an_order_reaches_an_idle_worker_at_once(own_servers: EmbeddedServers) -> None:
    """It beats every twelve seconds then."""
    async with fleet(own_servers.redis_url, 1) as (worker,):
        assert await eventually(lambda: resting([worker]))
        await asyncio.sleep(2.0)
        settings = RedisSettings.model_validate({"url": own_servers.redis_url})
        async with JobQueue(settings=JobsSettings(queue_backend="redis", redis=settings)) as console:
            began = time.monotonic()
            assert await console.operations.command(worker.id, "quiet")
            assert await eventually(lambda: worker._fetcher.quiet)
            assert await console.operations.command(worker.id, "resume")
            assert await eventually(lambda: not worker._fetcher.quiet)
            assert time.monotonic() - began < 6.0


async def test_where_nothing_may_be_published_everybody_asks(own_servers: EmbeddedServers) -> None:
    """Of what is due, the leader hears nothing then, and looks every 50 ms."""
    async with Redis.from_url(own_servers.redis_url, decode_responses=True) as client:
        await client.execute_command("ACL", "SETUSER", "default", "resetchannels", "&jobs:events", "&jobs:{*")
    async with fleet(own_servers.redis_url, 2) as workers:
        assert await eventually(lambda: any(worker._sweeper._leads for worker in workers))
        assert not any(worker._may_rest() for worker in workers)
        settings = RedisSettings.model_validate({"url": own_servers.redis_url})
        async with JobQueue(settings=JobsSettings(queue_backend="redis", redis=settings)) as jobs:
            for delay in (0.0, 0.2):
                handle = await jobs.enqueue("work", delay=delay)
                assert await handle.result(PATIENCE)
            assert await jobs.operations.command(workers[0].id, "quiet")
            assert await eventually(lambda: workers[0]._fetcher.quiet)


async def test_a_leader_that_ends_well_is_followed_at_once(own_servers: EmbeddedServers) -> None:
    async with fleet(own_servers.redis_url, 1) as (first,), fleet(own_servers.redis_url, 1) as (second,):
        assert await eventually(lambda: first._sweeper._leads or second._sweeper._leads)
        leader, follower = (first, second) if first._sweeper._leads else (second, first)
        leader.stop()
        leader.stop()
        assert await eventually(lambda: follower._sweeper._leads)


@pytest.mark.parametrize("lost", ["due", "leases"])
async def test_a_fleet_finds_what_lost_its_hint(own_servers: EmbeddedServers, lost: str) -> None:
    """In 20 s; nobody is told of it."""
    async with rested(own_servers.redis_url, 2) as (jobs, client):
        handle = await jobs.enqueue("work", delay=1.0)
        await client.delete(f"jobs:hints:{{{lost}}}")
        assert await handle.result(PATIENCE)
