"""Schedules tick: each tick that is due passes once, and brings a job."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

from queue_core.client.middleware import Hooks
from queue_core.errors import ConfigurationError, QueueClosed, QueueCoreError, SchemaError, StoreUnavailable
from queue_core.model.job import Inserted, NewJob, new_id
from queue_core.model.schedule import Planned, Schedule, Tick, next_tick
from queue_core.ports.locks import LockHeld
from queue_core.ports.schedules import ScheduleStore

logger = logging.getLogger("queue_core.worker")


TICK_POLL = 0.5
"""Seconds between two reads of the next tick, which another process may have brought forward; a tick shortens them."""
HOOKS_SECONDS = 1.0
"""What hooks may take for all ticks that are due: this leader's other duties wait, and the next leader's, too."""


class Fired(NamedTuple):
    """The job of a tick that has passed."""

    job: NewJob
    inserted: Inserted


class Scheduler:
    """Any number of them may work on one store: each tick passes once."""

    def __init__(self, store: ScheduleStore, hooks: Hooks) -> None:
        self._store = store
        self._hooks = hooks
        # time.monotonic of the next poll
        self._poll_at = float("-inf")
        # schedules that this process cannot follow, each logged once
        self._beyond: set[str] = set()
        # schedules whose queues are closed, or whose job needs what another transaction holds, each logged once
        self._closed: set[str] = set()
        self._held: set[str] = set()
        # when the time of hooks is over, by the loop's clock
        self._hooks_end = float("inf")

    def until_poll(self) -> float:
        """Return the seconds until `run_once` wants to be called again, 0 or less when it does now."""
        return self._poll_at - time.monotonic()

    def poll_soon(self) -> None:
        """Let the next `run_once` poll, whatever the time: a tick is known to be due."""
        self._poll_at = float("-inf")

    async def run_once(self) -> list[Fired]:
        """Let pass what is due, if it is time to poll; return the jobs that came of it.

        Raises:
            StoreUnavailable: what was not done is still due.
        """
        if self.until_poll() > 0:
            return []
        left = await self._store.until_tick()
        fired: list[Fired] = []
        if left is not None and left <= 0:
            fired, left = await self.fire_due()
        self._poll_at = time.monotonic() + (TICK_POLL if left is None else min(TICK_POLL, left))
        return fired

    async def fire_due(self) -> tuple[list[Fired], float | None]:
        """Let pass what is due; return the jobs that came of it, and the seconds until the next tick, if any comes."""
        planning = await self._store.planning()
        self._hooks_end = asyncio.get_running_loop().time() + HOOKS_SECONDS
        fired: list[Fired] = []
        ticks: list[float] = []
        held: set[str] = set()
        for planned in planning.schedules:
            if planned.paused:
                continue
            tick = planned.next_at
            if tick <= planning.now:
                following = self._following(planned, planning.now)
                if following is None:
                    continue
                if planned.schedule.queue in held:
                    continue
                try:
                    fired += await self._fire(planned, following)
                except LockHeld as error:
                    self._wait(planned.schedule, error)
                    # No other one waits for the same once more: the leader has more to do.
                    held.add(planned.schedule.queue)
                    continue
                tick = following
            ticks.append(tick)
        return fired, min(ticks) - planning.now if ticks else None

    def _wait(self, schedule: Schedule, error: LockHeld) -> None:
        if schedule.name not in self._held:
            logger.warning("a tick of schedule %s waits, and is tried again: %s", schedule.name, error)
            self._held.add(schedule.name)

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
        name, due, job = planned.schedule.name, planned.next_at, _job(planned.schedule)
        try:
            job = await self._with_hooks(name, job)
            inserted = await self._store.fire(Tick(name, due, following, job))
        except (StoreUnavailable, SchemaError):
            raise
        except QueueClosed as refused:
            if name not in self._closed:
                logger.warning("ticks of schedule %s pass without jobs: %s", name, refused)
                self._closed.add(name)
            return []
        except QueueCoreError as refused:
            logger.warning("a tick of schedule %s passes without a job: %s", name, refused)
            inserted = await self._store.fire(Tick(name, due, following, None))
        if inserted is None:
            return []
        self._closed.discard(name)
        self._held.discard(name)
        return [Fired(job, inserted)]

    async def _with_hooks(self, name: str, job: NewJob) -> NewJob:
        """Return a job as hooks have changed it; one that takes too long counts as one that fails."""
        try:
            async with asyncio.timeout_at(self._hooks_end):
                (hooked,) = await self._hooks.before_enqueue([job])
        except TimeoutError:
            logger.warning("before_enqueue takes too long for a tick of schedule %s; its job is enqueued", name)
            return job
        return hooked


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
