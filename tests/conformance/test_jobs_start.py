"""A worker process whose store goes away at any step of its start waits for it, and starts."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import Any

import pytest

from queue_core import JobQueue, StoreUnavailable
from queue_core.model.settings import JobsSettings
from queue_core.worker import process
from queue_core.worker.worker import Worker
from tests.around import Around
from tests.conformance.working import PATIENCE, working
from tests.waiting import eventually


class Faults:
    """Lets the call of one number fail, if it is one of the start."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.failed = ""
        self.worker: Worker | None = None

    def count(self, name: str) -> None:
        self._left -= self.worker is not None and not self.worker._working
        if self._left == 0 and not self.failed:
            self.failed = name
            raise StoreUnavailable("store", "Connection closed by server.")


class Failing(Around):
    """A part of a backend whose calls may fail."""

    def __init__(self, part: Any, faults: Faults) -> None:
        self._part, self._faults = part, faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **options: Any) -> Any:
            self._faults.count(name)
            return await found(*args, **options)

        return call


def queue_with(settings: JobsSettings, faults: Faults) -> JobQueue:
    """Return a queue object whose start takes every step that there is."""
    jobs = JobQueue(settings=settings.model_copy(update={"release": "one"}))
    backend = jobs._backend
    store, schedules = Failing(backend.store, faults), Failing(backend.schedules, faults)
    jobs.swap(backend._replace(store=store, schedules=schedules), opened=False)

    @jobs.cron("0 0 1 1 *")
    async def work() -> str:
        return "done"

    return jobs


async def test_a_process_waits_for_its_store_at_every_step_of_its_start(
    mode_settings: JobsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "FIRST_PAUSE", 0.01)
    failed: list[str] = []
    while True:
        faults = Faults(len(failed) + 1)
        jobs = queue_with(mode_settings, faults)
        async with working(jobs, heartbeat="1s") as worker:
            faults.worker = worker
            worker.take_step = partial(process.take_step, worker)
            assert await eventually(lambda: worker._working)
            assert await (await jobs.enqueue("work")).result(PATIENCE) == "done"
        await jobs.close()
        if not faults.failed:
            break
        failed.append(faults.failed)
    steps = ["open", "prepare_history", "planning", "announce", "register_types", "register_release"]
    assert failed == steps


async def test_who_runs_a_worker_sees_that_its_store_is_away(mode_settings: JobsSettings) -> None:
    faults = Faults(2)
    jobs = queue_with(mode_settings, faults)
    worker = faults.worker = Worker(jobs)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(worker.run(), PATIENCE)
    await jobs.close()
