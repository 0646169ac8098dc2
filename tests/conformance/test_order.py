"""A job keeps its place in the order of its queue, until an operator retries it."""

import pytest

from queue_core.model.job import Claim
from tests.conformance.making import LEASE, outcome
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


@pytest.mark.parametrize("kind", ["dead", "completed"])
async def test_what_an_operator_retries_queues_up_behind_live_work(world: World, kind: str) -> None:
    claim, others = await first_of_three(world)
    await world.settle(claim, kind)
    (ready,) = (await world.change("retry", [claim.id])).ready
    assert ready.rank > claim.rank
    later = await world.insert()
    assert await world.claim_ids() == [*others, claim.id, later]


async def test_an_operators_retry_of_many_keeps_the_order_of_the_ids(world: World) -> None:
    ids = await world.insert_many(5)
    await world.store.settle([outcome(claim, "dead") for claim in await world.claim(5)])
    urgent = (await world.ended("dead", priority=20)).id
    await world.change("retry", [ids[3], ids[1], urgent, ids[4]])
    assert await world.claim_ids() == [urgent, ids[3], ids[1], ids[4]]


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
