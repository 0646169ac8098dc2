"""Workers whose processes are gone: who is at the same place knows of them, and takes their jobs back at once."""

from __future__ import annotations

import asyncio

import pytest

from queue_core.model.job import Stray
from queue_core.model.outcome import released_stray
from queue_core.ports.store import Doubt, Neighbour
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, held
from tests.conformance.world import World

HERE = "host-1 boot-1 4026531836"


async def test_workers_at_one_place_know_of_each_other(world: World) -> None:
    await world.beat(worker="one", place=HERE, process="71 1000")
    await world.beat(worker="two", place=HERE, process="72 2000")
    await world.beat(worker="elsewhere", place="host-1 boot-1 4026532000", process="71 1000")
    await world.beat(worker="nobody can say")
    await world.beat(worker="of which no process is known", place=HERE)
    reply = await world.beat(worker="three", place=HERE, process="73 3000", with_neighbours=True)
    assert sorted(reply.neighbours or ()) == [Neighbour("one", "71 1000"), Neighbour("two", "72 2000")]
    reply = await world.beat(
        worker="elsewhere", place="host-1 boot-1 4026532000", process="71 1000", with_neighbours=True
    )
    assert reply.neighbours == ()
    assert (await world.beat(worker="three", place=HERE, process="73 3000")).neighbours is None


@pytest.mark.parametrize("how", ["retired", "written off"])
async def test_who_has_left_is_no_neighbour(world: World, how: str) -> None:
    await world.beat(worker="one", place=HERE, process="71 1000", with_neighbours=True)
    if how == "retired":
        await world.store.unregister_worker("one", HERE)
    else:
        await world.store.write_off(["one"], HERE)
    assert (await world.beat(worker="two", place=HERE, process="72 2000", with_neighbours=True)).neighbours == ()


async def test_the_jobs_of_a_process_that_is_gone_come_back_at_once(world: World) -> None:
    """They are fenced, and count as losses where they had begun; those of others stay."""
    await world.beat(worker="gone", place=HERE, process="71 1000")
    lost = await world.running(worker="gone")
    waiting = await world.insert()
    await world.claim(1, ids=[waiting], worker="gone", start_count=0)
    other = await world.running(worker="alive")
    assert await world.store.reclaim(10) == []
    await world.store.write_off(["gone", "never there"], HERE)
    found = {one.id: one for one in await world.store.reclaim(10)}
    assert found.keys() == {lost.id, waiting}
    assert (found[lost.id].losses, found[lost.id].started, found[lost.id].worker) == (1, True, "gone")
    assert (found[waiting].losses, found[waiting].started) == (0, False)
    assert not (await world.settle(lost, "completed")).accepted
    assert (await world.settle(other, "completed")).accepted
    assert {worker.id for worker in (await world.inspector.overview()).workers} == set()


async def test_what_its_last_call_did_is_found_by_a_second_time(world: World) -> None:
    """The server may carry out a claim after the process that sent it has ended."""
    await world.store.write_off(["gone"], HERE)
    late = await world.running(worker="gone")
    assert await world.store.reclaim(10) == []
    await world.store.write_off(["gone"], HERE)
    assert [one.id for one in await world.store.reclaim(10)] == [late.id]


async def test_one_that_is_alive_all_the_same_keeps_what_it_renews_in_time(world: World) -> None:
    claim = await world.running(worker="alive")
    await world.store.write_off(["alive"], HERE)
    assert (await world.beat(held(claim), worker="alive")).lost == ()
    assert await world.store.reclaim(10) == []
    assert (await world.settle(claim, "completed")).accepted


async def test_it_leads_no_more(world: World) -> None:
    assert await world.store.acquire_leadership("sweep", "gone", 1000)
    await world.store.write_off(["gone"], HERE)
    assert await world.store.acquire_leadership("sweep", "next", 10)


async def test_many_at_once_take_each_job_back_once(world: World) -> None:
    ids = await world.insert_many(300)
    await world.claim(300, worker="gone")

    async def take_back() -> list[str]:
        await world.store.write_off(["gone"], HERE)
        return [one.id for one in await world.store.reclaim(1000)]

    taken = [job_id for some in await asyncio.gather(*(take_back() for _ in range(5))) for job_id in some]
    assert sorted(taken) == sorted(ids)


# -- what a worker gives back itself


async def test_what_has_not_begun_is_handed_back_without_blame(world: World) -> None:
    """Also what the store takes for begun: the answer to its claim may lie unread."""
    begun, waits, other = [await world.running(worker=name) for name in ("stalled", "stalled", "other")]
    heart = world.store.open_heartbeat()
    try:
        await asyncio.to_thread(heart.hand_back, "stalled", [begun.id], 0)
    finally:
        await asyncio.to_thread(heart.close)
    (back,) = await world.store.reclaim(10)
    assert (back.id, back.started, back.losses) == (waits.id, False, 0)
    assert back.rank == waits.rank
    assert not (await world.settle(waits, "completed")).accepted
    for claim in (begun, other):
        assert (await world.settle(claim, "completed")).accepted
    assert (await world.claim_job(waits.id)).losses == 0


# -- claims whose answers got lost


async def test_a_claim_in_doubt_tells_what_it_has_given(world: World) -> None:
    known = await world.claim_job(await world.insert(), number=6)
    job_id = await world.insert(ordering_key="k")
    (lost,) = await world.claim(ids=[job_id], number=7)
    await world.claim_job(await world.insert(), number=7, worker="another")
    reply = await world.beat(held(known), doubts=[Doubt(lost.queue, 7), Doubt(lost.queue, 9)])
    assert reply.strays == (Stray(lost.id, lost.token, lost.queue, lost.type, "k"),)
    assert reply.lost == ()
    assert (await world.beat(held(known))).strays == ()


async def test_all_claims_up_to_a_number_may_be_in_doubt(world: World) -> None:
    """Where another server has taken over. Claims without a number are none of a worker's."""
    for number in (0, 1, 2, 3):
        await world.claim_job(await world.insert(), number=number)
    await world.claim_job(await world.insert(), number=1, worker="another")
    asked = {"queues": (QUEUE,), "held_in": ()}
    first, second = sorted((await world.beat(doubt_until=2, **asked)).strays)
    assert (first.queue, first.type, first.ordering_key) == (QUEUE, TYPE, None)
    for stray in (first, second):
        assert (await world.store.settle([released_stray(stray)]))[0].accepted
    assert (await world.beat(doubt_until=2, **asked)).strays == ()
    assert len((await world.beat(doubt_until=3, **asked)).strays) == 1


async def test_what_it_has_given_is_released_without_blame(world: World) -> None:
    await world.insert()
    (lost,) = await world.claim(number=1)
    (stray,) = (await world.beat(doubts=[Doubt(lost.queue, 1)])).strays
    assert (await world.settle(lost._replace(token=stray.token), "released")).rank == lost.rank
    job = await world.job(lost.id)
    assert (job.status, job.losses, job.crashes, job.retry_count) == ("queued", 0, 0, 0)
    assert (await world.beat(doubts=[Doubt(lost.queue, 1)])).strays == ()
    assert await world.claim_ids(number=2) == [lost.id]


async def test_an_old_lease_is_none_of_a_claim_in_doubt(world: World) -> None:
    """Its job was claimed again since, under another number."""
    first = await world.running()
    await world.advance(LEASE + 1)
    await world.store.reclaim(10)
    await world.claim_job(first.id, number=3)
    assert (await world.beat(doubts=[Doubt(first.queue, 0)])).strays == ()


async def test_what_has_not_started_is_given_back_up_to_a_claim(world: World) -> None:
    first, started, later = [await world.insert() for _ in range(3)]
    for number, job_id in enumerate((first, started, later), 1):
        await world.claim(ids=[job_id], number=number)
    heart = world.store.open_heartbeat()
    await asyncio.to_thread(heart.hand_back, WORKER, [started], 2)
    await asyncio.to_thread(heart.close)
    assert [(one.id, one.losses) for one in await world.store.reclaim(10)] == [(first, 0)]
