"""Concurrency and rate: a queue gives out no more jobs than its rules allow, over all workers."""

from __future__ import annotations

import asyncio

import pytest

from queue_core.errors import QueueFull
from tests.conformance.conftest import Ruled
from tests.conformance.making import LEASE, outcome
from tests.conformance.world import World


async def test_no_more_run_than_its_concurrency(ruled: Ruled) -> None:
    world = await ruled(concurrency=3)
    jobs = await world.insert_many(5)
    assert await world.claim_ids(2) == jobs[:2]
    assert await world.claim_ids(worker="worker-2") == jobs[2:3]
    assert await world.claim_ids(worker="worker-3") == []


@pytest.mark.parametrize("kind", ["completed", "retrying", "dead", "cancelled", "released"])
async def test_an_end_makes_room(ruled: Ruled, kind: str) -> None:
    world = await ruled(concurrency=1)
    await world.insert_many(2)
    (claim,) = await world.claim()
    assert await world.claim() == []
    await world.settle(claim, kind)
    assert len(await world.claim()) == 1


async def test_a_lost_worker_makes_room(ruled: Ruled) -> None:
    world = await ruled(concurrency=1)
    await world.insert()
    await world.claim()
    await world.advance(LEASE + 5)
    await world.store.reclaim(10)
    assert len(await world.claim()) == 1


async def test_what_ran_and_waited_before_there_were_rules_counts(ruled: Ruled) -> None:
    plain = await ruled(queue="other")
    if plain.store.name == "memory":
        pytest.skip("no other program has it")
    for _ in range(2):
        await plain.running()
    await plain.insert(priority=10)
    world = await ruled(concurrency=3, band_limits={"high": 1})
    with pytest.raises(QueueFull):
        await world.insert(priority=10)
    await world.insert_many(3)
    assert len(await world.claim()) == 1


@pytest.mark.parametrize("nominated", [False, True])
async def test_where_more_run_than_may_by_now_none_begins(ruled: Ruled, nominated: bool) -> None:
    """The rule was changed, and programs that have the former one go on."""
    before = await ruled(concurrency=3)
    if before.store.name == "memory":
        pytest.skip("no other program has it")
    jobs = await before.insert_many(5)
    claims = await before.claim(3)
    world = await ruled(concurrency=1)
    for claim in claims:
        assert await world.claim_ids(ids=jobs[3:] if nominated else None) == []
        await world.settle(claim, "completed")
    assert await world.claim_ids(ids=jobs[3:] if nominated else None) == jobs[3:4]


@pytest.mark.parametrize("nominated", [False, True])
async def test_what_one_process_has_started_counts_for_another_that_has_counted_before(
    ruled: Ruled, nominated: bool
) -> None:
    world, other = await ruled(concurrency=2), await ruled(concurrency=2)
    jobs = await world.insert_many(3)
    assert await other.claim_ids(1, ids=jobs[:1] if nominated else None) == jobs[:1]
    assert await world.claim_ids(1, ids=jobs[1:2] if nominated else None) == jobs[1:2]
    assert await other.claim_ids(1, ids=jobs[2:] if nominated else None) == []


async def test_nominated_ones_are_limited_too(ruled: Ruled) -> None:
    world = await ruled(concurrency=1)
    jobs = await world.insert_many(3)
    assert await world.claim_ids(ids=jobs) == jobs[:1]
    assert await world.claim_ids(ids=jobs) == []


async def test_nothing_is_claimed_ahead(ruled: Ruled) -> None:
    world = await ruled(concurrency=5)
    jobs = await world.insert_many(5)
    assert await world.claim_ids(5, start_count=2) == jobs[:2]


async def test_other_queues_are_not_limited(ruled: Ruled) -> None:
    world = await ruled(concurrency=1, rate="1/s")
    jobs = await world.insert_many(3, queue="other")
    assert await world.claim_ids(queue="other") == jobs


async def test_workers_at_once_never_exceed_it(ruled: Ruled) -> None:
    worlds: list[World] = [await ruled(concurrency=3) for _ in range(4)]
    await worlds[0].insert_many(60)
    running = most = done = 0

    async def work(world: World, number: int) -> None:
        nonlocal running, most, done
        while done < 60:
            claims = await world.claim(2, worker=f"worker-{number}")
            running += len(claims)
            most = max(most, running)
            await asyncio.sleep(0)
            running -= len(claims)
            await world.store.settle([outcome(claim, "completed") for claim in claims])
            done += len(claims)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(world, number) for number, world in enumerate(worlds)))
    assert 1 < most <= 3


async def test_a_rate_lets_a_second_s_worth_start_and_then_as_time_goes_on(ruled: Ruled) -> None:
    world = await ruled(rate="2/h")
    await world.insert_many(10)
    # The burst is never less than one.
    assert len(await world.claim()) == 1
    assert await world.claim() == []
    await world.advance(1700)
    assert await world.claim() == []
    await world.advance(200)
    assert len(await world.claim()) == 1
    # What was not used is not saved up beyond the burst.
    await world.advance(36_000)
    assert len(await world.claim()) == 1


async def test_a_rate_goes_on_when_the_store_s_clock_was_set_back(ruled: Ruled) -> None:
    """Also by a failover to a server whose clock is behind."""
    world = await ruled(rate="2/h")
    await world.insert_many(10)
    assert len(await world.claim()) == 1
    await world.advance(-36_000)
    assert await world.claim() == []
    await world.advance(1900)
    assert len(await world.claim()) == 1


async def test_the_burst_of_a_rate_is_a_second_s_worth(ruled: Ruled) -> None:
    world = await ruled(rate="4/s")
    await world.insert_many(100)
    assert len(await world.claim(2)) == 2
    assert 2 <= len(await world.claim()) <= 60  # however slow this machine is
    await world.advance(3600)
    assert len(await world.claim(50)) == 4


async def test_a_claim_takes_no_more_of_a_rate_than_it_gives(ruled: Ruled) -> None:
    """However many jobs it asks for."""
    world = await ruled(rate="20/s")
    await world.insert()
    assert len(await world.claim(20)) == 1
    await world.insert_many(15)
    assert len(await world.claim(20)) == 15


async def test_half_of_a_rate_s_burst_may_be_claimed_ahead_of_its_start(ruled: Ruled) -> None:
    world = await ruled(rate="10/s")
    ids = await world.insert_many(100)
    claims = await world.claim(20, start_count=2)
    assert [claim.id for claim in claims] == ids[:5]
    await world.advance(LEASE + 1)
    # The loss of their worker is no loss of those that waited.
    reclaimed = {one.id: one.losses for one in await world.store.reclaim(100)}
    assert [reclaimed[claim.id] for claim in claims] == [1, 1, 0, 0, 0]
    assert len(await world.claim(50)) == 10
    await world.advance(3600)
    assert 8 <= len(await world.claim(50, start_count=8)) <= 10


async def test_rate_and_concurrency_hold_both(ruled: Ruled) -> None:
    world = await ruled(rate="3/s", concurrency=2)
    await world.insert_many(10)
    claims = await world.claim()
    assert len(claims) == 2
    await world.settle(claims[0], "completed")
    assert len(await world.claim()) == 1


async def test_a_paused_queue_gives_nothing(ruled: Ruled) -> None:
    world = await ruled(rate="3/s", concurrency=2)
    await world.insert_many(10)
    await world.operations.pause("work")
    assert await world.claim() == []
    await world.operations.resume("work")
    assert len(await world.claim()) == 2
