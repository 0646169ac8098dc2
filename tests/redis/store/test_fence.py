"""The tests of the fence can fail: with its clause taken out, a worker that woke up too late gets its way."""

from __future__ import annotations

import hashlib

import pytest
from redis.asyncio import Redis

from queue_core.redis import scripts
from tests.conformance.making import LEASE, QUEUE
from tests.conformance.world import World

CLAUSE = "status == 'running' and held == token"


@pytest.fixture
def without_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts that do not ask for the token."""
    whole = scripts.source

    def source(package: str, name: str) -> str:
        return whole(package, name).replace(CLAUSE, "status == 'running'")

    def digest(package: str, name: str) -> str:
        return hashlib.sha1(source(package, name).encode(), usedforsecurity=False).hexdigest()

    assert CLAUSE in whole("queue_core.stores.redis", "finish")
    monkeypatch.setattr(scripts, "source", source)
    monkeypatch.setattr(scripts, "digest", digest)


async def zombie(world: World) -> bool:
    """Return whether a worker that had been taken for lost may end a job that another one runs."""
    asleep = await world.running(worker="asleep")
    await world.advance(LEASE + 1)
    await world.store.reclaim(10)
    await world.claim_job(asleep.id, worker="awake")
    return (await world.settle(asleep, "completed")).accepted


async def test_a_zombie_is_refused(world: World) -> None:
    assert not await zombie(world)


@pytest.mark.usefixtures("without_fence")
async def test_without_the_fence_it_is_not(world: World) -> None:
    assert await zombie(world)


async def test_tokens_rise_though_the_clock_of_another_server_was_ahead(
    world: World, client: Redis, redis_prefix: str
) -> None:
    """Behind a failover: who lets in only what has a greater token would refuse the job for as long as that."""
    claim = await world.ended("dead")
    ahead = claim.token + 3600 * 10**9
    await client.hset(f"{redis_prefix}{{{QUEUE}}}:job:{claim.id}", "token", ahead)  # type: ignore[misc]
    await world.change("retry", [claim.id])
    renewed = (await world.job(claim.id)).token
    assert renewed > ahead
    assert (await world.claim_job(claim.id)).token > renewed
