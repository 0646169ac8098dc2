"""A worker is killed at each step of the protocol: nothing is lost, and only what was not settled runs again."""

from __future__ import annotations

import signal

import pytest

from tests.faults.plant import LONG, POINTS, Plant, now

JOBS = 2000 if LONG else 150


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_a_step(plant: Plant, point: str) -> None:
    plant.crew.start(2)
    plant.arm(point)
    await plant.enqueue_mixed(JOBS)
    hit = await plant.until_sprung(point)
    since = now()
    assert plant.crew.wait(hit) == -signal.SIGKILL
    await plant.until_quiet()
    found = await plant.findings(f"killed {point}", since)
    assert found.problems == []
    assert (found.jobs, found.unfinished) == (JOBS, 0)
    if point == "after_pop":
        assert found.extra_runs == 0, "what was only nominated had not begun"
    else:
        assert found.extra_runs <= 20, "no more than what one worker may hold"


async def test_killed_again_and_again(plant: Plant) -> None:
    """Whoever it hits, wherever he is, while new jobs come in; each time another takes his place."""
    plant.crew.start(2)
    async with plant.load(longest_ms=300):
        for _ in range(20 if LONG else 3):
            victim = plant.random.choice(plant.crew.alive)
            await plant.until_started(plant.started(victim) + plant.random.randint(1, 30), victim)
            since = now()
            plant.crew.kill(victim)
            plant.crew.start(1)
    await plant.until_quiet()
    found = await plant.findings("killed again and again", since)
    assert found.problems == []
    assert found.extra_runs > 0
