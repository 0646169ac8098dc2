"""Backpressure: a queue at its limit refuses new jobs, exactly, whole lists at a time, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queue_core.errors import QueueFull
from queue_core.model.rules import QueueRules
from tests.conformance.conftest import Ruled
from tests.conformance.making import LEASE, QUEUE, new_job
from tests.conformance.modes import Opener
from tests.conformance.world import World


async def test_it_is_full_at_its_limit(ruled: Ruled) -> None:
    world = await ruled(limit=3)
    await world.insert_many(3)
    with pytest.raises(QueueFull) as caught:
        await world.insert()
    error = caught.value
    assert (error.queue, error.limit, error.retry_after, error.band) == (QUEUE, 3, 60.0, "")
    assert len(await world.claim_ids()) == 3


async def test_it_says_when_to_try_again(ruled: Ruled) -> None:
    world = await ruled(limit=0, retry_after="5s")
    with pytest.raises(QueueFull, match="full") as caught:
        await world.insert()
    assert caught.value.retry_after == 5.0


async def test_a_list_goes_in_whole_or_not_at_all(ruled: Ruled) -> None:
    world = await ruled(limit=5)
    await world.insert_many(3)
    with pytest.raises(QueueFull):
        await world.insert_many(3)
    await world.insert_many(2)
    assert len(await world.claim_ids()) == 5


@pytest.mark.parametrize("state", ["scheduled", "queued", "retrying"])
async def test_waiting_jobs_count(ruled: Ruled, state: str) -> None:
    world = await ruled(limit=2)
    await world.insert(delay=3600)
    await world.job_in(state)
    with pytest.raises(QueueFull):
        await world.insert()


@pytest.mark.parametrize(("priority", "band"), [(20, "high"), (10, "high"), (9, "normal"), (5, "normal"), (4, "low")])
async def test_what_waited_before_there_were_limits_counts_in_its_band(ruled: Ruled, priority: int, band: str) -> None:
    before = await ruled()
    for waiting in (20, 10, 9, 5, 4, 0):
        await before.insert(priority=waiting)
    world = await ruled(band_limits={"high": 3, "normal": 3, "low": 3})
    await world.insert(priority=priority)
    with pytest.raises(QueueFull) as caught:
        await world.insert(priority=priority)
    assert caught.value.band == band


@pytest.mark.parametrize("state", ["scheduled", "queued", "retrying"])
async def test_what_waited_before_there_was_a_limit_counts(ruled: Ruled, state: str) -> None:
    await (await ruled()).job_in(state)
    world = await ruled(limit=1)
    with pytest.raises(QueueFull):
        await world.insert()


@pytest.mark.parametrize("state", ["running", "completed", "cancelled", "dead", "trashed"])
async def test_others_do_not(ruled: Ruled, state: str) -> None:
    world = await ruled(limit=1)
    await world.job_in(state)
    assert await world.status(await world.insert()) == "queued"
    with pytest.raises(QueueFull):
        await world.insert()


async def test_jobs_that_wait_for_their_ordering_key_count(ruled: Ruled) -> None:
    world = await ruled(limit=2)
    await world.insert_many(2, ordering_key="k")
    with pytest.raises(QueueFull):
        await world.insert()


async def test_there_is_room_again_as_soon_as_jobs_are_claimed(ruled: Ruled) -> None:
    world = await ruled(limit=2)
    await world.insert_many(2)
    await world.claim(1)
    await world.insert()
    with pytest.raises(QueueFull):
        await world.insert()


@pytest.mark.parametrize("state", ["scheduled", "queued", "retrying"])
async def test_there_is_room_again_when_jobs_are_cancelled(ruled: Ruled, state: str) -> None:
    world = await ruled(limit=2)
    await world.change("cancel", [await world.job_in(state)])
    first, _ = await world.insert_many(2)
    await world.change("cancel", [first])
    await world.insert()
    with pytest.raises(QueueFull):
        await world.insert()


async def test_what_goes_back_may_exceed_it_and_counts(ruled: Ruled) -> None:
    world = await ruled(limit=4)
    claims = [await world.running() for _ in range(4)]
    await world.insert_many(2)
    await world.settle(claims[0], "released")
    await world.settle(claims[1], "retrying")
    with pytest.raises(QueueFull):
        await world.insert()
    await world.settle(claims[2], "released")
    await world.advance(LEASE + 5)
    assert len(await world.store.reclaim(10)) == 1
    with pytest.raises(QueueFull):
        await world.insert()
    assert len(await world.claim_ids(ids=None)) == 5


@pytest.mark.parametrize("end", ["buried", "cancelled"])
async def test_what_ends_with_its_worker_takes_no_room(ruled: Ruled, end: str) -> None:
    world = await ruled(limit=2)
    claims = [await world.running() for _ in range(2)]
    if end == "cancelled":
        await world.change("cancel", [claim.id for claim in claims])
    await world.advance(LEASE + 5)
    assert [job.rank for job in await world.store.reclaim(10, 1 if end == "buried" else 3)] == [None, None]
    await world.insert_many(2)
    with pytest.raises(QueueFull):
        await world.insert()


@pytest.mark.parametrize("rules", [{"limit": 5}, {"band_limits": {"normal": 5}}], ids=["queue", "band"])
@pytest.mark.parametrize("how", ["released", "retrying", "lost"])
async def test_what_goes_back_takes_the_room_that_is_known_to_be_free(
    ruled: Ruled, how: str, rules: dict[str, Any]
) -> None:
    """What waits was counted while they ran, less than a minute ago."""
    world = await ruled(**rules)
    claims = [await world.running(lease=20.0) for _ in range(4)]
    await world.insert_many(5)
    assert len(await world.claim_ids(2, lease=20.0)) == 2
    await world.insert()  # the count says that one more has room
    if how == "lost":
        await world.advance(25.0)
        assert len(await world.store.reclaim(10)) == 6
    else:
        await world.settle(claims[0], how)
    await world.upkeep()
    with pytest.raises(QueueFull):
        await world.insert()


@pytest.mark.parametrize("how", ["scheduled", "retrying"])
async def test_what_was_put_off_takes_one_place_also_when_it_is_due(ruled: Ruled, how: str) -> None:
    world = await ruled(limit=3)
    job_id = await world.job_in(how, **({"delay": LEASE} if how == "scheduled" else {}))
    await world.insert()
    await world.advance(LEASE + 5)
    assert [ready.id for ready in await world.store.promote(10)] == [job_id]
    await world.insert()
    with pytest.raises(QueueFull):
        await world.insert()


async def test_jobs_of_one_unique_key_in_a_list_need_room_for_one(ruled: Ruled) -> None:
    world = await ruled(limit=1)
    written = await world.store.insert([new_job(unique_key="k") for _ in range(3)])
    assert [one.created for one in written] == [True, False, False]


async def test_one_job_twice_in_a_list_needs_room_for_one(ruled: Ruled) -> None:
    world = await ruled(limit=1)
    job = new_job()
    written = await world.store.insert([job, job])
    assert [one.id for one in written] == [job.id, job.id]


async def test_an_operator_s_retry_may_exceed_it_and_counts(ruled: Ruled) -> None:
    world = await ruled(limit=1)
    dead = await world.ended("dead")
    await world.insert()
    assert (await world.change("retry", [dead.id])).ids == (dead.id,)
    await world.claim(1)
    with pytest.raises(QueueFull):
        await world.insert()


async def test_bands_have_limits_of_their_own(ruled: Ruled) -> None:
    world = await ruled(limit=4, band_limits={"high": 1, "normal": 2})
    await world.insert(priority=10)
    with pytest.raises(QueueFull) as caught:
        await world.insert(priority=20)
    assert (caught.value.limit, caught.value.band) == (1, "high")
    await world.insert_many(2, priority=9)
    with pytest.raises(QueueFull) as caught:
        await world.insert(priority=5)
    assert (caught.value.limit, caught.value.band) == (2, "normal")
    await world.insert(priority=4)
    with pytest.raises(QueueFull) as caught:
        await world.insert(priority=0)
    assert (caught.value.limit, caught.value.band) == (4, "")


async def test_a_list_is_counted_by_band(ruled: Ruled) -> None:
    world = await ruled(band_limits={"low": 1})
    with pytest.raises(QueueFull):
        await world.store.insert([new_job(priority=10), new_job(priority=0), new_job(priority=1)])
    assert await world.claim_ids() == []
    await world.store.insert([new_job(priority=10), new_job(priority=0)])


async def test_what_others_have_added_counts_a_minute_later(ruled: Ruled) -> None:
    """Programs that do not know of the limit: what was free for those that do was counted before."""
    world, other = await ruled(limit=3), await ruled(queue="other")
    if world.store.name == "memory":
        pytest.skip("no other program has it")
    await world.insert()
    await other.insert_many(2)
    await world.advance(61)
    with pytest.raises(QueueFull):
        await world.insert()


async def test_that_of_the_whole_queue_is_named_where_a_band_is_full_too(ruled: Ruled) -> None:
    world = await ruled(limit=1, band_limits={"high": 1})
    await world.insert(priority=10)
    with pytest.raises(QueueFull) as caught:
        await world.insert(priority=10)
    assert (caught.value.limit, caught.value.band) == (1, "")


@pytest.mark.parametrize("full", ["first", "second"])
async def test_a_list_for_several_queues_with_limits_needs_room_in_each(opener: Opener, full: str) -> None:
    world = await opener({"first": QueueRules(limit=2), "second": QueueRules(limit=2)})
    try:
        await world.insert_many(2, queue=full)
        for order in (("first", "second"), ("second", "first")):
            with pytest.raises(QueueFull) as caught:
                await world.store.insert([new_job(queue=queue) for queue in order])
            assert caught.value.queue == full
        assert (await world.inspector.conservation()).unfinished == 2
    finally:
        await world.close()


async def test_what_is_there_already_does_not_count(ruled: Ruled) -> None:
    world = await ruled(limit=2)
    known = new_job()
    await world.store.insert([known, new_job(unique_key="k")])
    again = await world.store.insert([known, new_job(unique_key="k")])
    assert [one.created for one in again] == [False, False]


async def test_other_queues_have_none(ruled: Ruled) -> None:
    world = await ruled(limit=0)
    jobs = await world.insert_many(5, queue="other")
    assert await world.claim_ids(queue="other") == jobs


async def test_producers_at_once_never_exceed_it(ruled: Ruled) -> None:
    worlds: list[World] = [await ruled(limit=50, band_limits={"high": 20}) for _ in range(4)]

    async def produce(world: World, priority: int) -> int:
        written = 0
        for size in (3, 1, 2, 5, 1) * 4:
            try:
                written += len(await world.insert_many(size, priority=priority))
            except QueueFull:
                await asyncio.sleep(0)
        return written

    written = await asyncio.gather(*(produce(world, priority) for world in worlds for priority in (5, 10)))
    claims = await worlds[0].claim(1000)
    assert len(claims) == sum(written) == 50
    assert sum(claim.priority == 10 for claim in claims) <= 20


async def test_a_band_over_its_limit_keeps_no_other_out(ruled: Ruled) -> None:
    world = await ruled(band_limits={"high": 1})
    claim = await world.running(priority=10)
    await world.insert(priority=10)
    await world.settle(claim, "released")
    for _ in range(2):
        await world.insert(priority=5)
        with pytest.raises(QueueFull):
            await world.insert(priority=10)
        await world.advance(61)  # what is free is counted again
