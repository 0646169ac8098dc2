"""Aging: waiting counts like priority, which bounds the longest wait."""

from __future__ import annotations

from tests.conformance.conftest import Ruled
from tests.conformance.making import LEASE

STEP = 10.0
"""Seconds of waiting that count like one step of priority."""


async def test_a_job_is_overtaken_only_for_so_long(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    low = await world.insert(priority=0)
    # Ten steps: for a hundred seconds what comes with priority 10 goes first, and not a second longer.
    early = await world.insert(priority=10)
    await world.advance(10 * STEP - 20)
    in_time = await world.insert(priority=10)
    await world.advance(40)
    late = await world.insert(priority=10)
    assert await world.claim_ids() == [early, in_time, low, late]


async def test_the_longest_wait_under_a_stream_of_urgent_jobs(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    low = await world.insert(priority=0)
    waited = 0.0
    while True:
        await world.insert_many(2, priority=20)
        (claim,) = await world.claim(1)
        if claim.id == low:
            break
        await world.advance(STEP)
        waited += STEP
    # As many arrive before its time as may overtake it; one is claimed each step, and two come.
    assert waited <= 2 * (20 * STEP + STEP) + STEP


async def test_a_time_in_the_past_is_no_wait(ruled: Ruled) -> None:
    """What is due before it comes has waited for nothing yet."""
    world = await ruled(aging=STEP)
    low = await world.insert(priority=0, run_at=await world.now() - 3600)
    high = await world.insert(priority=1)
    assert await world.claim_ids() == [high, low]


async def test_strict_without_it(ruled: Ruled) -> None:
    world = await ruled()
    low = await world.insert(priority=0)
    await world.advance(3600)
    high = await world.insert(priority=1)
    assert await world.claim_ids() == [high, low]


async def test_first_in_first_out_within_a_priority(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    jobs = await world.insert_many(50) + await world.insert_many(50) + [await world.insert() for _ in range(5)]
    assert await world.claim_ids(1000) == jobs


async def test_priorities_at_the_same_time(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    low, high, middle = [await world.insert(priority=priority) for priority in (-128, 127, 5)]
    assert await world.claim_ids() == [high, middle, low]


async def test_a_delayed_job_begins_to_wait_when_it_is_due(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    delayed = await world.insert(priority=1, delay=LEASE)
    await world.advance(LEASE + 1)
    await world.store.promote(10)
    higher = await world.insert(priority=2)
    assert await world.claim_ids() == [higher, delayed]


async def test_a_job_that_was_due_before_it_was_enqueued_has_not_waited(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    low = await world.insert(priority=0, run_at=await world.now() - 3600)
    high = await world.insert(priority=10)
    assert await world.claim_ids() == [high, low]


async def test_retries_and_releases_keep_the_place(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    first, second = await world.insert(), await world.insert()
    claims = await world.claim()
    third = await world.insert()
    settled = await world.settle(claims[1], "released")
    assert settled.rank == claims[1].rank
    await world.settle(claims[0], "retrying")
    # In stores that ask their own clock this moves ranks, too: only their order can be compared then.
    await world.advance(LEASE + 5)
    assert [ready.id for ready in await world.store.promote(10)] == [first]
    assert await world.claim_ids() == [first, second, third]


async def test_who_was_lost_with_a_worker_keeps_the_place_to_its_end(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    first = await world.insert(priority=0)
    await world.claim_job(first)
    await world.advance(LEASE + 1)
    assert [lost.id for lost in await world.store.reclaim(10, 3)] == [first]
    await world.settle(await world.claim_job(first), "retrying", delay=0.0)
    await world.advance(15 * STEP)
    assert [ready.id for ready in await world.store.promote(10)] == [first]
    second = await world.insert(priority=10)
    assert await world.claim_ids() == [first, second]


async def test_what_is_rescheduled_arrives_anew(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    claim = await world.claim_job(await world.insert())
    await world.advance(1)
    other = await world.insert()
    await world.settle(claim, "released", to_back=True)
    assert await world.claim_ids() == [other, claim.id]


async def test_what_is_rescheduled_for_later_begins_to_wait_when_it_is_due(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    claim = await world.claim_job(await world.insert(priority=1))
    await world.settle(claim, "released", to_back=True, delay=LEASE)
    await world.advance(LEASE + 1)
    await world.store.promote(10)
    higher = await world.insert(priority=2)
    assert await world.claim_ids() == [higher, claim.id]


async def test_an_operator_s_retry_arrives_anew(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    dead = await world.ended("dead")
    other = await world.insert()
    await world.change("retry", [dead.id])
    assert await world.claim_ids() == [other, dead.id]


async def test_the_order_is_that_of_ranks(ruled: Ruled) -> None:
    world = await ruled(aging=STEP)
    await world.insert_many(3)
    ready = await world.store.list_ready("work", 0, 10)
    claims = await world.claim()
    assert [one.rank for one in ready] == [claim.rank for claim in claims] == sorted({claim.rank for claim in claims})
    assert all(0 < claim.rank < 2**53 for claim in claims)


async def test_a_job_that_is_put_off_does_not_age_those_that_come_after_it(ruled: Ruled) -> None:
    world = await ruled(aging=60.0)
    low = await world.insert(priority=4)
    await world.insert(priority=5, delay=3600)
    normal = await world.insert(priority=5)
    assert await world.claim_ids() == [normal, low]
