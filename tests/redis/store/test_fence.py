"""The tests of the fence can fail: with its clause taken out, a worker that woke up too late gets its way."""

from __future__ import annotations

import hashlib

import pytest

from queue_core.redis import scripts
from tests.conformance.making import LEASE
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
