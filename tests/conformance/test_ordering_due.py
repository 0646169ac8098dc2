"""Jobs of an ordering key that become due together are let through in the order of their arrival, in every mode."""

from __future__ import annotations

from queue_core.model.operation import Author, ChangeOptions, OperationRequest
from tests.conformance.conftest import Ruled
from tests.conformance.making import LEASE, new_job
from tests.conformance.world import World

KEY = "customer-1"


async def due_together(world: World) -> list[str]:
    """Return what became ready when everything that was put off is due."""
    await world.advance(LEASE + 60)
    return [ready.id for ready in await world.store.promote(2000)]


async def in_turn(world: World, queue: str, number: int) -> list[str]:
    """Return so many jobs in the order in which a queue gives them out, one at a time."""
    order = []
    for _ in range(number):
        (claim,) = await world.claim(queue=queue)
        order.append(claim.id)
        await world.settle(claim, "completed")
    return order


async def test_who_arrived_first_goes_first_whichever_was_due_first(world: World) -> None:
    jobs = [await world.insert(ordering_key=KEY, delay=delay) for delay in (50, 40, 30, 20)]
    assert await due_together(world) == jobs[:1]
    assert await in_turn(world, "work", 4) == jobs


async def test_priority_does_not_change_that(world: World) -> None:
    jobs = [
        await world.insert(ordering_key=KEY, delay=delay, priority=priority)
        for delay, priority in ((50, -5), (40, 0), (30, 9))
    ]
    assert await due_together(world) == jobs[:1]
    assert await in_turn(world, "work", 3) == jobs


async def test_moved_jobs_arrive_when_they_are_moved(world: World) -> None:
    """A sequence at which the stores once disagreed: moved in one order, due in the other one."""
    first, second = [await world.insert(ordering_key=KEY, delay=delay) for delay in (20, 40)]
    asked = OperationRequest("move", "some", Author("ana", "bastion-1"), options=ChangeOptions(queue="other"))
    number = (await world.operations.create(asked)).number
    await world.operations.add(number, [second, first])
    await world.operations.move(number, "running")
    while not (await world.operations.step(number, 1)).operation.ended:
        pass
    assert await due_together(world) == [second]
    assert await in_turn(world, "other", 2) == [second, first]


async def test_as_many_as_may_be_under_way_are_the_first_that_arrived(ruled: Ruled) -> None:
    world = await ruled(key_concurrency=2)
    jobs = [await world.insert(ordering_key=KEY, delay=delay) for delay in (50, 40, 30, 20)]
    assert sorted(await due_together(world)) == sorted(jobs[:2])


async def test_also_of_more_jobs_than_one_step_takes(world: World) -> None:
    """In mode `redis` a script promotes 500 jobs."""
    last = await world.insert_many(600, delay=30)
    first = await world.insert(ordering_key=KEY, delay=50)
    second = new_job(ordering_key=KEY, delay=20)
    await world.store.insert([second])
    ready = await due_together(world)
    assert (first in ready, second.id in ready, len(ready)) == (True, False, len(last) + 1)
