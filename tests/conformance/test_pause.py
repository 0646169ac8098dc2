"""Pause lets no worker claim from a queue; resume lets them again."""

import pytest

from queue_core.errors import QueueNotFound
from tests.conformance.making import QUEUE, held
from tests.conformance.world import World


async def test_it_says_whether_it_changed_anything(world: World) -> None:
    await world.insert()
    assert not await world.operations.resume(QUEUE)
    assert await world.operations.pause(QUEUE)
    assert not await world.operations.pause(QUEUE)
    assert await world.store.queues() == {QUEUE: True}
    assert await world.operations.resume(QUEUE)
    assert not await world.operations.resume(QUEUE)
    assert await world.store.queues() == {QUEUE: False}


async def test_the_audit_looks_at_none_that_is_paused(world: World) -> None:
    await world.insert()
    await world.insert(queue="other")
    assert sorted(await world.store.ready_queues()) == ["other", QUEUE]
    await world.operations.pause("other")
    assert await world.store.ready_queues() == [QUEUE]


async def test_of_one_queue_alone(world: World) -> None:
    await world.insert(queue="other")
    job_id = await world.insert()
    await world.operations.pause("other")
    assert await world.store.queues() == {QUEUE: False, "other": True}
    assert await world.claim_ids() == [job_id]
    assert await world.claim_ids(queue="other") == []


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_queue_that_is_not_there(world: World, verb: str) -> None:
    with pytest.raises(QueueNotFound) as caught:
        await getattr(world.operations, verb)("nowhere")
    assert caught.value.queue == "nowhere"
    assert await world.store.queues() == {}


async def test_what_runs_goes_on(world: World) -> None:
    claim = await world.running()
    await world.operations.pause(QUEUE)
    assert (await world.beat(held(claim))).lost == ()
    assert (await world.settle(claim, "completed")).accepted


async def test_jobs_still_arrive(world: World) -> None:
    await world.insert()
    await world.operations.pause(QUEUE)
    await world.insert()
    (info,) = (await world.inspector.overview()).queues
    assert (info.paused, info.queued) == (True, 2)


async def test_a_released_job_waits(world: World) -> None:
    claim = await world.running()
    await world.operations.pause(QUEUE)
    assert (await world.settle(claim, "released")).accepted
    assert await world.claim() == []


async def test_claims_of_a_paused_queue_pass_nothing_over(world: World) -> None:
    """They remember how far a queue has nothing for them; what waits in a paused one is claimed when it is resumed."""
    first = await world.insert()
    await world.settle(await world.claim_job(first), "completed")
    await world.operations.pause(QUEUE)
    jobs = await world.insert_many(3)
    for _ in range(4):
        assert await world.claim() == []
    await world.operations.resume(QUEUE)
    assert await world.claim_ids() == jobs
