"""Reclaim: move jobs whose lease expired to queued with one loss more, or bury them as lost at their bound."""

import pytest

from queue_core.model.filters import Filter
from tests.conformance.making import LEASE, failure, held
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
    assert (reclaimed.token, reclaimed.worker, reclaimed.losses) == (claim.token, "lost-1", 1)
    assert reclaimed.rank == claim.rank
    job = await world.job(claim.id)
    assert (job.status, job.losses, job.retry_count, job.token) == ("queued", 1, 0, claim.token)
    assert (job.worker, job.lease_expires_at, job.started_at) == (None, None, None)
    assert await world.store.reclaim(10) == []


async def test_the_loss_is_an_attempt_of_its_own_kind(world: World) -> None:
    job_id = await world.lost(1)
    (attempt,) = await world.inspector.attempts(job_id)
    assert (attempt.kind, attempt.exception, attempt.worker, attempt.number) == ("lost", "WorkerLost", "lost-1", 1)
    assert "lost-1" in attempt.message
    job = await world.job(job_id)
    assert (job.failure_kind, job.losses, job.crashes) == ("lost", 1, 0)
    assert "lost-1" in str(job.error)


async def test_losses_are_counted_apart_from_retries_and_crashes(world: World) -> None:
    job_id = await world.lost(2)
    claim = await world.claim_job(job_id)
    assert (claim.losses, claim.crashes, claim.retry_count) == (2, 0, 0)
    await world.settle(claim, "retrying")
    job = await world.job(job_id)
    assert (job.losses, job.crashes, job.retry_count) == (2, 0, 1)
    assert [attempt.number for attempt in await world.inspector.attempts(job_id)] == [1, 2, 3]


@pytest.mark.parametrize("end", ["queued", "cancelled", "dead"])
async def test_the_number_of_a_loss_counts_all_attempts_before_it(world: World, end: str) -> None:
    job_id = (await world.ended("retrying", {"delay": 0.0})).id
    await world.store.promote(10)
    await world.claim_job(job_id)
    if end == "cancelled":
        await world.change("cancel", [job_id])
    await world.advance(LEASE + 1)
    await world.store.reclaim(10, 1 if end == "dead" else 3)
    assert await world.status(job_id) == end
    assert [(one.number, one.kind) for one in await world.inspector.attempts(job_id)] == [(1, "error"), (2, "lost")]


async def test_the_number_of_a_loss_counts_deaths_from_before_a_retry(world: World) -> None:
    claim = await world.ended("dead", {"failure": failure(kind="poison")})
    await world.change("retry", [claim.id])
    await world.claim_job(claim.id)
    await world.advance(LEASE + 1)
    await world.store.reclaim(10, 3)
    assert [(one.number, one.kind) for one in await world.inspector.attempts(claim.id)] == [(1, "poison"), (2, "lost")]


async def test_losses_that_nobody_saw_never_make_poison(world: World) -> None:
    """Twenty of them bury a job; nobody says that it was to blame."""
    job_id = await world.insert(max_retries=50)
    for number in range(1, 21):
        await world.claim_job(job_id, worker=f"lost-{number}")
        await world.advance(LEASE + 1)
        (reclaimed,) = await world.store.reclaim(10)
        assert (reclaimed.losses, reclaimed.rank is None) == (number, number == 20)
    job = await world.job(job_id)
    assert (job.status, job.losses, job.crashes, job.failure_kind) == ("dead", 20, 0, "lost")
    assert "lost-20" in str(job.error)
    assert "WorkerLost" in str(job.error)
    assert {attempt.kind for attempt in await world.inspector.attempts(job_id)} == {"lost"}
    assert await world.claim() == []


async def test_the_bound_of_losses_is_a_setting(world: World) -> None:
    job_id = await world.lost(2)
    await world.claim_job(job_id)
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10, 3)
    assert (reclaimed.losses, reclaimed.rank) == (3, None)
    assert (await world.job(job_id)).failure_kind == "lost"


async def test_lost_jobs_are_one_group_whoever_was_lost(world: World) -> None:
    ids = [await world.insert() for _ in range(2)]
    for number in range(6):
        await world.claim(1, ids=[ids[number % 2]], worker=f"lost-{number}")
        await world.advance(LEASE + 1)
        await world.store.reclaim(10, 3)
    (group,) = await world.inspector.signatures(Filter(), window=3600, slices=4, limit=10)
    assert (group.count, group.signature) == (2, (await world.job(ids[0])).signature)
    assert "WorkerLost" in group.title
    assert "lost-" not in group.title


async def test_losses_are_counted_anew_after_a_retry_by_an_operator(world: World) -> None:
    job_id = await world.lost(3)
    await world.change("retry", [job_id])
    claim = await world.claim_job(job_id)
    assert (claim.losses, claim.crashes) == (0, 0)
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10, 3)
    assert (reclaimed.losses, reclaimed.rank) == (1, claim.rank)
    assert await world.status(job_id) == "queued"


async def test_lost_jobs_that_are_retried_can_complete(world: World) -> None:
    job_id = await world.lost(3)
    await world.change("retry", [job_id])
    assert (await world.settle(await world.claim_job(job_id), "completed")).accepted
    job = await world.job(job_id)
    assert (job.status, job.losses) == ("completed", 0)


async def test_the_losses_of_a_completed_job_are_kept(world: World) -> None:
    job_id = await world.lost(2)
    await world.settle(await world.claim_job(job_id), "completed")
    assert (await world.job(job_id)).losses == 2


async def test_a_worker_that_saw_it_buries_as_poison(world: World) -> None:
    """It saw the process die in which the job ran alone. An operator's retry does not make that undone."""
    job_id = await world.lost(2)
    claim = await world.claim_job(job_id)
    await world.settle(claim, "dead", failure=failure(kind="poison"))
    job = await world.job(job_id)
    assert (job.status, job.crashes, job.losses, job.failure_kind) == ("dead", 1, 2, "poison")
    await world.change("retry", [job_id])
    claim = await world.claim_job(job_id)
    assert (claim.crashes, claim.losses) == (1, 0)


async def test_a_worker_may_count_a_loss_itself(world: World) -> None:
    """It gives the job back whose process ended for reasons that say nothing about the job."""
    job_id = await world.lost(1)
    claim = await world.claim_job(job_id)
    assert (await world.settle(claim, "released", failure=failure(kind="lost"))).rank == claim.rank
    job = await world.job(job_id)
    assert (job.status, job.losses, job.crashes, job.retry_count, job.failure_kind) == ("queued", 2, 0, 0, "lost")
    assert [attempt.number for attempt in await world.inspector.attempts(job_id)] == [1, 2]
    claim = await world.claim_job(job_id)
    await world.settle(claim, "dead", failure=failure(kind="lost"))
    job = await world.job(job_id)
    assert (job.status, job.losses, job.crashes, job.failure_kind) == ("dead", 3, 0, "lost")
    assert [attempt.number for attempt in await world.inspector.attempts(job_id)] == [1, 2, 3]


async def test_a_loss_that_its_worker_counts_is_cancelled_where_somebody_asked_for_it(world: World) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    assert (await world.settle(claim, "released", failure=failure(kind="lost"))).cancelled
    job = await world.job(claim.id)
    assert (job.status, job.losses, job.crashes) == ("cancelled", 1, 0)


async def test_a_paused_queue_gets_its_jobs_back(world: World) -> None:
    claim = await world.running()
    await world.operations.pause(claim.queue)
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


async def test_what_is_renewed_is_in_no_one_s_way(world: World) -> None:
    """However small the batches: jobs that run for long are not looked at before one that was lost behind them."""
    kept = [await world.running(worker="alive") for _ in range(3)]
    lost = await world.running(worker="gone")
    await world.advance(LEASE - 10)
    assert (await world.beat(*map(held, kept), worker="alive")).lost == ()
    await world.advance(20)
    assert [reclaimed.id for reclaimed in await world.store.reclaim(1)] == [lost.id]


async def test_many_at_once(world: World) -> None:
    ids = await world.insert_many(5000)
    await world.claim(5000)
    await world.advance(LEASE + 1)
    assert {reclaimed.id for reclaimed in await world.store.reclaim(5000)} == set(ids)
    assert await world.claim_ids(5000) == ids
