"""A mistake in the worker itself costs time, never a job."""

import asyncio

import pytest

from queue_core import JobFailed, JobQueue, Retry, Worker
from queue_core.model.job import Outcome
from queue_core.worker import runner
from queue_core.worker.execution import execute


async def test_a_job_whose_attempt_the_worker_fumbled_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease must not be renewed for ever."""
    fumbled = asyncio.Event()

    async def fumble(*args: object) -> Outcome:
        if not fumbled.is_set():
            fumbled.set()
            raise AttributeError("a mistake in the worker")
        return await execute(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "execute", fumble)
    async with JobQueue(memory=True) as jobs:

        @jobs.task
        async def double(n: int) -> int:
            return 2 * n

        worker = Worker(jobs, lease=1.0)
        running = asyncio.create_task(worker.run())
        handle = await double.enqueue(21)
        assert await handle.result(60) == 42
        assert fumbled.is_set()
        assert (await jobs.inspector.get(handle.id)).losses == 1
        worker.stop()
        await running


async def test_an_exception_that_raises_when_it_is_asked_for_its_class_ends_its_attempt() -> None:
    class Odd(Exception):
        @property
        def __class__(self) -> type:  # type: ignore[override]
            raise KeyError("no class")

    async with JobQueue(memory=True) as jobs:

        @jobs.task(retry=Retry(max_retries=0))
        async def fail() -> None:
            raise Odd

        worker = Worker(jobs)
        running = asyncio.create_task(worker.run())
        with pytest.raises(JobFailed, match="Odd was raised"):
            await (await fail.enqueue()).result(60)
        worker.stop()
        await running
