"""Every claim raises the job's lease token, which nothing ever resets."""

import pytest

from tests.conformance.making import LEASE
from tests.conformance.world import World


async def test_tokens_of_one_claim_differ(world: World) -> None:
    await world.insert_many(100)
    tokens = [claim.token for claim in await world.claim()]
    assert len(set(tokens)) == 100
    later = await world.running()
    assert later.token > max(tokens)


@pytest.mark.parametrize("kind", ["retrying", "released", "dead", "completed", "crashed"])
async def test_the_token_rises_and_stays(world: World, kind: str) -> None:
    """Through retry, release, crash, the DLQ and the history, and each time back to the queue."""
    first = await world.running()
    if kind != "crashed":
        await world.settle(first, kind)
    else:
        await world.advance(LEASE + 1)
        await world.store.reclaim(10)
    assert (await world.job(first.id)).token == first.token
    await world.inspector.retry([first.id])
    await world.advance(LEASE + 1)
    await world.store.promote(10)
    assert (await world.job(first.id)).token == first.token
    second = await world.claim_job(first.id)
    assert second.token > first.token
    assert (await world.job(first.id)).token == second.token


async def test_it_rises_through_a_long_life(world: World) -> None:
    job_id = await world.insert()
    tokens = []
    for kind in ("retrying", "released", "dead", "retrying", "completed", "dead", "released", "completed"):
        claim = await world.claim_job(job_id)
        tokens.append(claim.token)
        await world.settle(claim, kind)
        await world.inspector.retry([job_id])
        await world.advance(LEASE + 1)
        await world.store.promote(10)
    assert tokens == sorted(set(tokens))


async def test_it_stays_in_the_trash(world: World) -> None:
    claim = await world.trashed()
    assert (await world.job(claim.id)).token == claim.token
    await world.inspector.restore([claim.id])
    assert (await world.job(claim.id)).token == claim.token
    await world.inspector.retry([claim.id])
    assert (await world.claim_job(claim.id)).token > claim.token


async def test_workers_share_one_row_of_tokens(world: World) -> None:
    tokens = [(await world.running(worker=f"worker-{number}", queue=f"queue-{number}")).token for number in range(5)]
    assert tokens == sorted(set(tokens))
