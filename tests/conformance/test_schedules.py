"""Schedules in the store: each tick passes once, together with its job, whoever asks and however many ask at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from queue_core.errors import QueueFull
from queue_core.model.job import Inserted, new_id
from queue_core.model.rules import QueueRules
from queue_core.model.schedule import Announcement, PassedTick, Planned, Schedule, Tick
from tests.conformance.making import QUEUE, TYPE, new_job
from tests.conformance.modes import Opener
from tests.conformance.world import World

SCHEDULE = Schedule("nightly", "0 3 * * *", "Europe/Paris", TYPE, '{"a": "é"}', QUEUE, 7, 2, "fifo")
HOUR = 3600.0


async def announce(world: World, after: float = HOUR, **given: Any) -> float:
    """Announce a schedule that ticks after so many seconds, a whole number; return when."""
    tick = float(int(await world.now())) + after
    await world.schedules.announce([Announcement(SCHEDULE._replace(**given), tick)])
    return tick


async def planned(world: World, name: str = SCHEDULE.name) -> Planned:
    (found,) = [one for one in (await world.schedules.planning()).schedules if one.schedule.name == name]
    return found


def tick_of(one: Planned, job: bool = True) -> Tick:
    """Return the next tick of a schedule, the one after it an hour later."""
    schedule = one.schedule
    brought = new_job(queue=schedule.queue, type=schedule.type, payload=schedule.payload, priority=schedule.priority)
    return Tick(schedule.name, one.next_at, one.next_at + HOUR, brought if job else None)


async def fire(world: World, **given: Any) -> tuple[Inserted | None, Tick]:
    tick = tick_of(await planned(world), **given)
    return await world.schedules.fire(tick), tick


async def test_nothing_is_planned(world: World) -> None:
    planning = await world.schedules.planning()
    assert planning.schedules == ()
    assert abs(planning.now - await world.now()) < 60
    assert await world.schedules.until_tick() is None
    assert await world.schedules.ticks("nightly", 10) == []
    await world.schedules.announce([])
    assert await world.schedules.fire(Tick("nightly", 1.0, 2.0, new_job())) is None
    assert not await world.schedules.pause("nightly")
    assert not await world.schedules.resume("nightly", 5.0)
    assert not await world.schedules.remove("nightly")


async def test_what_is_announced_is_planned(world: World) -> None:
    tick = await announce(world)
    assert await planned(world) == Planned(SCHEDULE, tick)
    left = await world.schedules.until_tick()
    assert left is not None
    assert HOUR - 60 < left <= HOUR
    assert await world.schedules.ticks("nightly", 10) == []
    assert await world.claim() == []


async def test_schedules_stand_by_name_and_the_soonest_counts(world: World) -> None:
    await announce(world, name="b", queue="one", after=2 * HOUR)
    await announce(world, name="c", queue="two")
    await announce(world, name="a", queue="one", after=3 * HOUR)
    found = (await world.schedules.planning()).schedules
    assert [one.schedule.name for one in found] == ["a", "b", "c"]
    left = await world.schedules.until_tick()
    assert left is not None
    assert HOUR - 60 < left <= HOUR
    await world.advance(HOUR + 1)
    left = await world.schedules.until_tick()
    assert left is not None
    assert -60 < left < 0


async def test_announcing_again_keeps_the_next_tick(world: World) -> None:
    tick = await announce(world)
    changed: dict[str, Any] = {"payload": '{"b": 1}', "priority": 20, "max_retries": 0, "ordering_key": None}
    await announce(world, after=9 * HOUR, **changed)
    assert await planned(world) == Planned(SCHEDULE._replace(**changed), tick)


async def test_another_cron_or_zone_or_type_moves_the_next_tick(world: World) -> None:
    await announce(world)
    changed: dict[str, Any] = {}
    for after, change in enumerate(({"cron": "5 3 * * *"}, {"tz": "UTC"}, {"type": "other"}), 2):
        changed |= change
        tick = await announce(world, after=after * HOUR, **changed)
        assert await planned(world) == Planned(SCHEDULE._replace(**changed), tick)


async def test_a_tick_passes_with_its_job(world: World) -> None:
    due = await announce(world)
    inserted, tick = await fire(world)
    assert tick.job is not None
    assert inserted is not None
    assert (inserted.id, inserted.queue, inserted.due, inserted.created) == (tick.job.id, QUEUE, None, True)
    assert inserted.rank is not None
    job = await world.job(inserted.id)
    assert (job.status, job.type, job.payload, job.priority) == ("queued", TYPE, {"a": "é"}, 7)
    assert await planned(world) == Planned(SCHEDULE, due + HOUR, last_at=due, last_job=job.id)
    assert await world.schedules.ticks("nightly", 10) == [PassedTick(due, job.id)]
    assert await world.claim_ids() == [job.id]
    assert {one.outcome: one.count for one in await world.inspector.tallies()} == {"enqueued": 1}


async def test_the_queue_of_a_job_is_made(world: World) -> None:
    await announce(world, queue="new")
    await fire(world)
    assert await world.store.queues() == {"new": False}
    assert len(await world.claim_ids(queue="new")) == 1


async def test_a_tick_passes_once(world: World) -> None:
    await announce(world)
    first, tick = await fire(world)
    assert first is not None
    assert await world.schedules.fire(tick) is None
    assert await world.schedules.fire(tick._replace(job=new_job())) is None
    assert await world.schedules.fire(tick._replace(due=tick.due + 1, job=new_job())) is None
    assert await world.claim_ids() == [first.id]
    assert len(await world.schedules.ticks("nightly", 10)) == 1


async def test_of_many_at_once_one_fires(world: World, opener: Opener) -> None:
    await announce(world)
    others = [await opener() for _ in range(3)]
    try:
        one = await planned(world)
        stores = [world.schedules, *(other.schedules for other in others)]
        answers = await asyncio.gather(*(store.fire(tick_of(one)) for store in stores for _ in range(5)))
    finally:
        for other in others:
            await other.close()
    assert sum(answer is not None for answer in answers) == 1
    assert len(await world.claim_ids()) == 1
    assert len(await world.schedules.ticks("nightly", 10)) == 1


async def test_many_at_once_over_many_ticks(world: World, opener: Opener) -> None:
    """Schedulers that read and fire as fast as they can: one job a tick, and none for a tick left out."""
    await announce(world)
    others = [await opener() for _ in range(2)]

    async def work(one: World) -> None:
        while len(await one.schedules.ticks("nightly", 100)) < 20:
            await one.schedules.fire(tick_of(await planned(one)))

    try:
        await asyncio.gather(*(work(one) for one in (world, *others)))
    finally:
        for other in others:
            await other.close()
    passed = await world.schedules.ticks("nightly", 100)
    assert [one.at for one in passed] == [passed[0].at - HOUR * number for number in range(len(passed))]
    assert sorted(await world.claim_ids()) == sorted(str(one.job_id) for one in passed)


async def test_a_tick_without_a_job(world: World) -> None:
    due = await announce(world)
    inserted, _ = await fire(world, job=False)
    assert inserted is None
    assert await planned(world) == Planned(SCHEDULE, due + HOUR, last_at=due)
    assert await world.schedules.ticks("nightly", 10) == [PassedTick(due, None)]
    assert await world.claim() == []


async def test_a_full_queue_lets_the_tick_pass_without_its_job(opener: Opener) -> None:
    world = await opener({QUEUE: QueueRules(limit=1)})
    try:
        due = await announce(world)
        first, _ = await fire(world)
        assert first is not None
        refused = tick_of(await planned(world))
        with pytest.raises(QueueFull):
            await world.schedules.fire(refused)
        assert await planned(world) == Planned(SCHEDULE, due + 2 * HOUR, last_at=due + HOUR)
        assert await world.schedules.fire(refused) is None
        assert await world.claim_ids() == [first.id]
        third, _ = await fire(world)
        assert third is not None
        assert [one.job_id for one in await world.schedules.ticks("nightly", 10)] == [third.id, None, first.id]
    finally:
        await world.close()


async def test_a_time_that_has_passed_brings_no_second_job(world: World) -> None:
    due = await announce(world)
    first, _ = await fire(world)
    assert first is not None
    await world.schedules.announce([Announcement(SCHEDULE._replace(cron="* * * * *"), due)])
    assert (await planned(world)).next_at == due
    again, tick = await fire(world)
    assert again is None
    assert (await planned(world)).next_at == tick.following
    assert await world.claim_ids() == [first.id]
    assert await world.schedules.ticks("nightly", 10) == [PassedTick(due, first.id)]


async def test_a_paused_schedule_does_not_tick(world: World) -> None:
    due = await announce(world)
    assert await world.schedules.pause("nightly")
    assert not await world.schedules.pause("nightly")
    paused = Planned(SCHEDULE, due, paused=True)
    assert await planned(world) == paused
    assert await world.schedules.until_tick() is None
    assert (await fire(world))[0] is None
    await announce(world, after=2 * HOUR)
    assert await planned(world) == paused
    await announce(world, after=2 * HOUR, tz="UTC")
    assert (await planned(world)).paused
    assert await world.schedules.until_tick() is None
    assert await world.claim() == []


async def test_a_resumed_schedule_ticks_at_the_time_it_is_given(world: World) -> None:
    due = await announce(world)
    assert not await world.schedules.resume("nightly", due)
    await world.schedules.pause("nightly")
    assert await world.schedules.resume("nightly", due + 3 * HOUR)
    assert not await world.schedules.resume("nightly", due)
    assert await planned(world) == Planned(SCHEDULE, due + 3 * HOUR)
    left = await world.schedules.until_tick()
    assert left is not None
    assert left > 3 * HOUR
    assert (await fire(world))[0] is not None


async def test_a_removed_schedule_is_gone_with_its_ticks(world: World) -> None:
    await announce(world)
    await announce(world, name="other")
    inserted, tick = await fire(world)
    assert inserted is not None
    assert await world.schedules.remove("nightly")
    assert not await world.schedules.remove("nightly")
    assert [one.schedule.name for one in (await world.schedules.planning()).schedules] == ["other"]
    assert await world.schedules.ticks("nightly", 10) == []
    assert await world.schedules.fire(tick._replace(due=tick.following, job=new_job())) is None
    assert await world.claim_ids() == [inserted.id]
    due = await announce(world)
    assert await planned(world) == Planned(SCHEDULE, due)


async def test_a_schedule_moves_to_another_queue_with_all_that_it_has(world: World) -> None:
    due = await announce(world)
    first, _ = await fire(world)
    assert first is not None
    await world.schedules.pause("nightly")
    await announce(world, after=9 * HOUR, queue="elsewhere")
    moved = Planned(SCHEDULE._replace(queue="elsewhere"), due + HOUR, True, due, first.id)
    assert await planned(world) == moved
    assert await world.schedules.until_tick() is None
    await world.schedules.resume("nightly", due + HOUR)
    assert await planned(world) == replace(moved, paused=False)
    second, _ = await fire(world)
    assert second is not None
    assert await world.claim_ids(queue="elsewhere") == [second.id]
    assert [one.job_id for one in await world.schedules.ticks("nightly", 10)] == [second.id, first.id]


async def test_the_newest_ticks_come_first_and_no_more_than_asked_for(world: World) -> None:
    await announce(world)
    jobs = [(await fire(world))[0] for _ in range(5)]
    ids = [job.id for job in jobs if job is not None]
    assert [one.job_id for one in await world.schedules.ticks("nightly", 3)] == ids[:1:-1]
    assert await world.schedules.ticks("nightly", 0) == []


@pytest.mark.parametrize(("days", "kept"), [(6, 1), (8, 0)])
async def test_ticks_are_kept_as_long_as_completed_jobs(world: World, days: int, kept: int) -> None:
    await announce(world, after=0)
    await fire(world)
    await world.advance(days * 86400)
    await world.store.upkeep()
    assert len(await world.schedules.ticks("nightly", 10)) == kept
    assert (await planned(world)).last_job is not None


async def test_names_that_are_hard_to_store(world: World) -> None:
    name = "a:b 'c' \"d\" \\ é * %s 日本" + "x" * 100
    due = await announce(world, name=name, queue="q'\"\\:é", payload='{"a": "b c\\n\'"}')
    one = await planned(world, name)
    assert one == Planned(SCHEDULE._replace(name=name, queue="q'\"\\:é", payload='{"a": "b c\\n\'"}'), due)
    assert await world.schedules.fire(tick_of(one)) is not None
    assert len(await world.schedules.ticks(name, 10)) == 1
    assert await world.schedules.pause(name)
    assert await world.schedules.remove(name)


async def test_a_job_of_a_known_id_is_no_second_job(world: World) -> None:
    """Ids are new ones; one that is known shows that the job goes the way of all others."""
    await announce(world)
    known = await world.insert(id=new_id())
    inserted = await world.schedules.fire(tick_of(await planned(world))._replace(job=new_job(id=known)))
    assert inserted is not None
    assert not inserted.created
    assert await world.claim_ids() == [known]
