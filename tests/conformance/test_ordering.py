"""Ordering keys: the jobs of one key run one at a time and in the order of their arrival, whatever happens to them."""

from __future__ import annotations

import asyncio

import pytest

from queue_core.model.job import Claim, Ready
from queue_core.model.operation import ChangeOptions
from tests.conformance.conftest import Ruled
from tests.conformance.making import LEASE, new_job, outcome
from tests.conformance.world import World

KEY = "customer-1"


async def keyed(world: World, count: int = 3, **given: object) -> list[str]:
    return await world.insert_many(count, **{"ordering_key": KEY} | given)


async def only(world: World) -> Claim:
    """Claim whatever can be claimed: one job."""
    (claim,) = await world.claim()
    return claim


def ids(ready: tuple[Ready, ...]) -> list[str]:
    return [one.id for one in ready]


async def test_one_at_a_time_in_order(world: World) -> None:
    jobs = await keyed(world)
    for number, job_id in enumerate(jobs):
        claim = await only(world)
        assert claim.id == job_id
        settled = await world.settle(claim, "completed")
        assert ids(settled.unblocked) == jobs[number + 1 : number + 2]
    assert await world.claim_ids() == []


async def test_priority_does_not_change_the_order(world: World) -> None:
    for job_id in [await world.insert(ordering_key=KEY, priority=priority) for priority in (0, 5, 20, 127)]:
        claim = await only(world)
        assert claim.id == job_id
        await world.settle(claim, "completed")


async def test_keys_do_not_wait_for_each_other_nor_do_jobs_without(world: World) -> None:
    a, b, none = await keyed(world, 2), await keyed(world, 2, ordering_key="customer-2"), await world.insert_many(2)
    assert sorted(await world.claim_ids()) == sorted([a[0], b[0], *none])


async def test_keys_belong_to_their_queue(world: World) -> None:
    await keyed(world)
    await keyed(world, queue="other")
    assert (len(await world.claim_ids()), len(await world.claim_ids(queue="other"))) == (1, 1)


async def test_who_waits_is_queued_and_not_claimable(world: World) -> None:
    jobs = [new_job(ordering_key=KEY) for _ in range(3)]
    inserted = await world.store.insert(jobs)
    assert [(one.rank is None, one.due, one.created) for one in inserted] == [
        (False, None, True), (True, None, True), (True, None, True)
    ]  # fmt: skip
    await world.beat()
    waiting = [job.id for job in jobs[1:]]
    assert [await world.status(job_id) for job_id in waiting] == ["queued", "queued"]
    assert await world.claim_ids(ids=waiting) == []
    assert [one.id for one in await world.store.list_claimable("work", 10)] == [jobs[0].id]
    assert await world.store.filter_claimable("work", waiting) == []
    assert [one.id for one in await world.store.list_ready("work", 0, 10)] == [jobs[0].id]
    (queue,) = (await world.inspector.overview()).queues
    assert (queue.queued, queue.pending) == (3, 3)


async def test_a_retry_keeps_its_place(world: World) -> None:
    first, second = await keyed(world, 2)
    settled = await world.settle(await only(world), "retrying")
    assert settled.unblocked == ()
    assert await world.claim_ids() == []
    await world.advance(LEASE + 5)
    assert [ready.id for ready in await world.store.promote(10)] == [first]
    claim = await only(world)
    assert claim.id == first
    await world.settle(claim, "completed")
    assert (await only(world)).id == second


async def test_a_release_keeps_its_place(world: World) -> None:
    first, _ = await keyed(world, 2)
    settled = await world.settle(await only(world), "released")
    assert (settled.unblocked, settled.rank is None) == ((), False)
    assert (await only(world)).id == first


async def test_a_lost_worker_s_job_keeps_its_place(world: World) -> None:
    first, second = await keyed(world, 2)
    await only(world)
    await world.advance(LEASE + 5)
    (lost,) = await world.store.reclaim(10, 3)
    assert (lost.id, lost.unblocked) == (first, ())
    claim = await only(world)
    assert claim.id == first
    await world.settle(claim, "completed")
    assert (await only(world)).id == second


async def test_a_lost_job_lets_the_next_through(world: World) -> None:
    first, second = await keyed(world, 2)
    for _ in range(3):
        assert (await only(world)).id == first
        await world.advance(LEASE + 5)
        (lost,) = await world.store.reclaim(10, 3)
    assert (lost.rank, ids(lost.unblocked)) == (None, [second])
    assert (await only(world)).id == second


@pytest.mark.parametrize("kind", ["completed", "dead", "cancelled"])
async def test_an_end_lets_the_next_through(world: World, kind: str) -> None:
    _, second = await keyed(world, 2)
    assert ids((await world.settle(await only(world), kind)).unblocked) == [second]
    assert (await only(world)).id == second


async def test_a_rescheduled_job_goes_to_the_back(world: World) -> None:
    first, second = await keyed(world, 2)
    settled = await world.settle(await only(world), "released", to_back=True)
    assert (settled.rank, ids(settled.unblocked)) == (None, [second])
    claim = await only(world)
    assert claim.id == second
    assert ids((await world.settle(claim, "completed")).unblocked) == [first]


async def test_a_lone_rescheduled_job_is_ready_again(world: World) -> None:
    (first,) = await keyed(world, 1)
    settled = await world.settle(await only(world), "released", to_back=True)
    assert settled.rank is not None
    assert (await only(world)).id == first


async def test_a_job_rescheduled_for_a_time_holds_nobody_up(world: World) -> None:
    first, second = await keyed(world, 2)
    settled = await world.settle(await only(world), "released", to_back=True, delay=LEASE)
    assert ids(settled.unblocked) == [second]
    await world.advance(LEASE + 5)
    assert await world.store.promote(10) == []
    assert ids((await world.settle(await only(world), "completed")).unblocked) == [first]


async def test_a_delayed_job_joins_when_it_is_due(world: World) -> None:
    (late,) = await keyed(world, 1, delay=LEASE)
    first, second = await keyed(world, 2)
    claim = await only(world)
    assert claim.id == first
    await world.advance(LEASE / 2)
    await world.advance(LEASE / 2 + 5)
    assert await world.store.promote(10) == []
    # It arrived before the second, so it goes before it.
    assert ids((await world.settle(claim, "completed")).unblocked) == [late]
    claim = await only(world)
    assert ids((await world.settle(claim, "completed")).unblocked) == [second]


async def test_a_due_job_whose_key_is_free_is_ready(world: World) -> None:
    (late,) = await keyed(world, 1, delay=LEASE)
    await world.advance(LEASE + 5)
    assert [ready.id for ready in await world.store.promote(10)] == [late]
    assert (await only(world)).id == late


@pytest.mark.parametrize("state", ["ready", "retrying"])
async def test_cancelling_who_has_its_turn_lets_the_next_through(world: World, state: str) -> None:
    first, second = await keyed(world, 2)
    if state == "retrying":
        await world.settle(await only(world), "retrying")
    changed = await world.change("cancel", [first])
    assert (changed.ids, ids(changed.ready)) == ((first,), [second])
    assert (await only(world)).id == second


async def test_cancelling_who_waits_lets_nobody_through(world: World) -> None:
    first, second, third = await keyed(world, 3)
    changed = await world.change("cancel", [second])
    assert (changed.ids, changed.ready) == ((second,), ())
    claim = await only(world)
    assert claim.id == first
    assert ids((await world.settle(claim, "completed")).unblocked) == [third]


async def test_cancelling_all_leaves_the_key_free(world: World) -> None:
    jobs = await keyed(world, 3)
    await world.change("cancel", jobs)
    (after,) = await keyed(world, 1)
    assert (await only(world)).id == after


async def test_cancelled_while_it_ran_and_failed_lets_the_next_through(world: World) -> None:
    first, second = await keyed(world, 2)
    claim = await only(world)
    await world.change("cancel", [first])
    settled = await world.settle(claim, "retrying")
    assert (settled.cancelled, ids(settled.unblocked)) == (True, [second])


async def test_an_operator_s_retry_queues_up_behind(world: World) -> None:
    first, second = await keyed(world, 2)
    await world.settle(await only(world), "dead")
    changed = await world.change("retry", [first])
    assert (changed.ids, changed.ready) == ((first,), ())
    claim = await only(world)
    assert claim.id == second
    assert ids((await world.settle(claim, "completed")).unblocked) == [first]


async def test_an_operator_s_retry_of_a_free_key_is_ready(world: World) -> None:
    (first,) = await keyed(world, 1)
    await world.settle(await only(world), "completed")
    assert ids((await world.change("retry", [first])).ready) == [first]
    assert (await only(world)).id == first


async def test_a_batch_of_ends_lets_one_of_each_key_through(world: World) -> None:
    a, b = await keyed(world, 3), await keyed(world, 3, ordering_key="customer-2")
    claims = await world.claim()
    settled = await world.store.settle([outcome(claim, "completed") for claim in claims])
    assert sorted(job_id for one in settled for job_id in ids(one.unblocked)) == sorted([a[1], b[1]])


async def test_a_stale_end_lets_nobody_through(world: World) -> None:
    await keyed(world, 3)
    claim = await only(world)
    await world.settle(claim, "completed")
    again = await world.settle(claim, "completed")
    assert (again.accepted, again.unblocked) == (True, ())
    refused = await world.settle(claim, "dead")
    assert (refused.accepted, refused.unblocked) == (False, ())
    assert len(await world.claim_ids()) == 1


async def test_several_at_a_time_where_the_rules_say_so(ruled: Ruled) -> None:
    world = await ruled(key_concurrency=2)
    jobs = await keyed(world, 5)
    claims = await world.claim()
    assert [claim.id for claim in claims] == jobs[:2]
    assert ids((await world.settle(claims[1], "completed")).unblocked) == [jobs[2]]
    assert await world.claim_ids() == [jobs[2]]
    await world.settle(claims[0], "retrying")
    assert await world.claim_ids() == []


async def test_the_end_of_a_lost_job_that_was_to_be_cancelled_frees_its_key(world: World) -> None:
    first, second = await keyed(world, 2)
    assert (await only(world)).id == first
    await world.change("cancel", [first])
    await world.advance(LEASE + 1)
    (lost,) = await world.store.reclaim(10)
    assert (lost.id, lost.cancelled, ids(lost.unblocked)) == (first, True, [second])
    assert await world.claim_ids() == [second]


async def test_a_rescheduled_job_that_waits_again_can_be_cancelled(world: World) -> None:
    """It waits at its new place: nothing of it is left to be let through."""
    first, second = await keyed(world, 2)
    assert ids((await world.settle(await only(world), "released", to_back=True)).unblocked) == [second]
    await world.change("cancel", [first])
    assert (await world.settle(await only(world), "completed")).unblocked == ()
    (third,) = await keyed(world, 1)
    assert await world.claim_ids() == [third]


async def test_where_fewer_may_run_at_a_time_than_do_the_next_one_waits(ruled: Ruled) -> None:
    """Another release of the program has lowered it while some run."""
    world = await ruled(key_concurrency=3)
    jobs = await keyed(world, 6)
    claims = await world.claim()
    world = await ruled(key_concurrency=1)
    for claim in claims[:2]:
        assert (await world.settle(claim, "completed")).unblocked == ()
        assert await world.claim_ids() == []
    assert ids((await world.settle(claims[2], "completed")).unblocked) == [jobs[3]]
    assert await world.claim_ids() == [jobs[3]]


async def test_a_dead_job_blocks_its_key_where_the_rules_say_so(ruled: Ruled) -> None:
    world = await ruled(dead_blocks_key=True)
    first, second = await keyed(world, 2)
    assert (await world.settle(await only(world), "dead")).unblocked == ()
    assert await world.claim_ids() == []
    assert ids((await world.change("retry", [first])).ready) == [first]
    claim = await only(world)
    assert claim.id == first
    assert ids((await world.settle(claim, "completed")).unblocked) == [second]


async def test_a_blocking_dead_job_lets_go_in_the_trash(ruled: Ruled) -> None:
    world = await ruled(dead_blocks_key=True)
    first, second = await keyed(world, 2)
    await world.settle(await only(world), "dead")
    assert ids((await world.change("delete", [first])).ready) == [second]
    claim = await only(world)
    assert claim.id == second
    # Back from the trash it is one of many: its turn is over.
    await world.change("restore", [first])
    assert (await world.change("retry", [first])).ready == ()
    assert ids((await world.settle(claim, "completed")).unblocked) == [first]


async def test_a_blocking_dead_job_that_is_retried_later_keeps_blocking(ruled: Ruled) -> None:
    world = await ruled(dead_blocks_key=True)
    first, second = await keyed(world, 2)
    await world.settle(await only(world), "dead")
    await world.change("retry", [first], ChangeOptions(spread=LEASE))
    assert await world.claim_ids() == []
    await world.advance(LEASE + 5)
    assert [ready.id for ready in await world.store.promote(10)] == [first]
    claim = await only(world)
    assert ids((await world.settle(claim, "completed")).unblocked) == [second]


async def test_a_lost_job_blocks_its_key_where_the_rules_say_so(ruled: Ruled) -> None:
    world = await ruled(dead_blocks_key=True)
    first, second = await keyed(world, 2)
    for _ in range(3):
        await only(world)
        await world.advance(LEASE + 5)
        (lost,) = await world.store.reclaim(10, 3)
    assert (lost.id, lost.unblocked) == (first, ())
    assert await world.claim_ids() == []
    assert ids((await world.change("delete", [first])).ready) == [second]


async def test_whatever_happens_at_once_no_key_gets_stuck_nor_runs_twice(world: World) -> None:
    keys = [f"customer-{number}" for number in range(4)]
    running: set[str] = set()
    done: dict[str, list[str]] = {key: [] for key in keys}
    wanted: dict[str, list[str]] = {key: [] for key in keys}
    keys_of: dict[str, str] = {}
    total = 4 * 30

    async def produce() -> None:
        for _ in range(30):
            jobs = [new_job(ordering_key=key) for key in keys]
            for key, job in zip(keys, jobs, strict=True):
                wanted[key].append(job.id)
                keys_of[job.id] = key
            await world.store.insert(jobs)

    async def work(number: int) -> None:
        while sum(map(len, done.values())) < total:
            claims = await world.claim(3, worker=f"worker-{number}")
            for claim in claims:
                assert keys_of[claim.id] not in running, "two jobs of a key run at a time"
                running.add(keys_of[claim.id])
            await asyncio.sleep(0)
            for claim in claims:
                running.discard(keys_of[claim.id])
                done[keys_of[claim.id]].append(claim.id)
            await world.store.settle([outcome(claim, "completed") for claim in claims])

    async with asyncio.timeout(60):
        await asyncio.gather(produce(), *(work(number) for number in range(4)))
    assert done == wanted


async def test_the_job_shows_its_key(world: World) -> None:
    (job_id,) = await keyed(world, 1)
    assert (await world.job(job_id)).ordering_key == KEY
