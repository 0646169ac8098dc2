"""Released anew: back to queued or scheduled as a job that arrives now, without using an attempt."""

import pytest

from tests.conformance.making import outcome
from tests.conformance.world import World


async def test_to_the_back_of_the_queue(world: World) -> None:
    first, second = await world.insert(), await world.insert()
    claim = await world.claim_job(first)
    settled = await world.settle(claim, "released", to_back=True)
    assert settled.accepted
    assert settled.due is None
    assert settled.rank is not None
    assert settled.rank > claim.rank
    job = await world.job(first)
    assert (job.status, job.retry_count, job.crashes, job.worker, job.error) == ("queued", 0, 0, None, None)
    assert await world.claim_ids() == [second, first]


async def test_not_behind_a_lower_priority(world: World) -> None:
    urgent, low = await world.insert(priority=20), await world.insert(priority=-128)
    claim = await world.claim_job(urgent)
    await world.settle(claim, "released", to_back=True)
    assert await world.claim_ids() == [urgent, low]


async def test_after_a_delay(world: World) -> None:
    claim = await world.running()
    before = await world.now()
    settled = await world.settle(claim, "released", to_back=True, delay=90.0)
    assert settled.rank is None
    assert settled.due is not None
    assert before + 90 <= settled.due <= await world.now() + 90
    job = await world.job(claim.id)
    assert (job.status, job.retry_count) == ("scheduled", 0)
    assert job.run_at.timestamp() == pytest.approx(settled.due, abs=0.001)
    assert await world.store.promote(10) == []
    await world.advance(91)
    assert [ready.id for ready in await world.store.promote(10)] == [claim.id]
    again = await world.claim_job(claim.id)
    assert (again.retry_count, again.token > claim.token) == (0, True)


@pytest.mark.parametrize(("ahead", "status"), [(3600.0, "scheduled"), (-3600.0, "queued")])
async def test_at_a_time(world: World, ahead: float, status: str) -> None:
    claim = await world.running()
    now = await world.now()
    run_at = now + ahead
    settled = await world.settle(claim, "released", to_back=True, run_at=run_at)
    job = await world.job(claim.id)
    assert job.status == status
    assert job.run_at.timestamp() >= now - 0.001, "what waits counts from now on"
    assert (settled.due is None) == (status == "queued")
    if settled.due is not None:
        assert settled.due == pytest.approx(run_at, abs=0.001)


@pytest.mark.parametrize("delay", [0.0, 90.0])
async def test_the_same_again_changes_nothing(world: World, delay: float) -> None:
    claim = await world.running()
    one = outcome(claim, "released", to_back=True, delay=delay)
    assert await world.settle_all([one, one]) == [True, True]
    assert await world.settle_all([one]) == [True]
    assert not (await world.settle(claim, "completed")).accepted
    assert await world.status(claim.id) == ("scheduled" if delay else "queued")


async def test_among_others_in_one_batch(world: World) -> None:
    claims = [await world.running() for _ in range(4)]
    kinds = [
        ("released", {}),
        ("released", {"to_back": True}),
        ("retrying", {}),
        ("released", {"to_back": True, "delay": 9.0}),
    ]
    ends = [outcome(claim, kind, **given) for claim, (kind, given) in zip(claims, kinds, strict=True)]
    assert await world.settle_all(ends) == [True] * 4
    assert [await world.status(claim.id) for claim in claims] == ["queued", "queued", "retrying", "scheduled"]
    assert await world.claim_ids() == [claims[0].id, claims[1].id]


async def test_a_wish_to_cancel_comes_first(world: World) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    settled = await world.settle(claim, "released", to_back=True, delay=9.0)
    assert (settled.accepted, settled.cancelled) == (True, True)
    assert await world.status(claim.id) == "cancelled"
