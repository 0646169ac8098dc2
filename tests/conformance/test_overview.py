"""Overview: queues, workers and depths as of one moment."""

import asyncio

import pytest

from queue_core.model.report import QueueInfo
from tests.conformance.world import STATES, World


async def queues(world: World) -> dict[str, QueueInfo]:
    return {queue.name: queue for queue in (await world.inspector.overview()).queues}


async def test_nothing_there(world: World) -> None:
    overview = await world.inspector.overview()
    assert (overview.queues, overview.workers, overview.orphaned_types) == ((), (), {})
    assert overview.now.tzinfo is not None


async def test_a_queue_counts_its_jobs_by_state(world: World) -> None:
    for number, state in enumerate(STATES):
        for _ in range(number + 1):
            await world.job_in(state)
    (queue,) = (await queues(world)).values()
    numbers = {state: number + 1 for number, state in enumerate(STATES)}
    assert queue.depth == {5: numbers["queued"]}
    assert (queue.scheduled, queue.retrying) == (numbers["scheduled"], numbers["retrying"])
    assert (queue.running, queue.dead, queue.trashed) == (numbers["running"], numbers["dead"], numbers["trashed"])
    assert queue.queued == numbers["queued"]
    assert queue.pending == numbers["queued"] + numbers["scheduled"] + numbers["retrying"]


async def test_depth_by_priority(world: World) -> None:
    for priority in (5, 5, 10, -128, 127, 127, 127):
        await world.insert(priority=priority)
    await world.claim(1)
    assert (await queues(world))["work"].depth == {5: 2, 10: 1, -128: 1, 127: 2}


async def test_queues_apart_and_in_order(world: World) -> None:
    await world.insert(queue="mail")
    await world.insert(queue="images", delay=60)
    await world.operations.pause("images")
    found = await queues(world)
    assert list(found) == ["images", "mail"]
    assert (found["images"].paused, found["images"].scheduled, found["images"].queued) == (True, 1, 0)
    assert (found["mail"].paused, found["mail"].queued) == (False, 1)


async def test_an_empty_queue_stays(world: World) -> None:
    await world.ended("completed")
    (queue,) = (await queues(world)).values()
    assert (queue.depth, queue.pending, queue.running, queue.oldest) == ({}, 0, 0, None)


async def test_the_oldest_of_those_that_wait_for_an_ordering_key(world: World) -> None:
    await world.running(ordering_key="k")
    first = await world.insert(ordering_key="k")
    await world.advance(5)
    await world.insert(ordering_key="k")
    assert (await queues(world))["work"].oldest == (await world.job(first)).run_at


async def test_the_oldest_ready_job(world: World) -> None:
    await world.insert(delay=600)
    assert (await queues(world))["work"].oldest is None
    first = await world.insert(priority=0)
    await world.advance(30)
    await world.insert(priority=20)
    assert (await queues(world))["work"].oldest == (await world.job(first)).run_at
    await world.claim_job(first)
    oldest = (await queues(world))["work"].oldest
    assert oldest is not None
    assert (await world.inspector.overview()).now.timestamp() - oldest.timestamp() < 20


async def test_types_that_nobody_announces(world: World) -> None:
    await world.beat(types=("known",))
    await world.insert(type="known")
    await world.insert(type="strange")
    await world.insert(type="strange", delay=60)
    await world.ended("retrying", type="strange")
    await world.ended("completed", type="over")
    await world.ended("dead", type="buried")
    assert (await world.inspector.overview()).orphaned_types == {"strange": 3}
    await world.advance(100)
    assert set((await world.inspector.overview()).orphaned_types) == {"known", "strange"}


async def test_the_stores_clock(world: World) -> None:
    before = (await world.inspector.overview()).now
    job = await world.job(await world.insert())
    after = (await world.inspector.overview()).now
    assert before <= job.created_at <= after


async def test_it_answers(world: World) -> None:
    assert 0 <= await world.inspector.ping() < 30
    assert await world.inspector.facts()
    assert await world.inspector.blockers() == []


@pytest.mark.parametrize("times", [1, 2])
async def test_closing_is_safe(world: World, times: int) -> None:
    await world.insert()
    for _ in range(times):
        await world.inspector.close()
        await world.store.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing of a closed store goes on"
