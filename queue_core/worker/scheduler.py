"""The leader's duty for schedules: let each tick that is due pass, with its job."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from queue_core.cron import next_tick
from queue_core.errors import ConfigurationError, QueueCoreError, SchemaError, StoreUnavailable
from queue_core.identifiers import new_id
from queue_core.job import Inserted, NewJob
from queue_core.middleware import Hooks
from queue_core.schedules import Planned, Schedule, ScheduleStore, Tick

LOOK = 0.5
"""Seconds between two looks at the next tick, which another process may have brought forward; a tick shortens them."""

logger = logging.getLogger("queue_core.worker")


class Fired(NamedTuple):
    """The job of a tick that has passed."""

    job: NewJob
    inserted: Inserted


class Scheduler:
    """Any number of them may work on one store: each tick passes once."""

    def __init__(self, store: ScheduleStore, hooks: Hooks) -> None:
        self._store = store
        self._hooks = hooks
        # time.monotonic of the next look
        self._look_at = float("-inf")
        # schedules that this process cannot follow, each told once
        self._beyond: set[str] = set()

    def until_look(self) -> float:
        """Return the seconds until `run_once` wants to be called again, 0 or less when it does now."""
        return self._look_at - time.monotonic()

    def hasten(self) -> None:
        """Let the next `run_once` look, whatever the time: a tick is known to be due."""
        self._look_at = float("-inf")

    async def run_once(self) -> list[Fired]:
        """Let pass what is due, if it is time to look; return the jobs that came of it.

        Raises:
            StoreUnavailable: what was not done is still due.
        """
        if self.until_look() > 0:
            return []
        left = await self._store.until_tick()
        fired: list[Fired] = []
        if left is not None and left <= 0:
            fired, left = await self.fire_due()
        self._look_at = time.monotonic() + (LOOK if left is None else min(LOOK, left))
        return fired

    async def fire_due(self) -> tuple[list[Fired], float | None]:
        """Let pass what is due; return the jobs that came of it, and the seconds until the next tick, if any comes."""
        planning = await self._store.planning()
        fired: list[Fired] = []
        ticks: list[float] = []
        for planned in planning.schedules:
            if planned.paused:
                continue
            tick = planned.next_tick
            if tick <= planning.now:
                following = self._following(planned, planning.now)
                if following is None:
                    continue
                fired += await self._fire(planned, following)
                tick = following
            ticks.append(tick)
        return fired, min(ticks) - planning.now if ticks else None

    def _following(self, planned: Planned, now: float) -> float | None:
        """Return the next tick, computed from now: of ticks that were missed, one brings a job."""
        schedule = planned.schedule
        try:
            following = next_tick(schedule.cron, schedule.tz, now)
        except ConfigurationError as error:
            if schedule.name not in self._beyond:
                logger.warning("schedule %s is left to other workers: %s", schedule.name, error)
                self._beyond.add(schedule.name)
            return None
        self._beyond.discard(schedule.name)
        return following

    async def _fire(self, planned: Planned, following: float) -> list[Fired]:
        name, due, job = planned.schedule.name, planned.next_tick, _job(planned.schedule)
        try:
            await self._hooks.before_enqueue([job])
            inserted = await self._store.fire(Tick(name, due, following, job))
        except (StoreUnavailable, SchemaError):
            raise
        except QueueCoreError as refused:
            logger.warning("a tick of schedule %s passes without a job: %s", name, refused)
            inserted = await self._store.fire(Tick(name, due, following, None))
        return [] if inserted is None else [Fired(job, inserted)]


def _job(schedule: Schedule) -> NewJob:
    return NewJob(
        new_id(),
        schedule.queue,
        schedule.type,
        schedule.payload,
        schedule.priority,
        max_retries=schedule.max_retries,
        ordering_key=schedule.ordering_key,
    )
