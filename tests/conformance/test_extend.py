"""Heartbeat: prolong the leases that still hold, record their progress, and renew the worker's entry."""

import pytest

from tests.conformance.making import LEASE, held
from tests.conformance.world import World


async def test_it_prolongs_the_lease(world: World) -> None:
    claim = await world.running()
    for _ in range(3):
        await world.advance(LEASE - 10)
        reply = await world.beat(held(claim))
        assert (reply.lost, reply.cancel, reply.command) == ((), (), "")
    assert await world.store.reclaim(10) == []
    await world.advance(LEASE + 1)
    assert [reclaimed.id for reclaimed in await world.store.reclaim(10)] == [claim.id]


async def test_by_what_the_worker_asks_for(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim), lease=LEASE * 10)
    await world.advance(LEASE * 9)
    assert await world.store.reclaim(10) == []
    expires_at = (await world.job(claim.id)).lease_expires_at
    assert expires_at is not None
    assert expires_at.timestamp() - await world.now() == pytest.approx(LEASE, abs=LEASE / 2)


async def test_only_those_it_names(world: World) -> None:
    mine, other = await world.running(), await world.running(worker="worker-2")
    await world.advance(LEASE - 10)
    await world.beat(held(mine))
    await world.advance(20)
    assert [reclaimed.id for reclaimed in await world.store.reclaim(10)] == [other.id]


async def test_an_expired_lease_holds_until_it_is_reclaimed(world: World) -> None:
    claim = await world.running()
    await world.advance(LEASE + 1)
    assert (await world.beat(held(claim))).lost == ()
    assert await world.store.reclaim(10) == []


async def test_leases_that_are_over_are_named(world: World) -> None:
    running, completed = await world.running(), await world.ended("completed")
    released = await world.ended("released")
    wrong = (await world.running())._replace(token=1 << 41)
    reply = await world.beat(held(completed), held(running), held(released), held(wrong))
    assert set(reply.lost) == {completed.id, released.id, wrong.id}


async def test_an_earlier_attempt_is_over_also_when_the_next_one_is_to_be_cancelled(world: World) -> None:
    earlier = await world.ended("released")
    later = await world.claim_job(earlier.id)
    await world.change("cancel", [earlier.id])
    reply = await world.beat(held(earlier))
    assert (reply.lost, reply.cancel) == ((earlier.id,), (later.id,))


@pytest.mark.parametrize("state", ["completed", "dead", "retrying", "cancelled"])
async def test_progress_of_a_lease_that_is_over_is_dropped(world: World, state: str) -> None:
    claim = await world.ended(state)
    before = await world.job(claim.id)
    await world.beat(held(claim, 50, "half"))
    assert await world.job(claim.id) == before


async def test_it_records_progress(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim, 40, "decoded 🦀"))
    job = await world.job(claim.id)
    assert (job.progress, job.progress_message) == (40, "decoded 🦀")


async def test_progress_never_falls(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim, 60, "later"))
    await world.beat(held(claim, 20, "earlier"))
    assert (await world.job(claim.id)).progress == 60
    await world.beat(held(claim, 100, "done"))
    assert (await world.job(claim.id)).progress == 100


@pytest.mark.parametrize(
    ("kind", "left"),
    [("completed", (100, "")), ("cancelled", (0, "")), ("dead", (40, "decoded")), ("retrying", (0, ""))],
)
async def test_what_an_end_leaves_of_progress(world: World, kind: str, left: tuple[int, str]) -> None:
    claim = await world.running()
    await world.beat(held(claim, 40, "decoded"))
    await world.settle(claim, kind)
    job = await world.job(claim.id)
    assert (job.progress, job.progress_message) == left


@pytest.mark.parametrize(
    ("bound", "cancelled", "started", "left"),
    [
        (1, False, True, ("dead", 40, "decoded")),
        (3, False, True, ("queued", 0, "")),
        (3, True, True, ("cancelled", 0, "")),
        (3, True, False, ("cancelled", 0, "")),
    ],
)
async def test_what_the_loss_of_a_worker_leaves_of_progress(
    world: World, bound: int, cancelled: bool, started: bool, left: tuple[str, int, str]
) -> None:
    claim = await world.claim_job(await world.insert(), start_count=int(started))
    await world.beat(held(claim, 40, "decoded")._replace(started=started))
    if cancelled:
        await world.change("cancel", [claim.id])
    await world.advance(LEASE + 1)
    await world.store.reclaim(10, bound)
    job = await world.job(claim.id)
    assert (job.status, job.progress, job.progress_message) == left


async def test_without_progress_it_stays(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim, 40, "decoded"))
    await world.beat(held(claim))
    job = await world.job(claim.id)
    assert (job.progress, job.progress_message) == (40, "decoded")


@pytest.mark.parametrize(("told", "stored"), [(-5, 0), (0, 0), (100, 100), (150, 100)])
async def test_progress_is_kept_within_its_bounds(world: World, told: int, stored: int) -> None:
    claim, other = await world.running(), await world.running()
    reply = await world.beat(held(claim, told), held(other, 10))
    assert reply.lost == ()
    assert (await world.job(claim.id)).progress == stored
    assert (await world.job(other.id)).progress == 10


async def test_a_new_attempt_begins_without_progress(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim, 70, "nearly"))
    await world.settle(claim, "released")
    await world.claim_job(claim.id)
    job = await world.job(claim.id)
    assert (job.progress, job.progress_message) == (0, "")


async def test_a_dead_job_shows_how_far_it_came(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim, 70, "nearly"))
    await world.settle(claim, "dead")
    job = await world.job(claim.id)
    assert (job.progress, job.progress_message) == (70, "nearly")


async def test_many_leases(world: World) -> None:
    await world.insert_many(2000)
    claims = await world.claim(2000)
    gone = claims[::10]
    for claim in gone[:5]:
        await world.settle(claim, "completed")
    await world.advance(LEASE + 1)
    reply = await world.beat(*(held(claim, 50, "half") for claim in claims))
    assert set(reply.lost) == {claim.id for claim in gone[:5]}
    assert await world.store.reclaim(10) == []


async def test_two_hearts_of_one_store(world: World) -> None:
    claim = await world.running()
    first, second = world.store.open_heartbeat(), world.store.open_heartbeat()
    assert first is not second
    first.close()
    first.close()
    second.close()
    assert (await world.beat(held(claim))).lost == ()
