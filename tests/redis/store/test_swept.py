"""What a sweep has seen may change before its script runs: then that job is left as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.redis.scripts import Call
from queue_core.stores.redis import settle, upkeep
from tests.conformance.making import LEASE, QUEUE, UNKNOWN, held
from tests.conformance.world import World

Sweep = Callable[[], Awaitable[Any]]
"""What another leader does, who has seen the same."""
Meanwhile = Callable[[Callable[[Sweep], Awaitable[Any]]], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Lets something happen once, between the look of the next sweep and its script."""
    run = settle._run

    def prepare(happen: Callable[[Sweep], Awaitable[Any]]) -> None:
        async def later(*given: Any) -> Any:
            monkeypatch.setattr(settle, "_run", run)
            await happen(lambda: run(*given))
            return await run(*given)

        monkeypatch.setattr(settle, "_run", later)

    return prepare


async def test_a_lease_that_is_renewed_meanwhile_is_kept(world: World, meanwhile: Meanwhile) -> None:
    claim = await world.running()
    await world.advance(LEASE + 1)
    meanwhile(lambda _: world.beat(held(claim)))
    assert await world.store.reclaim(10) == []
    assert (await world.settle(claim, "completed")).accepted


async def test_a_job_that_is_claimed_again_meanwhile_keeps_its_lease(world: World, meanwhile: Meanwhile) -> None:
    first = await world.running()
    await world.advance(LEASE + 1)

    async def again(other: Sweep) -> None:
        await other()
        await world.claim_job(first.id)

    meanwhile(again)
    assert await world.store.reclaim(10) == []
    assert await world.status(first.id) == "running"


async def test_a_job_that_is_put_off_meanwhile_waits(world: World, meanwhile: Meanwhile) -> None:
    first = await world.ended("retrying", {"delay": 0.0})

    async def again(other: Sweep) -> None:
        await other()
        await world.settle(await world.claim_job(first.id), "retrying", delay=1000.0)

    meanwhile(again)
    assert await world.store.promote(10) == []
    assert await world.status(first.id) == "retrying"


async def test_a_job_that_another_worker_has_claimed_meanwhile_is_not_written_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last outcome of the worker that is gone was executed late."""
    first = await world.running(worker="gone")
    link: Any = world.store._link  # type: ignore[attr-defined]
    run_many = link.run_many

    async def later(calls: Any, *rest: Any) -> Any:
        if calls[0].name == "end_leases":
            monkeypatch.setattr(link, "run_many", run_many)
            assert (await world.settle(first, "released")).accepted
            await world.claim_job(first.id, worker="other")
        return await run_many(calls, *rest)

    monkeypatch.setattr(link, "run_many", later)
    await world.store.write_off(["gone"], "")
    assert await world.store.reclaim(10) == []
    assert (await world.job(first.id)).worker == "other"


@pytest.mark.parametrize("name", ["scheduled", "retrying"])
async def test_an_entry_without_its_job_is_not_due_for_ever(
    world: World, client: Redis, redis_prefix: str, name: str
) -> None:
    """As another program, or a copy of a part of the keys, may leave it."""
    ended = await world.ended("completed")
    place = f"{redis_prefix}{{{QUEUE}}}:{name}"
    await client.zadd(place, {UNKNOWN: 1, ended.id: 2})
    store: Any = world.store
    await store.next_work()
    assert await store.promote(10) == []
    assert await client.zcard(place) == 0
    assert await world.status(ended.id) == "completed"


async def test_the_sets_of_each_queue_are_compared_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "SETS_AT_ONCE", 2)
    asked: list[list[str]] = []

    class Link:
        def of(self, queue: str, _names: Sequence[str]) -> list[str]:
            return [queue]

        async def run_many(self, calls: Sequence[Call]) -> list[int]:
            asked.append([call.keys[0] for call in calls])
            return [1] * len(calls)

    sets = upkeep.StateSets(Link(), {})  # type: ignore[arg-type]
    for _ in range(3):
        await sets.run(["a", "b", "c"])
    assert asked == [["a", "b"], ["c", "a"], ["b", "c"]]
