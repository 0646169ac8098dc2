"""Mode postgres+redis without its Redis: enqueue and work go on through PostgreSQL, and through Redis on its return."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest
import redis

from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue
from queue_core.model.job import Claim
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.migrate import migrate
from tests.conformance.working import working
from tests.waiting import PATIENCE, eventually

LIMIT = 0.5
"""Seconds that Redis is waited for."""


def full(servers: EmbeddedServers) -> None:
    with redis.Redis.from_url(servers.redis_url) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")


def with_room(servers: EmbeddedServers) -> None:
    with redis.Redis.from_url(servers.redis_url) as client:
        client.config_set("maxmemory", "0")


class Fault(NamedTuple):
    """How Redis goes, and how it comes back."""

    begin: Callable[[EmbeddedServers], Any]
    end: Callable[[EmbeddedServers], Any]


FAULTS = {
    "refused": Fault(lambda servers: servers.redis.stop(), lambda servers: servers.redis.start()),
    "hung": Fault(lambda servers: servers.redis.pause(), lambda servers: servers.redis.resume()),
    "full": Fault(full, with_room),
}


@pytest.fixture
async def jobs(own_servers: EmbeddedServers) -> AsyncIterator[JobQueue]:
    """A queue on servers that may be stopped, frozen and filled."""
    migrate(own_servers.postgres_url)
    settings = JobsSettings(
        queue_backend="redis",
        postgres=PostgresSettings.model_validate({"url": own_servers.postgres_url}),
        redis=RedisSettings.model_validate({"url": own_servers.redis_url, "timeout": LIMIT}),
    )
    async with JobQueue(settings=settings) as jobs:
        yield jobs


class Watch:
    """Counts runs, and the jobs that were claimed because Redis had nominated them."""

    def __init__(self, jobs: JobQueue) -> None:
        self.runs: Counter[int] = Counter()
        self.nominated = 0
        claim = jobs.store.claim

        async def watched(request: ClaimRequest) -> list[Claim]:
            claims = await claim(request)
            self.nominated += len(claims) if request.ids is not None else 0
            return claims

        jobs.store.claim = watched  # type: ignore[method-assign]

        @jobs.task
        async def work(n: int) -> None:
            self.runs[n] += 1

    async def until_done(self, count: int) -> None:
        assert await eventually(lambda: len(self.runs) >= count), self.runs


def said(caplog: pytest.LogCaptureFixture) -> tuple[int, int]:
    """Return how often Redis was said to be lost or full, and to be back."""
    lost = caplog.text.count("redis lost"), caplog.text.count("redis is full")
    return sum(lost), caplog.text.count("redis is back")


async def through_redis(jobs: JobQueue, watch: Watch, first: int) -> int:
    """Enqueue until a job comes through Redis again; return the number of the next job."""
    before = watch.nominated
    for n in range(first, first + 1000):
        await jobs.enqueue("work", {"n": n})
        await watch.until_done(n + 1)
        if watch.nominated > before:
            return n + 1
    raise AssertionError("Redis is not in use again")


@pytest.mark.parametrize("how", FAULTS)
async def test_without_redis_and_back(
    jobs: JobQueue, own_servers: EmbeddedServers, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    watch, loop = Watch(jobs), asyncio.get_running_loop()
    async with working(jobs):
        count = await through_redis(jobs, watch, 0)
        assert (await jobs.health()).degraded_since is None

        await asyncio.to_thread(FAULTS[how].begin, own_servers)
        since = set()
        for n in range(count, count + 8):
            began = loop.time()
            await asyncio.wait_for(jobs.enqueue("work", {"n": n}), PATIENCE)
            assert loop.time() - began < 10 * LIMIT, "the store's commit is all that an enqueue waits for"
            await watch.until_done(n + 1)
            health = await jobs.health()
            assert health.healthy
            since.add(health.degraded_since)
        count += 8
        assert await eventually(lambda: said(caplog)[0] > 0)
        assert len(since - {None}) <= 2, "it is lost since one moment, or since its second loss when it still answers"

        await asyncio.to_thread(FAULTS[how].end, own_servers)
        count = await through_redis(jobs, watch, count)

        async def healthy() -> bool:
            return (await jobs.health()).degraded_since is None

        assert await eventually(healthy)
    assert watch.runs == Counter(range(count)), "each ran once"
    lost, back = said(caplog)
    assert lost == back <= 2, caplog.text
    assert (await jobs.inspector.conservation()).completed == count


async def test_a_worker_starts_without_it(
    jobs: JobQueue, own_servers: EmbeddedServers, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(own_servers.redis.stop)
    watch = Watch(jobs)
    async with working(jobs):
        for n in range(5):
            await jobs.enqueue("work", {"n": n})
        await watch.until_done(5)
        assert watch.nominated == 0
        assert (await jobs.health()).degraded_since is not None
        await asyncio.to_thread(own_servers.redis.start)
        count = await through_redis(jobs, watch, 5)
    assert watch.runs == Counter(range(count))
    assert said(caplog) == (1, 1)


async def test_a_backlog_of_its_absence_comes_in_order(jobs: JobQueue, own_servers: EmbeddedServers) -> None:
    """Nobody nominated what was enqueued meanwhile: by rank, from the store, and each once."""
    await asyncio.to_thread(own_servers.redis.stop)
    order: list[int] = []

    @jobs.task
    async def work(n: int) -> None:
        order.append(n)

    await jobs.enqueue_many("work", [{"n": n} for n in range(200)])
    await jobs.enqueue("work", {"n": -1}, priority="high")
    async with working(jobs, concurrency=1):
        assert await eventually(lambda: len(order) > 20)
        await asyncio.to_thread(own_servers.redis.start)
        assert await eventually(lambda: len(order) >= 201)
    assert order == list(range(-1, 200))


async def test_a_process_that_only_asks_sees_that_it_is_full(jobs: JobQueue, own_servers: EmbeddedServers) -> None:
    assert (await jobs.health()).degraded_since is None
    await asyncio.to_thread(full, own_servers)
    async with JobQueue(settings=jobs.settings) as another:
        found = await another.health()
        assert found.healthy
        assert found.degraded_since is not None
        assert "memory" in found.reason
        assert (await another.health()).degraded_since == found.degraded_since
        await asyncio.to_thread(with_room, own_servers)

        async def whole() -> bool:
            return (await another.health()).degraded_since is None

        assert await eventually(whole)
