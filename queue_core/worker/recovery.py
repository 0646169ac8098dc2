"""What a service does about a worker of its own that has died: it takes its jobs back at once."""

from __future__ import annotations

import asyncio
import logging

from queue_core.backends import open_backend
from queue_core.errors import QueueCoreError
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue
from queue_core.worker.journal import Announcer
from queue_core.worker.leader import LEADERSHIP, Duty, Sweeper
from queue_core.worker.neighbours import AGAIN, write_off
from queue_core.worker.options import Note

logger = logging.getLogger("queue_core.worker")


PATIENCE = 60.0
"""Seconds after which a store that does not answer is left to the ends of the leases."""
PAUSE = 0.5


def prepare(note: Note) -> None:
    """Import what taking jobs back from this worker's store needs: that takes longer than all the rest."""
    open_backend(JobsSettings.model_validate(note.settings))


def report(note: Note) -> None:
    """Take the jobs of a worker back that has died; for a thread of its own."""
    try:
        asyncio.run(asyncio.wait_for(_take_back(note.worker, JobsSettings.model_validate(note.settings)), PATIENCE))
    except TimeoutError:
        logger.warning("the jobs of worker %s are left until their leases end: no answer from the store", note.worker)
    except Exception:  # the service must go on
        logger.exception("the jobs of worker %s are left until their leases end", note.worker)


async def _take_back(worker: str, settings: JobsSettings) -> None:
    waits = [now - before for before, now in zip((0.0, *AGAIN), AGAIN, strict=False)]
    reason = ""
    while waits:
        try:
            async with JobQueue(settings=settings) as jobs:
                while waits:
                    await asyncio.sleep(waits[0])
                    await _write_off(jobs, worker)
                    waits.pop(0)
        except QueueCoreError as error:
            if str(error) != reason:  # once for each reason: it is tried twice a second
                reason = str(error)
                logger.warning("the jobs of worker %s wait for the store: %s", worker, reason)
            await asyncio.sleep(PAUSE)


async def _write_off(jobs: JobQueue, worker: str) -> None:
    announcer = Announcer(jobs.bus)
    announcing = asyncio.create_task(announcer.run())
    sweeper = Sweeper(
        jobs.store,
        jobs.dispatcher,
        jobs.schedule_store,
        jobs.operations.executor(),
        jobs.hooks,
        announcer,
        Duty(worker, LEADERSHIP, jobs.settings.defaults.max_losses),
    )
    try:
        await write_off(jobs.store, sweeper.reclaim, [worker])
    finally:
        await announcer.close(announcing)
