"""Series: what happened in each of the last minutes."""

from datetime import timedelta
from itertools import pairwise

import pytest

from queue_core.model.report import SeriesPoint
from tests.conformance.world import World


def total(points: list[SeriesPoint]) -> tuple[int, int, int, int]:
    return (
        sum(point.enqueued for point in points),
        sum(point.completed for point in points),
        sum(point.retried for point in points),
        sum(point.dead for point in points),
    )


async def test_every_minute_is_there(world: World) -> None:
    points = await world.inspector.series(10)
    assert len(points) == 10
    assert total(points) == (0, 0, 0, 0)
    for earlier, later in pairwise(points):
        assert later.minute - earlier.minute == timedelta(minutes=1)
    now = (await world.inspector.overview()).now
    assert timedelta(0) <= now - points[-1].minute <= timedelta(seconds=70)


async def test_it_counts_what_happened(world: World) -> None:
    for kind in ("completed", "completed", "retrying", "dead", "released", "cancelled"):
        await world.ended(kind)
    assert total(await world.inspector.series(5)) == (6, 2, 1, 1)


async def test_what_upkeep_has_summed_up_is_added_to(world: World) -> None:
    for _ in range(3):
        await world.ended("completed")
        await world.ended("dead")
        await world.upkeep()
    assert total(await world.inspector.series(5)) == (6, 3, 0, 3)


@pytest.mark.parametrize("summed_up", [False, True])
async def test_when_it_happened(world: World, summed_up: bool) -> None:
    await world.ended("completed")
    await world.advance(300)
    await world.ended("dead")
    if summed_up:
        await world.upkeep()
    points = await world.inspector.series(10)
    assert total(points) == (2, 1, 0, 1)
    assert total(points[-3:]) == (1, 0, 0, 1)
    assert total(points[:-3]) == (1, 1, 0, 0)


async def test_the_oldest_minute_is_whole(world: World) -> None:
    await world.ended("completed")
    await world.advance(180)
    while True:
        points = await world.inspector.series(10)
        (place,) = [place for place, point in enumerate(points) if point.completed]
        shorter = await world.inspector.series(10 - place)
        if shorter[-1].minute == points[-1].minute:  # else a minute has begun in between
            break
    assert shorter == points[place:]


async def test_older_minutes_are_left_out(world: World) -> None:
    await world.ended("completed")
    await world.advance(600)
    assert total(await world.inspector.series(5)) == (0, 0, 0, 0)
    assert total(await world.inspector.series(15)) == (1, 1, 0, 0)


async def test_of_one_queue(world: World) -> None:
    await world.ended("completed", queue="a")
    await world.ended("dead", queue="b")
    assert total(await world.inspector.series(5, "a")) == (1, 1, 0, 0)
    assert total(await world.inspector.series(5, "b")) == (1, 0, 0, 1)
    assert total(await world.inspector.series(5)) == (2, 1, 0, 1)
    assert total(await world.inspector.series(5, "nowhere")) == (0, 0, 0, 0)


async def test_a_lost_job_is_a_death(world: World) -> None:
    await world.lost(3)
    assert total(await world.inspector.series(10)) == (1, 0, 0, 1)


async def test_folded_or_not_is_the_same(world: World) -> None:
    await world.ended("completed")
    await world.advance(120)
    await world.ended("retrying")
    before = total(await world.inspector.series(10))
    await world.store.upkeep()
    assert total(await world.inspector.series(10)) == before
    await world.ended("completed")
    assert total(await world.inspector.series(10)) == (3, 2, 1, 0)
