"""The leader's duty for schedules: when it looks, what it fires, and what it leaves for the next time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from queue_core.client.middleware import Hooks, Middleware
from queue_core.errors import StoreUnavailable
from queue_core.model.job import NewJob
from queue_core.model.schedule import Announcement, Schedule
from queue_core.ports.locks import LockHeld
from queue_core.stores.memory.schedules import MemorySchedules
from queue_core.stores.memory.store import MemoryStore
from queue_core.testing import FakeClock
from queue_core.worker import scheduler
from queue_core.worker.scheduler import TICK_POLL, Scheduler
from tests.waiting import PATIENCE

DAILY = Schedule("daily", "0 0 * * *", "UTC", "task", "{}", "work", ordering_key="fifo")
DAY = 86400.0


class Counting:
    """Schedules that count what they are asked, and fail when they are told to."""

    def __init__(self, schedules: MemorySchedules) -> None:
        self._schedules = schedules
        self.calls: Counter[str] = Counter()
        self.failing = ""
        self.failure: Exception = StoreUnavailable("memory", "somebody pulled the plug")

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            self.calls[name] += 1
            if name == self.failing:
                raise self.failure
            return await getattr(self._schedules, name)(*args)

        return call


class Scene:
    """A scheduler over a store whose clock stands still at midnight."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.schedules = Counting(MemorySchedules(self.store))
        self.scheduler = Scheduler(self.schedules, Hooks())  # type: ignore[arg-type]

    async def announce(self, *seconds: float, **given: Any) -> None:
        """Announce schedules that tick so many seconds from now."""
        now = self.clock.now()
        await self.schedules.announce(
            [
                Announcement(DAILY._replace(name=f"daily-{number}", **given), now + after)
                for number, after in enumerate(seconds)
            ]
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


class Hanging(Middleware):
    """Waits for a server that does not answer."""

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        await asyncio.Event().wait()


async def test_ticks_wait_only_a_moment_for_hooks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's other duties wait behind them: all of its ticks together have so much time."""
    monkeypatch.setattr(scheduler, "HOOKS_SECONDS", 0.1)
    hooks = Hooks()
    hooks.add(Hanging())
    await scene.announce(0.0, 0.0, 0.0)
    async with asyncio.timeout(PATIENCE):
        fired, _ = await Scheduler(scene.schedules, hooks).fire_due()  # type: ignore[arg-type]
    assert len(fired) == 3, "as with a hook that fails"
    assert scene.schedules.calls["fire"] == 3


async def test_it_looks_again_after_half_a_second_when_nothing_is_due_sooner(scene: Scene) -> None:
    for seconds in ((), (3600.0,)):
        await scene.announce(*seconds)
        scheduler = Scheduler(scene.schedules, Hooks())  # type: ignore[arg-type]
        assert scheduler.until_poll() <= 0
        assert await scheduler.run_once() == []
        assert TICK_POLL - 0.4 < scheduler.until_poll() <= TICK_POLL
        asked = scene.schedules.calls["until_tick"]
        assert await scheduler.run_once() == []
        assert scene.schedules.calls["until_tick"] == asked
    assert scene.schedules.calls["planning"] == 0


async def test_a_tick_that_comes_sooner_shortens_its_rest(scene: Scene) -> None:
    await scene.announce(3600.0, 0.05)
    assert await scene.scheduler.run_once() == []
    assert scene.scheduler.until_poll() <= 0.05
    scene.clock.advance(0.05)
    while scene.scheduler.until_poll() > 0:
        time.sleep(0.001)  # noqa: ASYNC251  nothing else runs here
    (fired,) = await scene.scheduler.run_once()
    assert (fired.job.type, fired.job.queue, fired.job.ordering_key) == ("task", "work", "fifo")
    assert (fired.inserted.id, fired.inserted.created) == (fired.job.id, True)


async def test_all_that_is_due_is_fired_in_one_look_and_missed_ticks_once(scene: Scene) -> None:
    await scene.announce(-3.5 * DAY, 0.0, 3600.0)
    assert len(await scene.scheduler.run_once()) == 2
    planned = (await scene.schedules.planning()).schedules
    now = scene.clock.now()
    assert [one.next_at - now for one in planned] == [DAY, DAY, 3600.0]
    assert await Scheduler(scene.schedules, Hooks()).run_once() == []  # type: ignore[arg-type]


async def test_after_a_failure_of_the_store_it_looks_at_once_and_fires_what_is_still_due(scene: Scene) -> None:
    await scene.announce(0.0)
    for name in ("until_tick", "planning", "fire"):
        scene.schedules.failing = name
        with pytest.raises(StoreUnavailable):
            await scene.scheduler.run_once()
        assert scene.scheduler.until_poll() <= 0
    scene.schedules.failing = ""
    assert len(await scene.scheduler.run_once()) == 1


async def test_what_it_cannot_follow_keeps_it_neither_busy_nor_from_the_rest(scene: Scene) -> None:
    await scene.announce(-5.0, tz="Mars/Olympus")
    await scene.schedules.announce([Announcement(DAILY, scene.clock.now())])
    assert [one.job.type for one in await scene.scheduler.run_once()] == ["task"]
    assert scene.scheduler.until_poll() > TICK_POLL - 0.4
    assert (await scene.schedules.planning()).schedules[1].last_at is None


async def test_a_paused_schedule_wakes_nobody(scene: Scene) -> None:
    await scene.announce(-5.0)
    await scene.schedules.pause("daily-0")
    assert await scene.scheduler.run_once() == []
    assert scene.scheduler.until_poll() > TICK_POLL - 0.4
    assert scene.schedules.calls["planning"] == scene.schedules.calls["fire"] == 0


async def test_of_the_ticks_that_wait_for_one_lock_one_is_tried(scene: Scene) -> None:
    """Each try takes its time, in which the leader does nothing else."""
    await scene.announce(-3, -2, -1)
    await scene.announce(0, queue="other")
    scene.schedules.failing, scene.schedules.failure = "fire", LockHeld("memory")
    assert await scene.scheduler.fire_due() == ([], None)
    assert scene.schedules.calls["fire"] == 2, "one for each queue"
    scene.schedules.failing = ""
    fired, _ = await scene.scheduler.fire_due()
    assert len(fired) == 3
