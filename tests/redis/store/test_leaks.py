"""No key grows for ever: after everything has gone through and over its retention, the same few keys are there."""

from __future__ import annotations

import asyncio
import re

from redis.asyncio import Redis

from queue_core.model.filters import parse
from queue_core.model.settings import JobsSettings, RedisSettings
from queue_core.queue import JobQueue
from queue_core.redis import keys as documentation
from queue_core.worker.worker import Worker
from tests.conformance.making import QUEUE, failure, outcome
from tests.conformance.world import STATES, World

DAY = 86400.0
LASTING = {"deaths", "minutes", "type_releases", "signature_releases", "last_seen", "seq", "signatures", "tallies",
           "token", "queues", "schema", "leaders", "announced", "hints"}  # fmt: skip
"""What stays of a queue without jobs: its name, its totals, bounded in number."""
_NAME = re.compile(r"`(?:P |<prefix>)([a-z_]+)")


async def names(client: Redis, prefix: str) -> set[str]:
    found = {key.removeprefix(prefix) async for key in client.scan_iter(f"{prefix}*", count=1000)}
    return {re.sub(r"^\{.*?\}:", "", name).partition(":")[0] for name in found}


async def turn(world: World) -> None:
    """Bring jobs into all states, end what can be ended, and let all retentions pass."""
    await world.lost(3)
    await world.job_in("completed", unique_key="k", unique_seconds=60.0)
    for state in STATES:
        for _ in range(3):
            await world.job_in(state)
    await world.beat()
    await world.change("cancel", [claim.id for claim in await world.claim()])
    await world.advance(DAY)
    await world.store.promote(100)
    await world.store.reclaim(100)
    await world.store.settle([outcome(claim, "completed") for claim in await world.claim()])
    dead = [job.id for job in (await world.inspector.jobs(parse("status:dead"), 100)).jobs]
    await world.change("delete", dead)
    await world.advance(40 * DAY)
    # A new store: what it does once a minute, it does now.
    world.store._upkeep._seldom_at = float("-inf")  # type: ignore[attr-defined]
    await world.store.upkeep()


async def test_nothing_is_left_of_jobs(world: World, client: Redis, redis_prefix: str) -> None:
    await turn(world)
    first = await names(client, redis_prefix)
    assert first <= LASTING
    where = await world.inspector.conservation()
    assert (where.unfinished, where.completed + where.dead + where.cancelled) == (0, 26)
    sizes = {key: await client.memory_usage(key) async for key in client.scan_iter(f"{redis_prefix}*")}
    for _ in range(3):
        await turn(world)
    assert await names(client, redis_prefix) == first
    for key, size in sizes.items():
        assert await client.memory_usage(key) < 2 * size + 200, key


async def test_every_key_is_documented(world: World, client: Redis, redis_prefix: str) -> None:
    documented = {name for line in str(documentation.__doc__).splitlines() for name in _NAME.findall(line)}
    await world.lost(1)
    for state in STATES:
        await world.job_in(state)
    await world.beat()
    await world.store.acquire_leadership("sweep", "w", 5)
    await world.change("cancel", [(await world.running()).id])
    await world.operations.pause(QUEUE)
    assert await names(client, redis_prefix) - documented == set()


async def test_signatures_are_bounded(world: World, client: Redis, redis_prefix: str) -> None:
    """Whatever jobs die of, the titles of the last ten thousand causes are kept."""
    await client.zadd(f"{redis_prefix}{{{QUEUE}}}:last_seen", {f"{n:012x}": n for n in range(10_000)})
    await client.hset(f"{redis_prefix}{{{QUEUE}}}:signatures", mapping={f"{n:012x}": "1 x" for n in range(10_000)})
    for number in range(3):
        await world.ended("dead", {"failure": failure(signature=f"ffffffffff{number:02}")})
    assert await client.zcard(f"{redis_prefix}{{{QUEUE}}}:last_seen") == 10_000
    assert await client.hlen(f"{redis_prefix}{{{QUEUE}}}:signatures") == 10_000


async def test_attempts_are_bounded(world: World) -> None:
    job_id = await world.insert(max_retries=1000)
    for _ in range(55):
        await world.settle(await world.claim_job(job_id), "retrying", delay=0.0)
        await world.store.promote(1)
    attempts = await world.inspector.attempts(job_id)
    assert [attempt.number for attempt in attempts] == list(range(6, 56))


async def test_a_worker_leaves_no_keys_of_delivery(redis_url: str, redis_prefix: str, client: Redis) -> None:
    settings = JobsSettings(queue_backend="redis", redis=RedisSettings(url=redis_url, prefix=redis_prefix))
    async with JobQueue(settings=settings) as jobs:

        @jobs.task
        async def task(n: int) -> int:
            return n

        for _ in range(2):
            worker = Worker(jobs, lease="10s")
            running = asyncio.create_task(worker.run())
            handles = await task.enqueue_many([{"n": n} for n in range(50)])
            for handle in handles:
                await handle.result(60)
            worker.stop()
            await running
        left = await names(client, redis_prefix)
        kept = {"attempts", "by_type", "completed", "job", "event_seq", "generation", "waiters"}
        assert left <= LASTING | kept


async def test_cancelled_jobs_leave_no_offers(redis_url: str, redis_prefix: str, client: Redis) -> None:
    settings = JobsSettings(queue_backend="redis", redis=RedisSettings(url=redis_url, prefix=redis_prefix))
    async with JobQueue(settings=settings) as jobs:
        ready = [await jobs.enqueue("task") for _ in range(5)]
        later = [await jobs.enqueue("task", delay=60) for _ in range(5)]
        assert await client.zcard(f"{redis_prefix}{{default}}:offered") == 5
        await jobs.operations.change("cancel", [handle.id for handle in (*ready, *later)])
        assert await names(client, redis_prefix) & {"offered", "pending", "scheduled", "hinted"} == set()
