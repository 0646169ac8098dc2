"""The scripts of schedules change what their headers say and nothing else, and run again they change nothing."""

from __future__ import annotations

from redis.asyncio import Redis

from queue_core.model.schedule import Announcement, Schedule, Tick
from tests.conformance.making import new_job
from tests.conformance.world import World
from tests.redis.store.stored import Look, changes

DAILY = Schedule("daily", "0 3 * * *", "UTC", "task", "{}", "work", 5, 3)
FIRST, SECOND = 4_000_000_000.0, 4_000_086_400.0
"""Seconds since the epoch, later than any clock of a test."""

FIELDS = {
    "cron": "0 3 * * *",
    "tz": "UTC",
    "type": "task",
    "payload": "{}",
    "priority": "5",
    "max_retries": "3",
    "ordering_key": "",
    "next": "4000000000000000",
}
WRITTEN = {
    "schema": "2",
    "schedules": {"daily": "work"},
    "schedule:daily": FIELDS,
    "ticks": {"daily": 4_000_000_000_000_000},
}


async def announce(world: World, **given: object) -> None:
    await world.schedules.announce([Announcement(DAILY._replace(**given), FIRST)])  # type: ignore[arg-type]


async def test_write(world: World, look: Look) -> None:
    for _ in range(2):
        await announce(world)
        assert await look() == WRITTEN


async def test_write_again_keeps_the_next_tick(world: World, look: Look) -> None:
    await announce(world)
    before = await look()
    await world.schedules.announce([Announcement(DAILY._replace(payload='{"a":1}'), SECOND)])
    assert changes(before, await look()) == {"schedule:daily": {"payload": '{"a":1}'}}


async def test_switch(world: World, look: Look) -> None:
    await announce(world)
    before = await look()
    for _ in range(2):
        await world.schedules.pause("daily")
        assert changes(before, await look()) == {"schedule:daily": {"paused": "1"}, "ticks": None}
    for _ in range(2):
        await world.schedules.resume("daily", FIRST)
        assert await look() == before


async def test_fire(world: World, look: Look) -> None:
    await announce(world)
    before = await look()
    tick = Tick("daily", FIRST, SECOND, new_job(id="a"))
    await world.schedules.fire(tick)
    after = await look()
    changed = changes(before, after)
    assert changed.pop("job:a")["type"] == "task"
    assert {key: changed[key] for key in ("queues", "schedule:daily", "ticks", "fired:daily")} == {
        "queues": ["work"],
        "schedule:daily": {"next": "4000086400000000", "last": "4000000000000000", "last_job": "a"},
        "ticks": {"daily": 4_000_086_400_000_000},
        "fired:daily": {"4000000000000000 a": 4_000_000_000_000_000},
    }
    assert changed["pending"] == {"a": "5/1"}
    await world.schedules.fire(tick._replace(job=new_job(id="b")))
    assert await look() == after


async def test_fire_without_a_job(world: World, look: Look) -> None:
    await announce(world)
    before = await look()
    await world.schedules.fire(Tick("daily", FIRST, SECOND, None))
    assert changes(before, await look()) == {
        "schedule:daily": {"next": "4000086400000000", "last": "4000000000000000", "last_job": ""},
        "ticks": {"daily": 4_000_086_400_000_000},
        "fired:daily": {"4000000000000000 ": 4_000_000_000_000_000},
    }


async def test_take(world: World, look: Look) -> None:
    await announce(world)
    await world.schedules.fire(Tick("daily", FIRST, SECOND, None))
    for _ in range(2):
        await world.schedules.remove("daily")
        assert await look() == {"schema": "2"}


async def test_moving_leaves_nothing_behind(world: World, look: Look) -> None:
    await announce(world)
    await world.schedules.fire(Tick("daily", FIRST, SECOND, None))
    before = await look()
    await announce(world, queue="other")
    moved = await look()
    assert changes(before, moved) == {
        "schedules": {"daily": "other"},
        "schedule:daily": None,
        "ticks": None,
        "fired:daily": None,
        "{other}:schedule:daily": before["schedule:daily"],
        "{other}:ticks": before["ticks"],
        "{other}:fired:daily": before["fired:daily"],
    }
    await announce(world)
    assert await look() == before


async def test_moving_keeps_the_last_thousand_ticks(world: World, client: Redis, redis_prefix: str) -> None:
    await announce(world)
    await client.zadd(
        f"{redis_prefix}{{work}}:fired:daily", {f"{second}000000 ": second * 1e6 for second in range(1, 1101)}
    )
    await announce(world, queue="other")
    ticks = [one.at for one in await world.schedules.ticks("daily", 2000)]
    assert ticks == [float(second) for second in range(1100, 100, -1)]
