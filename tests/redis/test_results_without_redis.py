"""Waiting for a result while Redis goes away and comes back: the store is looked at, at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from redis.asyncio import Redis

from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue
from queue_core.client import results
from queue_core.model.job import JobResult
from queue_core.stores.postgres.migrate import migrate
from tests.redis.test_traps_results import finish
from tests.waiting import PATIENCE, eventually

PACE = 0.2


@pytest.fixture
async def jobs(own_servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JobQueue]:
    """A queue on servers that may be stopped, whose waiters look into the store five times a second."""
    monkeypatch.setattr(results, "FIRST_READ_BACK", PACE)
    monkeypatch.setattr(results, "MAX_READ_BACK", PACE)
    migrate(own_servers.postgres_url)
    async with JobQueue(postgres=own_servers.postgres_url, redis=own_servers.redis_url) as jobs:
        await jobs.store.acquire_leadership("sweep", "test", 0)
        yield jobs


async def looks(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch, seconds: float) -> float:
    """Return how often a second the store is asked for results."""
    count = 0
    finals = jobs.store.results

    async def counted(ids: Sequence[str]) -> list[JobResult]:
        nonlocal count
        count += 1
        return await finals(ids)

    with monkeypatch.context() as patch:
        patch.setattr(jobs.store, "results", counted)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.sleep(seconds)
        return count / (loop.time() - started)


@pytest.mark.parametrize("how", ["stop", "pause"])
async def test_it_goes_on_without_redis_and_does_not_spin(
    jobs: JobQueue, own_servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    handles = [await jobs.enqueue("task") for _ in range(3)]
    waiting = [asyncio.create_task(handle.result(PATIENCE)) for handle in handles]
    assert await looks(jobs, monkeypatch, 1.0) <= 3 * 1.5 / PACE
    await asyncio.to_thread(getattr(own_servers.redis, how))
    late = asyncio.create_task(handles[0].result(PATIENCE))
    assert await looks(jobs, monkeypatch, 2.0) <= 4 * 1.5 / PACE
    await asyncio.wait_for(finish(jobs, handles[0], '"without"'), PATIENCE)
    assert await waiting[0] == "without"
    assert await late == "without"
    await asyncio.to_thread(own_servers.redis.start if how == "stop" else own_servers.redis.resume)
    assert await eventually(lambda: not jobs.bus._circuit.lost_since or finish_probe(jobs))  # type: ignore[attr-defined]
    await finish(jobs, handles[1], '"back"')
    assert await waiting[1] == "back"
    await finish(jobs, handles[2], '"again"')
    assert await waiting[2] == "again"


async def finish_probe(jobs: JobQueue) -> bool:
    """Let the circuit try the server."""
    await jobs.bus.publish([])
    assert jobs.dispatcher is not None
    try:
        await jobs.dispatcher.doubtful(["default"])
    except Exception:
        return False
    return True


async def test_no_subscription_is_left_of_a_wait_that_ended_without_redis(
    jobs: JobQueue, own_servers: EmbeddedServers
) -> None:
    """The client library subscribes again to all that it had when the connection was lost."""
    async with Redis.from_url(own_servers.redis_url, decode_responses=True) as client:

        async def subscribed() -> int:
            return len(await client.pubsub_channels("*:done"))

        handles = [await jobs.enqueue("task") for _ in range(3)]
        waiting = [asyncio.create_task(handle.result(PATIENCE)) for handle in handles]

        async def all_are() -> bool:
            return await subscribed() == 2 * len(handles)

        assert await eventually(all_are)
        await asyncio.to_thread(own_servers.redis.stop)
        for handle in handles:
            await finish(jobs, handle)
        assert await asyncio.gather(*waiting) == ["done"] * 3
        await asyncio.to_thread(own_servers.redis.start)

        async def is_heard_again() -> bool:
            async with jobs.bus.watch("one", "job"):
                return any("{one}" in name for name in await client.pubsub_channels("*:done"))

        async def none_is() -> bool:
            return await subscribed() == 0

        assert await eventually(is_heard_again)
        assert await eventually(none_is)
