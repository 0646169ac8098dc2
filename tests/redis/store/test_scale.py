"""No script gets slow with what it does not touch: a million jobs beside those of a batch cost next to nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.model.settings import RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.redis.store import RedisStore
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job, outcome
from tests.conftest import StartServers

FEW, MANY = 10_000, 1_000_000
BATCH = 100
ROUNDS = 15
SLOWER = 10.0
"""The most that a hundred times as many members may cost: sorted sets grow by a third, caches miss more often (2 to 4
times in all). What is read one by one takes a hundred times as long."""

FILL = (Path(__file__).parent / "fill.lua").read_text(encoding="utf-8")
NAMES = ("pending", "scheduled", "running", "completed", "unfinished", f"by_type:{TYPE}")


@pytest.fixture
async def filled(start_servers: StartServers) -> tuple[RedisSettings, Callable[[int, int], Awaitable[None]]]:
    """A server of the test's own, and what fills its sets with members that no hash belongs to."""
    servers = start_servers()
    settings = RedisSettings.model_validate({"url": servers.redis_url, "prefix": "jobs", "timeout": 60})
    keys = [f"jobs:{{{QUEUE}}}:{name}" for name in NAMES]

    async def fill(start: int, end: int) -> None:
        async with Redis.from_url(servers.redis_url) as client:
            for at in range(start, end, 20_000):
                await client.eval(FILL, len(keys), *keys, at, min(20_000, end - at))

    return settings, fill


async def quickest(store: RedisStore) -> dict[str, float]:
    """Return the shortest time of each verb; what else the machine does makes others longer."""
    times: dict[str, float] = {}

    async def timed(verb: str, work: Awaitable[Any]) -> Any:
        began = time.perf_counter()
        answer = await work
        times[verb] = min(times.get(verb, 60.0), time.perf_counter() - began)
        return answer

    for _ in range(ROUNDS):
        jobs = [new_job(priority=9) for _ in range(BATCH)]
        await timed("insert", store.insert(jobs))
        request = ClaimRequest(QUEUE, "w", (TYPE,), BATCH, LEASE, [job.id for job in jobs])
        claims = await timed("claim", store.claim(request))
        assert len(claims) == BATCH
        kinds = ("completed", "retrying", "dead", "released")
        outcomes = [outcome(claim, kinds[n % 4], delay=0.0) for n, claim in enumerate(claims)]
        answers = await timed("settle", store.settle(outcomes))
        assert all(answer.accepted for answer in answers)
        assert len(await timed("promote", store.promote(BATCH))) == BATCH // 4
        claims = await timed("claim by rank", store.claim(request._replace(ids=None, limit=BATCH // 2)))
        assert len(claims) == BATCH // 2
        await store.settle([outcome(claim, "cancelled") for claim in claims])
        assert await timed("reclaim", store.reclaim(BATCH)) == []
        await timed("next due", store.next_due())
    return times


@pytest.mark.timeout(300)
async def test_a_million_beside_them(filled: tuple[RedisSettings, Callable[[int, int], Awaitable[None]]]) -> None:
    settings, fill = filled
    store = RedisStore(settings)
    await store.open()
    await fill(0, FEW)
    few = await quickest(store)
    await fill(FEW, MANY)
    many = await quickest(store)
    slower = {verb: round(many[verb] / few[verb], 2) for verb in few}
    assert all(ratio < SLOWER for ratio in slower.values()), slower
    await store.close()
