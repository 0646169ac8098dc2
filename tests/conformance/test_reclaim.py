"""Reclaim: move jobs whose lease expired to queued with one crash more, or bury them as poison at the third."""

import pytest

from queue_core.filters import Filter
from tests.conformance.making import LEASE, held, outcome
from tests.conformance.world import World


async def test_not_before_the_lease_is_over(world: World) -> None:
    await world.running()
    assert await world.store.reclaim(10) == []
    await world.advance(LEASE - 10)
    assert await world.store.reclaim(10) == []


async def test_the_job_is_ready_again(world: World) -> None:
    claim = await world.running(worker="lost-1", type="resize", queue="images")
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10)
    assert (reclaimed.id, reclaimed.queue, reclaimed.type) == (claim.id, "images", "resize")
    assert (reclaimed.token, reclaimed.worker, reclaimed.crashes) == (claim.token, "lost-1", 1)
    assert reclaimed.rank == claim.rank
    job = await world.job(claim.id)
    assert (job.status, job.crashes, job.retry_count, job.token) == ("queued", 1, 0, claim.token)
    assert (job.worker, job.lease_expires_at, job.started_at) == (None, None, None)
    assert await world.store.reclaim(10) == []


async def test_the_crash_is_an_attempt_of_its_own_kind(world: World) -> None:
    job_id = await world.crashed(1)
    (attempt,) = await world.inspector.attempts(job_id)
    assert (attempt.kind, attempt.exception, attempt.worker, attempt.number) == ("crashed", "WorkerLost", "lost-1", 1)
    assert "lost-1" in attempt.message
    job = await world.job(job_id)
    assert (job.failure_kind, job.crashes) == ("crashed", 1)
    assert "lost-1" in str(job.error)


async def test_crashes_are_counted_apart_from_retries(world: World) -> None:
    job_id = await world.crashed(2)
    claim = await world.claim_job(job_id)
    assert (claim.crashes, claim.retry_count) == (2, 0)
    await world.settle(claim, "retrying")
    job = await world.job(job_id)
    assert (job.crashes, job.retry_count) == (2, 1)
    assert [attempt.number for attempt in await world.inspector.attempts(job_id)] == [1, 2, 3]


async def test_the_third_crash_buries_it_as_poison(world: World) -> None:
    job_id = await world.insert()
    for number in range(1, 4):
        await world.claim_job(job_id, worker=f"lost-{number}")
        await world.advance(LEASE + 1)
        (reclaimed,) = await world.store.reclaim(10)
        assert (reclaimed.crashes, reclaimed.rank is None) == (number, number == 3)
    job = await world.job(job_id)
    assert (job.status, job.crashes, job.failure_kind) == ("dead", 3, "poison")
    assert "lost-3" in str(job.error)
    assert "WorkerLost" in str(job.error)
    assert [attempt.kind for attempt in await world.inspector.attempts(job_id)] == ["crashed", "crashed", "poison"]
    assert await world.claim() == []


async def test_poison_jobs_are_one_group_whoever_was_lost(world: World) -> None:
    ids = [await world.insert() for _ in range(2)]
    for number in range(6):
        await world.claim(1, ids=[ids[number % 2]], worker=f"lost-{number}")
        await world.advance(LEASE + 1)
        await world.store.reclaim(10)
    (group,) = await world.inspector.signatures(Filter(), window=3600, slices=4, limit=10)
    assert (group.count, group.signature) == (2, (await world.job(ids[0])).signature)
    assert "WorkerLost" in group.title
    assert "lost-" not in group.title


async def test_poison_that_is_retried_and_crashes_again_is_buried_at_once(world: World) -> None:
    job_id = await world.crashed(3)
    await world.inspector.retry([job_id])
    claim = await world.claim_job(job_id)
    assert claim.crashes == 3
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10)
    assert (reclaimed.crashes, reclaimed.rank) == (4, None)
    assert await world.status(job_id) == "dead"


async def test_poison_that_is_retried_can_complete(world: World) -> None:
    job_id = await world.crashed(3)
    await world.inspector.retry([job_id])
    assert (await world.settle(await world.claim_job(job_id), "completed")).accepted
    assert await world.status(job_id) == "completed"


async def test_a_worker_may_bury_as_poison_itself(world: World) -> None:
    """It knows that the process in which the job ran alone has died."""
    job_id = await world.crashed(2)
    claim = await world.claim_job(job_id)
    why = outcome(claim, "dead").failure
    assert why is not None
    await world.settle(claim, "dead", failure=why._replace(kind="poison"))
    job = await world.job(job_id)
    assert (job.status, job.crashes, job.failure_kind) == ("dead", 3, "poison")


async def test_a_paused_queue_gets_its_jobs_back(world: World) -> None:
    claim = await world.running()
    await world.inspector.pause(claim.queue)
    await world.advance(LEASE + 1)
    assert [reclaimed.id for reclaimed in await world.store.reclaim(10)] == [claim.id]
    assert await world.status(claim.id) == "queued"


async def test_progress_begins_again(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim, 80, "nearly"))
    await world.advance(LEASE + 1)
    await world.store.reclaim(10)
    assert (await world.job(claim.id)).progress == 0


@pytest.mark.parametrize("limit", [0, 1, 7])
async def test_no_more_than_the_limit(world: World, limit: int) -> None:
    ids = await world.insert_many(10)
    await world.claim(10)
    await world.advance(LEASE + 1)
    taken = await world.store.reclaim(limit)
    assert len(taken) == limit
    taken += await world.store.reclaim(100)
    assert sorted(reclaimed.id for reclaimed in taken) == sorted(ids)


async def test_many_at_once(world: World) -> None:
    ids = await world.insert_many(5000)
    await world.claim(5000)
    await world.advance(LEASE + 1)
    assert {reclaimed.id for reclaimed in await world.store.reclaim(5000)} == set(ids)
    assert await world.claim_ids(5000) == ids
