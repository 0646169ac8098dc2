"""Schedules of a store: one that has ticked, one that is late, one that is paused."""

from __future__ import annotations

import time

from queue_core import JobQueue
from queue_core.model.schedule import Announcement, Planned, Schedule
from tests.conformance.making import new_job
from tests.conformance.test_schedules import tick_of
from tests.conformance.world import World

NIGHTLY = Schedule("nightly", "0 3 * * *", "Europe/Paris", "report", '{"n": 7}', "reports", 10, 2)
SYNC = Schedule("sync", "*/5 * * * *", "UTC", "sync_crm", '{"user": {"id": 3}}', "crm")
WEEKLY = Schedule("weekly", "0 3 * * MON", "UTC", "archive", "{}", "default", ordering_key="one")
HOUR = 3600


async def announce(jobs: JobQueue, schedule: Schedule, after: float) -> None:
    """Write a schedule that ticks after so many seconds."""
    await jobs.schedule_store.announce([Announcement(schedule, int(time.time()) + after)])


async def timetable(jobs: JobQueue, world: World) -> list[str]:
    """Write three schedules; return the jobs that `nightly` brought, the oldest first: one completed, one dead."""
    await announce(jobs, SYNC, -HOUR)
    await announce(jobs, WEEKLY, 30 * HOUR)
    await announce(jobs, NIGHTLY, HOUR)
    await jobs.schedule_store.pause("weekly")
    brought = []
    for end in ("completed", "dead"):
        brought.append(await tick(jobs))
        claim = await world.claim_job(brought[-1], queue="reports", types=("report",))
        await world.settle(claim, end)
    return brought


async def tick(jobs: JobQueue, name: str = "nightly", with_job: bool = True) -> str:
    """Let the next tick of a schedule pass; return the id of its job, "" for none."""
    one = (await planned(jobs, name)).schedule
    made = new_job(queue=one.queue, type=one.type, payload=one.payload, priority=one.priority)
    inserted = await jobs.schedule_store.fire(
        tick_of(await planned(jobs, name))._replace(job=made if with_job else None)
    )
    return inserted.id if inserted else ""


async def planned(jobs: JobQueue, name: str) -> Planned:
    """Return a schedule as the store has it."""
    (found,) = [one for one in (await jobs.schedule_store.planning()).schedules if one.schedule.name == name]
    return found
