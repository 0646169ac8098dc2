"""Promote: move due scheduled and retrying jobs to queued."""

import pytest

from tests.conformance.making import LEASE, new_job
from tests.conformance.world import World


async def promoted(world: World, limit: int = 100) -> list[str]:
    return [ready.id for ready in await world.store.promote(limit)]


async def test_not_before_they_are_due(world: World) -> None:
    job_id = await world.insert(delay=60)
    assert await promoted(world) == []
    await world.advance(50)
    assert await promoted(world) == []
    assert await world.status(job_id) == "scheduled"
    await world.advance(11)
    assert await promoted(world) == [job_id]
    assert await world.status(job_id) == "queued"
    assert await promoted(world) == []


async def test_it_says_which_are_ready_now(world: World) -> None:
    (inserted,) = await world.store.insert([new_job(queue="images", priority=9, delay=5)])
    first = await world.insert(queue="images", priority=9)
    await world.advance(6)
    (ready,) = await world.store.promote(10)
    assert (ready.id, ready.queue) == (inserted.id, "images")
    claims = await world.claim(queue="images")
    assert [claim.id for claim in claims] == [inserted.id, first]
    assert claims[0].rank == ready.rank


async def test_retrying_jobs_too(world: World) -> None:
    claim = await world.ended("retrying")
    assert await promoted(world) == []
    await world.advance(LEASE + 1)
    assert await promoted(world) == [claim.id]
    job = await world.job(claim.id)
    assert (job.status, job.retry_count, job.token) == ("queued", 1, claim.token)


async def test_the_due_time_stays(world: World) -> None:
    job_id = await world.insert(delay=10)
    await world.advance(30)
    await promoted(world)
    job = await world.job(job_id)
    assert (job.updated_at - job.run_at).total_seconds() == pytest.approx(20, abs=5)


async def test_those_first_that_are_due_the_longest(world: World) -> None:
    ids = [await world.insert(delay=delay, priority=priority) for delay, priority in ((30, 20), (10, 0), (20, 5))]
    await world.advance(40)
    assert await promoted(world, 2) == [ids[2], ids[1]]  # by rank among themselves
    assert await promoted(world, 2) == [ids[0]]
    assert await promoted(world, 2) == []


async def test_of_all_queues_also_paused_ones(world: World) -> None:
    ids = {await world.insert(queue=f"q{number}", delay=5) for number in range(3)}
    await world.operations.pause("q1")
    await world.advance(6)
    assert set(await promoted(world)) == ids


async def test_finished_and_running_jobs_stay(world: World) -> None:
    for state in ("running", "completed", "cancelled", "dead", "trashed", "queued"):
        await world.job_in(state)
    await world.advance(LEASE - 10)
    assert await promoted(world) == []


async def test_next_due(world: World) -> None:
    assert await world.store.next_due() is None
    await world.insert()
    assert await world.store.next_due() is None
    await world.insert(delay=100)
    await world.insert(delay=50)
    soon = await world.store.next_due()
    assert soon is not None
    assert 45 < soon <= 50
    await world.advance(60)
    late = await world.store.next_due()
    assert late is not None
    assert late <= 0
    await promoted(world)
    later = await world.store.next_due()
    assert later is not None
    assert 30 < later <= 40


async def test_many_at_once(world: World) -> None:
    ids = await world.insert_many(5000, delay=5)
    await world.advance(6)
    assert await promoted(world, 5000) == ids
    assert await world.claim_ids(5000) == ids
