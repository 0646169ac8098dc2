"""What a service knows of its workers, and what it does about one that has died: it takes its jobs back at once.

A worker notes who it is, and where its store is, in a nameless file that its service has opened for it. So the service
need not import the application, whose code only runs in its workers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import threading
from typing import Any, NamedTuple

from pydantic import SecretStr

from queue_core.errors import QueueCoreError
from queue_core.opening import open_parts
from queue_core.queue import JobQueue
from queue_core.settings import JobsSettings
from queue_core.worker.announcer import Announcer
from queue_core.worker.neighbours import AGAIN, write_off
from queue_core.worker.sweeper import LEADERSHIP, Duty, Sweeper

PATIENCE = 60.0
"""Seconds after which a store that does not answer is left to the ends of the leases."""
PAUSE = 0.5

logger = logging.getLogger("queue_core.worker")


class Note(NamedTuple):
    """What a worker has noted about itself."""

    worker: str
    settings: JobsSettings


def open_note() -> int:
    """Return the descriptor of an empty nameless file."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_note(descriptor: int, worker: str, settings: JobsSettings) -> None:
    """Note who this worker is; the descriptor is closed, for its handlers have no business there."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"worker": worker, "settings": _plain(settings.model_dump())}, file)


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def read_note(descriptor: int) -> Note | None:
    """Return what a worker has noted, or None where it has not come to that."""
    try:
        said = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
        return Note(said["worker"], JobsSettings.model_validate(said["settings"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def prepare(note: Note) -> None:
    """Import what taking jobs back from this worker's store needs: that takes longer than all the rest."""
    open_parts(note.settings)


def report(note: Note) -> threading.Thread:
    """Take the jobs of a worker that has died back, on a thread, which is returned."""
    thread = threading.Thread(target=_run, args=(note,), name="report", daemon=True)
    thread.start()
    return thread


def _run(note: Note) -> None:
    try:
        asyncio.run(asyncio.wait_for(_take_back(note), PATIENCE))
    except TimeoutError:
        logger.warning("the jobs of worker %s are left until their leases end: no answer from the store", note.worker)
    except Exception:  # the service must go on
        logger.exception("the jobs of worker %s are left until their leases end", note.worker)


async def _take_back(note: Note) -> None:
    waits = [now - before for before, now in zip((0.0, *AGAIN), AGAIN, strict=False)]
    while waits:
        try:
            async with JobQueue(settings=note.settings) as jobs:
                while waits:
                    await asyncio.sleep(waits[0])
                    await _write_off(jobs, note.worker)
                    waits.pop(0)
        except QueueCoreError as error:
            logger.warning("the jobs of worker %s wait for the store: %s", note.worker, error)
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
