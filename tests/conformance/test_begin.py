"""Jobs that a worker claimed ahead: until they have begun, its loss is no crash of theirs."""

import pytest

from queue_core.ports.store import ClaimRequest, LeaseRenewal
from tests.conformance.making import LEASE, QUEUE, TYPE, held
from tests.conformance.world import World


async def claim_two(world: World, begin: int | None) -> tuple[str, str]:
    ids = (await world.insert(), await world.insert())
    claims = await world.store.claim(ClaimRequest(QUEUE, "worker-1", (TYPE,), 10, LEASE, start_count=begin))
    assert tuple(claim.id for claim in claims) == ids
    return ids


async def test_only_those_that_began_are_blamed(world: World) -> None:
    first, second = await claim_two(world, begin=1)
    await world.advance(LEASE + 1)
    lost = {job.id: job for job in await world.store.reclaim(10)}
    assert (lost[first].losses, lost[first].started) == (1, True)
    assert (lost[second].losses, lost[second].started) == (0, False)
    job = await world.job(second)
    assert (job.status, job.losses, job.error) == ("queued", 0, None)
    assert await world.inspector.attempts(second) == []
    assert lost[second].rank is not None
    outcomes = {tally.outcome: tally.count for tally in await world.inspector.tallies()}
    assert outcomes == {"enqueued": 2, "crashed": 1, "released": 1}


async def test_all_begin_unless_it_is_said(world: World) -> None:
    await claim_two(world, begin=None)
    await world.advance(LEASE + 1)
    assert [job.losses for job in await world.store.reclaim(10)] == [1, 1]


async def test_of_jobs_that_are_named_only_the_first_begin(world: World) -> None:
    ids = await world.insert_many(3)
    await world.claim(ids=ids, start_count=1)
    await world.advance(LEASE + 1)
    lost = {job.id: (job.losses, job.started) for job in await world.store.reclaim(10)}
    assert lost == {ids[0]: (1, True), ids[1]: (0, False), ids[2]: (0, False)}


async def test_that_it_had_not_begun_is_not_held_in_favour_of_the_next_attempt(world: World) -> None:
    job_id = await world.insert()
    await world.claim_job(job_id, start_count=0)
    await world.advance(LEASE + 1)
    assert [job.losses for job in await world.store.reclaim(10)] == [0]
    await world.claim_job(job_id)
    await world.advance(LEASE + 1)
    assert [(job.losses, job.started) for job in await world.store.reclaim(10)] == [(1, True)]


async def test_a_heartbeat_tells_that_a_job_has_begun(world: World) -> None:
    ids = [await world.insert(), await world.insert()]
    claims = await world.store.claim(ClaimRequest(QUEUE, "worker-1", (TYPE,), 10, LEASE, start_count=0))
    await world.beat(held(claims[0]), held(claims[1])._replace(started=False), worker="worker-1", lease=LEASE)
    # Once begun it stays so, whatever a later heartbeat says.
    await world.beat(held(claims[0])._replace(started=False), worker="worker-1", lease=LEASE)
    await world.advance(LEASE + 1)
    lost = {job.id: job.losses for job in await world.store.reclaim(10)}
    assert lost == {ids[0]: 1, ids[1]: 0}


async def test_a_heartbeat_with_progress_tells_it_too(world: World) -> None:
    job_id = await world.insert()
    (claim,) = await world.store.claim(ClaimRequest(QUEUE, "worker-1", (TYPE,), 10, LEASE, start_count=0))
    await world.beat(held(claim, 10), worker="worker-1", lease=LEASE)
    await world.beat(held(claim, 20)._replace(started=False), worker="worker-1", lease=LEASE)
    await world.advance(LEASE + 1)
    assert [(job.id, job.losses) for job in await world.store.reclaim(10)] == [(job_id, 1)]


async def test_never_begun_is_never_lost(world: World) -> None:
    job_id = await world.insert()
    for _ in range(5):
        await world.store.claim(ClaimRequest(QUEUE, "worker-1", (TYPE,), 10, LEASE, start_count=0))
        await world.advance(LEASE + 1)
        assert [job.id for job in await world.store.reclaim(10, 3)] == [job_id]
    assert (await world.job(job_id)).status == "queued"
    assert (await world.inspector.conservation()).unfinished == 1


@pytest.mark.parametrize("bound", [1, 2, 3])
async def test_what_has_not_begun_is_not_buried_however_often_it_was_lost_before(world: World, bound: int) -> None:
    """Also where fewer losses bury a job by now."""
    job_id = await world.lost(2)
    await world.claim_job(job_id, start_count=0)
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10, bound)
    assert (reclaimed.losses, reclaimed.started, reclaimed.rank is None) == (2, False, False)
    assert await world.status(job_id) == "queued"


async def test_what_has_not_begun_keeps_the_error_of_its_last_attempt(world: World) -> None:
    before = await world.job((await world.ended("retrying", {"delay": 0.0})).id)
    await world.store.promote(10)
    await world.claim_job(before.id, start_count=0)
    await world.advance(LEASE + 1)
    assert [one.id for one in await world.store.reclaim(10, 3)] == [before.id]
    job = await world.job(before.id)
    assert (job.error, job.failure_kind, job.signature) == (before.error, before.failure_kind, before.signature)


async def test_one_that_somebody_cancelled_meanwhile_is_cancelled(world: World) -> None:
    _, second = await claim_two(world, begin=1)
    await world.change("cancel", [second])
    await world.advance(LEASE + 1)
    lost = {job.id: job for job in await world.store.reclaim(10)}
    assert (lost[second].cancelled, lost[second].rank, lost[second].losses) == (True, None, 0)
    job = await world.job(second)
    assert (job.status, job.losses) == ("cancelled", 0)
    outcomes = {tally.outcome: tally.count for tally in await world.inspector.tallies()}
    assert outcomes == {"enqueued": 2, "crashed": 1, "cancelled": 1}


async def test_one_that_is_cancelled_before_it_began_lets_go_of_its_key(world: World) -> None:
    first, second = [await world.insert(ordering_key="k") for _ in range(2)]
    await world.claim_job(first, start_count=0)
    await world.change("cancel", [first])
    await world.advance(LEASE + 1)
    (lost,) = await world.store.reclaim(10)
    assert (lost.cancelled, [one.id for one in lost.unblocked]) == (True, [second])
    assert await world.claim_ids() == [second]


async def test_the_overview_tells_who_has_begun(world: World) -> None:
    ids = await world.insert_many(5)
    await world.insert(queue="other")
    claims = await world.claim(5, start_count=2)
    await world.claim(queue="other")

    async def counts() -> dict[str, tuple[int, int, int]]:
        queues = (await world.inspector.overview()).queues
        return {queue.name: (queue.running, queue.started, queue.ahead) for queue in queues}

    assert await counts() == {QUEUE: (5, 2, 3), "other": (1, 1, 0)}
    await world.beat(
        LeaseRenewal(claims[3].id, claims[3].token, started=True),
        LeaseRenewal(claims[4].id, claims[4].token, started=False),
    )
    assert await counts() == {QUEUE: (5, 3, 2), "other": (1, 1, 0)}
    for claim in (claims[0], claims[4]):
        await world.settle(claim, "released")
    assert await counts() == {QUEUE: (3, 2, 1), "other": (1, 1, 0)}
    assert [claim.id for claim in claims] == ids
