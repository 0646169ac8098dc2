"""Unique keys: no second job of the same key, while the first is unfinished or for a time."""

from __future__ import annotations

import asyncio

import pytest

from queue_core.model.job import Inserted
from queue_core.model.operation import ChangeOptions
from tests.conformance.making import LEASE, QUEUE, new_job
from tests.conformance.world import FINISHED, UNFINISHED, World

KEY = "task:a.png"


async def put(world: World, **given: object) -> Inserted:
    (inserted,) = await world.store.insert([new_job(**{"unique_key": KEY} | given)])
    return inserted


async def test_a_second_job_is_not_written_and_the_first_is_named(world: World) -> None:
    first = await put(world)
    second = await put(world)
    assert (first.created, second) == (True, Inserted(first.id, QUEUE, None, None, created=False))
    assert await world.claim_ids() == [first.id]


@pytest.mark.parametrize("state", UNFINISHED)
async def test_it_holds_while_the_job_is_unfinished(world: World, state: str) -> None:
    first = await world.job_in(state, unique_key=KEY)
    assert (await put(world)).id == first


@pytest.mark.parametrize("state", FINISHED)
async def test_it_is_free_once_the_job_has_finished(world: World, state: str) -> None:
    first = await world.job_in(state, unique_key=KEY)
    second = await put(world)
    assert second.created
    assert second.id != first
    assert (await put(world)).id == second.id


@pytest.mark.parametrize(
    "way", ["completed", "cancelled", "dead", "lost", "as it waited", "as it failed", "with its worker"]
)
async def test_the_key_of_a_job_that_has_ended_is_known(world: World, way: str) -> None:
    if way == "as it waited":
        job_id = (await put(world)).id
        await world.change("cancel", [job_id])
    elif way == "lost":
        job_id = await world.lost(3, unique_key=KEY)
    elif way in {"as it failed", "with its worker"}:
        claim = await world.running(unique_key=KEY)
        job_id = claim.id
        await world.change("cancel", [job_id])
        if way == "as it failed":
            assert (await world.settle(claim, "retrying")).cancelled
        else:
            await world.advance(LEASE + 1)
            assert [one.cancelled for one in await world.store.reclaim(10, 3)] == [True]
    else:
        job_id = (await world.ended(way, unique_key=KEY)).id
    assert (await world.job(job_id)).unique_key == KEY


async def test_a_cancelled_waiting_job_lets_go(world: World) -> None:
    first = await put(world)
    await world.change("cancel", [first.id])
    assert (await put(world)).created


async def test_a_lost_job_lets_go(world: World) -> None:
    await world.lost(3, unique_key=KEY)
    assert (await put(world)).created


@pytest.mark.parametrize("state", [*UNFINISHED, *FINISHED])
async def test_for_a_time_it_holds_whatever_becomes_of_the_job(world: World, state: str) -> None:
    first = await world.job_in(state, unique_key=KEY, unique_seconds=600.0)
    await world.advance(500)
    assert await put(world, unique_seconds=600.0) == Inserted(first, QUEUE, None, None, created=False)


@pytest.mark.parametrize("state", ["queued", "running", "completed"])
async def test_after_the_time_it_is_free_whatever_became_of_the_job(world: World, state: str) -> None:
    await world.job_in(state, unique_key=KEY, unique_seconds=600.0)
    await world.advance(700)
    second = await put(world, unique_seconds=600.0)
    assert second.created
    await world.store.upkeep()
    assert (await put(world, unique_seconds=600.0)).id == second.id


async def test_after_the_time_it_is_held_as_the_next_job_wants_it(world: World) -> None:
    """Also where upkeep has not yet forgotten the time."""
    await put(world, unique_seconds=600.0)
    await world.advance(700)
    second = await put(world)
    assert second.created
    assert await put(world) == Inserted(second.id, QUEUE, None, None, created=False)
    await world.upkeep()
    assert (await put(world)).id == second.id


async def test_who_takes_it_after_the_time_holds_it_for_its_own(world: World) -> None:
    """Whatever becomes of that job, and no longer; also where upkeep has not yet forgotten the time before."""
    await put(world, unique_seconds=600.0)
    await world.advance(700)
    second = await put(world, unique_seconds=300.0)
    assert second.created
    await world.settle(await world.claim_job(second.id), "completed")
    await world.advance(200)
    assert (await put(world)).id == second.id
    await world.advance(200)
    assert (await put(world)).created


async def test_for_a_time_it_outlasts_upkeep_and_purge(world: World) -> None:
    first = (await world.trashed(unique_key=KEY, unique_seconds=600.0)).id
    await world.change("purge", [first])
    await world.store.upkeep()
    assert (await put(world)).id == first


async def test_the_end_of_an_earlier_holder_takes_nothing_from_a_later_one(world: World) -> None:
    """Whatever becomes of a job that once had the key: it is deleted, purged, or over its retention."""
    first = await world.job_in("trashed", unique_key=KEY)
    second = await put(world)
    assert second.created
    assert (await world.change("purge", [first])).ids == (first,)
    assert (await put(world)).id == second.id


async def test_within_a_list_the_first_wins(world: World) -> None:
    jobs = [new_job(unique_key=KEY), new_job(), new_job(unique_key=KEY), new_job(unique_key="task:b.png")]
    inserted = await world.store.insert(jobs)
    assert [one.created for one in inserted] == [True, True, False, True]
    assert inserted[2].id == jobs[0].id
    assert len(await world.claim_ids()) == 3


async def test_keys_belong_to_their_queue(world: World) -> None:
    assert (await put(world)).created
    assert (await put(world, queue="other")).created


@pytest.mark.parametrize("state", ["dead", "completed"])
async def test_a_retry_takes_a_free_key_again(world: World, state: str) -> None:
    first = await world.job_in(state, unique_key=KEY)
    await world.change("retry", [first])
    assert (await put(world)).id == first


async def test_a_job_keeps_its_key_through_whatever_happens_to_it(world: World) -> None:
    """Taken back from a lost worker, retried, released and buried: an operator's retry has to take the key again."""
    first = await world.lost(1, unique_key=KEY)
    for kind in ("retrying", "released", "dead"):
        await world.settle(await world.claim_job(first), kind, delay=0.0)
        await world.store.promote(10)
        assert (await world.job(first)).unique_key == KEY, kind
    # What another has taken and left meanwhile is forgotten.
    await world.settle(await world.claim_job((await put(world)).id), "completed")
    await world.upkeep()
    await world.change("retry", [first])
    assert (await put(world)).id == first


async def test_a_retry_takes_no_key_again_that_was_for_a_time(world: World) -> None:
    """Through whatever happened to the job meanwhile: its key is one for a time to its end."""
    first = await world.lost(1, unique_key=KEY, unique_seconds=300.0)
    for kind in ("retrying", "released", "dead"):
        await world.settle(await world.claim_job(first), kind, delay=0.0)
        await world.store.promote(10)
    await world.advance(400)
    await world.change("retry", [first])
    assert (await put(world)).created


async def test_a_retry_goes_on_without_a_key_that_another_holds(world: World) -> None:
    first = await world.job_in("dead", unique_key=KEY)
    second = await put(world)
    await world.change("retry", [first])
    assert set(await world.claim_ids()) == {first, second.id}
    await world.settle((await world.running(unique_key="task:c")), "completed")
    assert (await put(world)).id == second.id


async def test_producers_at_once_write_one_job(world: World) -> None:
    answers = await asyncio.gather(
        *(world.store.insert([new_job(unique_key=f"task:{n}") for n in range(20)]) for _ in range(8))
    )
    created = [one.id for answer in answers for one in answer if one.created]
    assert len(created) == 20
    assert {one.id for answer in answers for one in answer} == set(created)
    assert sorted(await world.claim_ids()) == sorted(created)


async def test_the_job_shows_its_key(world: World) -> None:
    first = await put(world)
    assert (await world.job(first.id)).unique_key == KEY
    assert (await world.job(await world.insert())).unique_key is None


async def test_a_move_takes_no_key_of_another_along(world: World) -> None:
    """The one that is moved had it once, and has died."""
    first = await put(world)
    await world.settle(await world.claim_job(first.id), "dead")
    second = await put(world)
    assert second.created
    assert (await world.change("move", [first.id], ChangeOptions(queue="other"))).ids == (first.id,)
    third = await put(world)
    assert (third.created, third.id) == (False, second.id)
