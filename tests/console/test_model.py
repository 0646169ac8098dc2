"""The model takes counts from snapshots only, and knows when it may have missed something."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobconsole.core.model import Model
from jobconsole.core.rates import RateMeter
from jobconsole.core.snapshot import Snapshot, SnapshotNeeds, live_releases, read_snapshot
from queue_core import JobQueue
from queue_core.model.events import Event, EventBatch
from queue_core.model.report import SeriesPoint
from tests.conformance.modes import memory
from tests.conformance.world import World


class Steady:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = 1_000.5

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def steady() -> Steady:
    return Steady()


@pytest.fixture
def model(steady: Steady) -> Model:
    return Model(steady)


def batch(*events: Event, gap: bool = False) -> EventBatch:
    """Return a message of one queue."""
    return EventBatch("work", "generation", 1, 0.0, events, gap)


def completed(number: int) -> list[Event]:
    """Return the ends of so many jobs."""
    return [Event("completed", "work", f"job-{one}", "task", 1) for one in range(number)]


async def snapshot(jobs: JobQueue, steady: Steady) -> Snapshot:
    """Return a snapshot as if it had been read now by this clock."""
    read = await read_snapshot(jobs.inspector, SnapshotNeeds(minutes=3))
    return replace(read, began=steady.at, taken=steady.at)


async def test_counts_come_from_snapshots_and_never_from_events(
    jobs: JobQueue, world: World, model: Model, steady: Steady
) -> None:
    await world.insert_many(3)
    model.adopt(await snapshot(jobs, steady))
    model.apply(batch(*(Event("created", "work", f"new-{number}", "task") for number in range(50))))
    assert model.snapshot is not None
    assert model.snapshot.totals.queued == 3
    assert model.stale


async def test_totals_are_of_workers_that_live_and_of_deaths_in_the_window() -> None:
    world = await memory(None)()
    numbers = [await world.store.register_release(name) for name in ("r1", "r2")]
    await world.beat(worker="lost", concurrency=3, release=numbers[0])
    await world.ended("dead")
    first = await world.insert()
    await world.advance(1000)
    await world.beat(worker="alive", concurrency=4, release=numbers[1])
    await world.ended("dead")
    await world.insert(queue="other")
    read = await read_snapshot(world.inspector, SnapshotNeeds(window=600.0))
    totals = read.totals
    assert (totals.workers, totals.lost_workers, totals.slots, totals.dead) == (1, 1, 4, 2)
    assert (read.deaths, live_releases(read)) == (1, ["r2"])
    assert totals.oldest == (await world.job(first)).run_at
    await world.close()


def test_events_that_the_store_never_counts_hide_none_that_it_does() -> None:
    """Some came twice, or were of before the first look."""
    minute = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
    meter = RateMeter()
    meter.update([], minute, 0.0)
    for _ in range(5):
        meter.hear("completed", 1.0)
    # The store counts late: what it has not counted by the look after the next one never was.
    for at in (2.0, 3.0):
        meter.update([], minute, at)
    for at in (4.0, 5.0):
        meter.update([SeriesPoint(minute, 0, 3, 0, 0)], minute, at)
    assert sum(meter.rings["completed"].tail(10, 10)) == 8


def test_what_the_store_counted_of_the_running_minute_has_happened_by_now() -> None:
    minute = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
    meter = RateMeter()
    meter.update([SeriesPoint(minute, 0, 30, 0, 0)], minute + timedelta(seconds=30), 1_000.0)
    assert sum(meter.rings["completed"].tail(1_000.0, 40)) == 30


async def test_rates_come_from_events(model: Model, steady: Steady) -> None:
    for _ in range(5):
        model.apply(batch(*completed(20)))
        steady.at += 1
    assert model.rate("completed") == 20
    assert model.event_rate() == 20
    assert model.history("completed", 6) == [0, 20, 20, 20, 20, 20]


async def test_a_gap_asks_for_a_snapshot_and_ends_with_it(jobs: JobQueue, model: Model, steady: Steady) -> None:
    model.adopt(await snapshot(jobs, steady))
    model.apply(batch(gap=True))
    assert (model.gap, model.stale) == (True, True)
    model.adopt(await snapshot(jobs, steady))
    assert (model.gap, model.stale) == (False, False)


async def test_a_message_without_events_changes_nothing(jobs: JobQueue, model: Model, steady: Steady) -> None:
    model.adopt(await snapshot(jobs, steady))
    model.apply(batch())
    assert not model.stale


async def test_the_store_has_the_clock(jobs: JobQueue, model: Model, steady: Steady) -> None:
    read = await snapshot(jobs, steady)
    model.adopt(read)
    steady.at += 60
    assert (model.now - read.now).total_seconds() == pytest.approx(60)
    assert model.age == pytest.approx(60)


async def test_the_chart_begins_with_what_the_store_counted(
    jobs: JobQueue, world: World, model: Model, steady: Steady
) -> None:
    for _ in range(6):
        await world.ended("completed")
    # Something must have happened before the console looked: the running minute counts as far as it has gone.
    steady.at += 0.6
    model.adopt(await snapshot(jobs, steady))
    assert 0 <= sum(model.history("completed", 120)) <= 6 + 1e-6


async def test_what_no_event_said_is_counted_at_the_next_look(
    jobs: JobQueue, world: World, model: Model, steady: Steady
) -> None:
    model.adopt(await snapshot(jobs, steady))
    steady.at += 60
    for _ in range(7):
        await world.ended("completed")
    model.apply(batch(*completed(3)))
    for _ in range(3):
        model.adopt(await snapshot(jobs, steady))
        steady.at += 1
    assert sum(model.history("completed", 10)) == 7


async def test_events_that_come_before_their_count_or_after_it_count_once(
    jobs: JobQueue, world: World, model: Model, steady: Steady
) -> None:
    model.adopt(await snapshot(jobs, steady))
    steady.at += 60
    for number in range(1, 21):
        await world.ended("completed")
        if number % 2:
            model.apply(batch(*completed(1)))
        model.adopt(await snapshot(jobs, steady))
        if not number % 2:
            model.apply(batch(*completed(1)))
        steady.at += 1
    model.adopt(await snapshot(jobs, steady))
    assert sum(model.history("completed", 30)) == 20


async def test_running_jobs_of_a_snapshot_and_of_events_meet(
    jobs: JobQueue, world: World, model: Model, steady: Steady
) -> None:
    claim = await world.running()
    model.adopt(await snapshot(jobs, steady))
    steady.at += 1
    model.apply(batch(Event("progress", "work", claim.id, "task", claim.token, {"progress": 30})))
    model.adopt(await snapshot(jobs, steady))
    assert model.running.live[claim.id].progress == 30
    model.apply(batch(Event("completed", "work", claim.id, "task", claim.token)))
    model.adopt(await snapshot(jobs, steady))
    assert model.running.live == {}, "a snapshot that still has it is older than the event"


async def test_hostile_names_come_out_of_a_snapshot_harmless(jobs: JobQueue, world: World, steady: Steady) -> None:
    await world.ended("dead", type="task", queue="q\u202eevil")
    read = await snapshot(jobs, steady)
    assert "\u202e" not in read.queues[0].label
    assert read.queues[0].name == "q\u202eevil", "verbs use the name as it is"
    assert "\u202e" not in read.signatures[0].queues[0]
