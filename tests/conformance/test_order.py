"""A job keeps its place in the order of its queue, whatever happens to it in between."""

from queue_core.job import Claim
from tests.conformance.making import LEASE
from tests.conformance.world import World


async def first_of_three(world: World) -> tuple[Claim, list[str]]:
    """Return the claim of the first of three jobs and the ids of the others."""
    ids = await world.insert_many(3)
    (claim,) = await world.claim(1)
    assert claim.id == ids[0]
    return claim, ids[1:]


async def test_a_retried_job_is_first_again(world: World) -> None:
    claim, others = await first_of_three(world)
    await world.settle(claim, "retrying")
    assert await world.claim_ids(1) == others[:1]
    await world.advance(LEASE + 1)
    (ready,) = await world.store.promote(10)
    assert ready.rank == claim.rank
    assert await world.claim_ids() == [claim.id, others[1]]


async def test_a_released_job_is_first_again(world: World) -> None:
    claim, others = await first_of_three(world)
    settled = await world.settle(claim, "released")
    assert settled.rank == claim.rank
    assert await world.claim_ids() == [claim.id, *others]


async def test_a_reclaimed_job_is_first_again(world: World) -> None:
    claim, others = await first_of_three(world)
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10)
    assert reclaimed.rank == claim.rank
    assert await world.claim_ids() == [claim.id, *others]


async def test_a_job_out_of_the_dlq_is_first_again(world: World) -> None:
    claim, others = await first_of_three(world)
    await world.settle(claim, "dead")
    (ready,) = (await world.inspector.retry([claim.id])).ready
    assert ready.rank == claim.rank
    assert await world.claim_ids() == [claim.id, *others]


async def test_a_completed_job_that_runs_again_is_first_again(world: World) -> None:
    claim, others = await first_of_three(world)
    await world.settle(claim, "completed")
    await world.inspector.retry([claim.id])
    assert await world.claim_ids() == [claim.id, *others]


async def test_a_promoted_job_stands_where_it_arrived(world: World) -> None:
    early = await world.insert(delay=5)
    later = await world.insert()
    await world.advance(6)
    await world.store.promote(10)
    assert await world.claim_ids() == [early, later]


async def test_priority_goes_before_age(world: World) -> None:
    claim, others = await first_of_three(world)
    urgent = await world.insert(priority=20)
    await world.settle(claim, "released")
    assert await world.claim_ids() == [urgent, claim.id, *others]
