"""Every claim raises the job's lease token, which nothing ever resets."""

import pytest

from queue_core.model.operation import MemberVerb
from tests.conformance.making import LEASE
from tests.conformance.world import World


async def test_tokens_of_one_claim_differ(world: World) -> None:
    await world.insert_many(100)
    tokens = [claim.token for claim in await world.claim()]
    assert len(set(tokens)) == 100
    later = await world.running()
    assert later.token > max(tokens)


@pytest.mark.parametrize("kind", ["retrying", "released", "dead", "completed", "crashed"])
async def test_the_token_only_rises(world: World, kind: str) -> None:
    """Through retry, release, crash, the DLQ and the history, and each time back to the queue."""
    first = await world.running()
    if kind != "crashed":
        await world.settle(first, kind)
    else:
        await world.advance(LEASE + 1)
        await world.store.reclaim(10)
    assert (await world.job(first.id)).token == first.token
    await world.change("retry", [first.id])
    await world.advance(LEASE + 1)
    await world.store.promote(10)
    waiting = await world.job(first.id)
    # An operator's change gives a new one, too.
    assert (waiting.token > first.token) if kind in {"dead", "completed"} else (waiting.token == first.token)
    second = await world.claim_job(first.id)
    assert second.token > waiting.token
    assert (await world.job(first.id)).token == second.token


async def test_it_rises_through_a_long_life(world: World) -> None:
    job_id = await world.insert()
    tokens = []
    for kind in ("retrying", "released", "dead", "retrying", "completed", "dead", "released", "completed"):
        claim = await world.claim_job(job_id)
        tokens.append(claim.token)
        await world.settle(claim, kind)
        await world.change("retry", [job_id])
        await world.advance(LEASE + 1)
        await world.store.promote(10)
    assert tokens == sorted(set(tokens))


async def test_it_rises_into_the_trash_and_out_of_it(world: World) -> None:
    claim = await world.trashed()
    tokens = [claim.token, (await world.job(claim.id)).token]
    verbs: tuple[MemberVerb, ...] = ("restore", "delete", "restore", "retry")
    for verb in verbs:
        await world.change(verb, [claim.id])
        tokens.append((await world.job(claim.id)).token)
    tokens.append((await world.claim_job(claim.id)).token)
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(("kind", "change"), [("dead", "delete"), ("dead", "retry"), ("completed", "retry")])
async def test_an_outcome_that_is_handed_in_again_is_known_behind_an_operators_change(
    world: World, kind: str, change: str
) -> None:
    """The answer to a settle that was lost on the way is asked for again, however late."""
    claim = await world.ended(kind)
    assert (await world.change(change, [claim.id])).ids == (claim.id,)
    before = await world.job(claim.id)
    again = await world.settle(claim, kind)
    assert again.accepted or (kind, change) == ("completed", "retry")
    assert await world.job(claim.id) == before


async def test_workers_share_one_row_of_tokens(world: World) -> None:
    tokens = [(await world.running(worker=f"worker-{number}", queue=f"queue-{number}")).token for number in range(5)]
    assert tokens == sorted(set(tokens))
