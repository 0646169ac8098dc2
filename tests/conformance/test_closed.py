"""A closed queue refuses new jobs, whole lists at a time, and nothing else; the store itself decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queue_core.client.operating.drain import jobs_left
from queue_core.errors import QueueClosed, QueueFull, QueueNotFound
from queue_core.model.operation import Author, ChangeOptions, OperationRequest
from queue_core.model.report import QueueInfo
from queue_core.model.schedule import Announcement, Schedule, Tick
from tests.conformance.conftest import Ruled
from tests.conformance.making import QUEUE, TYPE, new_job
from tests.conformance.modes import Opener
from tests.conformance.world import World


async def closed(world: World, queue: str = QUEUE) -> None:
    assert await world.operations.set_closed(queue, True)


async def info(world: World, queue: str = QUEUE) -> QueueInfo:
    (found,) = [one for one in (await world.inspector.overview()).queues if one.name == queue]
    return found


async def test_it_says_whether_it_changed_anything(world: World) -> None:
    await world.insert()
    assert not await world.operations.set_closed(QUEUE, False)
    await closed(world)
    assert not await world.operations.set_closed(QUEUE, True)
    assert (await info(world)).closed
    assert await world.operations.set_closed(QUEUE, False)
    assert not (await info(world)).closed
    with pytest.raises(QueueNotFound):
        await world.operations.set_closed("nowhere", True)


async def test_resume_opens_it_too(world: World) -> None:
    await world.insert()
    await closed(world)
    assert await world.operations.resume(QUEUE)
    assert not await world.operations.resume(QUEUE)
    await world.operations.pause(QUEUE)
    await closed(world)
    assert ((await info(world)).paused, (await info(world)).closed) == (True, True)
    assert await world.operations.resume(QUEUE)
    assert ((await info(world)).paused, (await info(world)).closed) == (False, False)
    await world.insert()


async def test_its_state_in_a_word(world: World) -> None:
    claim = await world.running()
    assert (await info(world)).state == "open"
    await closed(world)
    assert (await info(world)).state == "draining"
    await world.operations.pause(QUEUE)
    assert (await info(world)).state == "paused"
    await world.settle(claim, "completed")
    assert (await info(world)).state == "closed"


@pytest.mark.parametrize("given", [{}, {"delay": 60.0}, {"ordering_key": "k"}, {"unique_key": "u"}])
async def test_it_refuses_new_jobs(world: World, given: dict[str, Any]) -> None:
    first = await world.insert()
    await closed(world)
    with pytest.raises(QueueClosed) as caught:
        await world.insert_many(2, **given)
    assert caught.value.queue == QUEUE
    assert "'queue resume' opens it" in str(caught.value)
    assert await world.claim_ids() == [first]
    assert (await world.inspector.conservation()).unfinished == 1
    assert await world.operations.set_closed(QUEUE, False)
    await world.insert_many(2, **given)


async def test_a_queue_with_rules_refuses_them_too(ruled: Ruled) -> None:
    world = await ruled(limit=100, aging="5s")
    await world.insert()
    await closed(world)
    with pytest.raises(QueueClosed):
        await world.insert()
    assert (await world.inspector.conservation()).unfinished == 1


async def test_a_process_that_has_not_heard_of_it_is_refused(opener: Opener) -> None:
    one, other = await opener(), await opener()
    try:
        await other.insert()  # it knows the queue from here on
        await closed(one)
        with pytest.raises(QueueClosed):
            await other.insert()
        await one.operations.resume(QUEUE)
        await other.insert()
    finally:
        await one.close()
        await other.close()


async def test_a_list_for_several_queues_goes_in_whole_or_not_at_all(world: World) -> None:
    for queue in ("a first", "other", QUEUE):
        await world.insert(queue=queue)
    await closed(world, "other")
    with pytest.raises(QueueClosed) as caught:
        await world.store.insert([new_job(), new_job(queue="other"), new_job(queue="a first"), new_job()])
    assert caught.value.queue == "other"
    assert (await world.inspector.conservation()).unfinished == 3
    await world.insert()


async def test_what_is_known_there_gets_its_answer(world: World) -> None:
    known, unique = new_job(), new_job(unique_key="u")
    await world.store.insert([known, unique])
    await closed(world)
    again, holder = await world.store.insert([known, new_job(unique_key="u")])
    assert (again.created, again.id) == (False, known.id)
    assert (holder.created, holder.id) == (False, unique.id)
    with pytest.raises(QueueClosed):
        await world.store.insert([known, new_job()])


@pytest.mark.parametrize("key", [None, "u"])
async def test_what_is_known_there_does_not_refuse_jobs_of_other_queues(world: World, key: str | None) -> None:
    """Each queue decides about its own jobs; a list is refused for those that are new in the closed one."""
    first = new_job(unique_key=key)
    await world.store.insert([first, new_job(queue="a first")])
    await closed(world)
    there = first if key is None else new_job(unique_key=key)
    answers = await world.store.insert([new_job(queue="a first"), there, new_job(queue="other")])
    assert [(one.created, one.queue) for one in answers] == [(True, "a first"), (False, QUEUE), (True, "other")]
    assert answers[1].id == first.id
    with pytest.raises(QueueClosed) as caught:
        await world.store.insert([new_job(queue="a first"), there, new_job()])
    assert caught.value.queue == QUEUE


async def test_nor_those_of_a_queue_with_a_limit(ruled: Ruled) -> None:
    world = await ruled(limit=2)
    first = new_job(unique_key="u", queue="other")
    await world.store.insert([first, new_job()])
    await closed(world, "other")
    again = new_job(unique_key="u", queue="other")
    answers = await world.store.insert([new_job(), again])
    assert [(one.created, one.id == first.id) for one in answers] == [(True, False), (False, True)]
    with pytest.raises(QueueFull):
        await world.store.insert([again, new_job()])


async def test_what_is_in_it_goes_on(world: World) -> None:
    waits, delayed = await world.insert(), await world.insert(delay=60.0)
    retried, given_back, dead = [await world.running() for _ in range(3)]
    await world.settle(dead, "dead")
    await closed(world)
    assert (await world.settle(retried, "retrying")).accepted
    assert (await world.settle(given_back, "released")).accepted
    await world.advance(3600)
    assert {one.id for one in await world.store.promote(10)} == {delayed, retried.id}
    assert (await world.change("retry", [dead.id])).ids == (dead.id,)
    elsewhere = await world.insert(queue="other")
    assert (await world.change("move", [elsewhere], ChangeOptions(queue=QUEUE))).ids == (elsewhere,)
    everything = {waits, delayed, retried.id, given_back.id, dead.id, elsewhere}
    assert set(await world.claim_ids()) == everything


async def test_a_tick_passes_without_its_job(world: World) -> None:
    await world.insert()
    await closed(world)
    due = float(int(await world.now()))
    await world.schedules.announce(
        [Announcement(Schedule("nightly", "0 3 * * *", "UTC", TYPE, "{}", QUEUE, 5, 0), due)]
    )
    tick = Tick("nightly", due, due + 3600, new_job())
    with pytest.raises(QueueClosed):
        await world.schedules.fire(tick)
    ((planned,), passed) = (await world.schedules.planning()).schedules, await world.schedules.ticks("nightly", 10)
    assert (planned.paused, planned.next_at) == (False, due + 3600)
    assert [(one.at, one.job_id) for one in passed] == [(due, None)]
    await world.operations.resume(QUEUE)
    assert await world.schedules.fire(tick._replace(due=due + 3600, following=due + 7200)) is not None


async def test_every_producer_meanwhile_is_in_or_refused(opener: Opener) -> None:
    worlds = [await opener() for _ in range(3)]
    written: list[str] = []
    refused = 0
    begun = asyncio.Event()

    async def produce(world: World) -> None:
        nonlocal refused
        for size in (1, 3, 1, 20, 2) * 8:
            try:
                written.extend(await world.insert_many(size))
            except QueueClosed:
                refused += 1
            if len(written) > 30:
                begun.set()
            await asyncio.sleep(0)

    try:
        await worlds[0].insert()
        producing = [asyncio.create_task(produce(world)) for world in worlds]
        await begun.wait()
        await closed(worlds[0])
        await asyncio.gather(*producing)
        assert refused
        claims: list[str] = []
        while more := await worlds[1].claim_ids(1000):
            claims += more
        assert set(written) < set(claims)
        assert len(claims) == len(written) + 1
    finally:
        for world in worlds:
            await world.close()


async def test_a_drain_counts_down_to_its_end(world: World) -> None:
    request = OperationRequest("drain", QUEUE, Author("ana", "bastion-1"))
    number = (await world.operations.create(request)).number
    begun = await world.operations.note_drain(number, 5000)
    assert (begun.state, begun.total, begun.done, begun.barrier) == ("running", 5000, 0, 5000)
    assert begun.started_at is not None
    half = await world.operations.note_drain(number, 1880)
    assert (half.state, half.total, half.done, half.processed) == ("running", 5000, 3120, 3120)
    more = await world.operations.note_drain(number, 6000)  # dead jobs were retried into it
    assert (more.state, more.total, more.done) == ("running", 6000, 0)
    over = await world.operations.note_drain(number, 0)
    assert (over.state, over.total, over.done) == ("done", 6000, 6000)
    assert over.finished_at is not None
    assert over.started_at == begun.started_at
    assert await world.operations.note_drain(number, 3) == over
    assert await world.operations.get(number) == over
    assert [one.number for one in await world.operations.list_operations(10, unfinished=True)] == []


async def test_all_that_has_not_ended_is_left_in_a_queue_that_is_drained(world: World) -> None:
    for state in ("running", "queued", "scheduled", "retrying", "completed", "cancelled", "dead", "trashed"):
        await world.job_in(state)
    assert await jobs_left(world.inspector, QUEUE) is None, "it is open"
    await world.operations.set_closed(QUEUE, True)
    assert await jobs_left(world.inspector, QUEUE) == 4


async def test_a_drain_of_an_empty_queue_is_done(world: World) -> None:
    number = (await world.operations.create(OperationRequest("drain", QUEUE, Author("ana", "b")))).number
    done = await world.operations.note_drain(number, 0)
    assert (done.state, done.total) == ("done", 0)
    number = (await world.operations.create(OperationRequest("drain", QUEUE, Author("ana", "b")))).number
    await world.operations.move(number, "cancelled", "it was opened")
    assert (await world.operations.note_drain(number, 2)).state == "cancelled"
