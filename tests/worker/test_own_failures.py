"""A mistake in the worker itself costs time, never a job."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_core import JobContext, JobFailed, JobQueue, Middleware, Retry, Worker
from queue_core.model.job import Outcome
from queue_core.worker import runner
from queue_core.worker.execution import execute
from tests.hostile import Guarded


async def test_a_job_whose_attempt_the_worker_fumbled_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given back at once, and does not wait for the end of a long lease."""
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

        worker = Worker(jobs, lease=3600.0)
        running = asyncio.create_task(worker.run())
        handle = await double.enqueue(21)
        assert await handle.result(60) == 42
        assert fumbled.is_set()
        assert (await jobs.inspector.get(handle.id)).losses == 1
        worker.stop()
        await running


class _Odd(Exception):
    """An exception that raises when one of its attributes is read."""


def _odd(name: str) -> type[_Odd]:
    def refuse(_: object) -> None:
        raise KeyboardInterrupt(name)

    return type("Odd", (_Odd,), {name: property(refuse)})


class _Opaque(_Odd):
    """An exception that raises whatever is read of it."""

    def __getattribute__(self, name: str) -> object:
        raise KeyError(name)


class _Nameless(_Odd, metaclass=Guarded):
    """An exception whose class does not answer what it is called."""


class _Around(Middleware):
    """A hook that sees what the handler raises."""

    async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()


_ODD = [*map(_odd, ["__class__", "__traceback__", "__cause__", "__context__", "__notes__"]), _Opaque, _Nameless]
_NAMES = ["class", "traceback", "cause", "context", "notes", "all", "name"]


@pytest.mark.parametrize("raised", _ODD, ids=_NAMES)
@pytest.mark.parametrize("where", ["loop", "thread", "middleware"])
async def test_an_exception_that_raises_when_it_is_read_ends_its_attempt(raised: type[_Odd], where: str) -> None:
    async with JobQueue(memory=True) as jobs:

        async def fail() -> None:
            raise raised

        def fail_in_thread() -> None:
            raise raised

        if where == "middleware":
            jobs.middleware(_Around())
        task = jobs.task(name="fail", retry=Retry(max_retries=1, delay=0))(
            fail_in_thread if where == "thread" else fail
        )
        worker = Worker(jobs)
        running = asyncio.create_task(worker.run())
        handle = await task.enqueue()
        with pytest.raises(JobFailed):
            await handle.result(60)
        job = await jobs.inspector.get(handle.id)
        assert (job.losses, job.retry_count) == (0, 1)
        worker.stop()
        await running


@pytest.mark.parametrize("raised", _ODD, ids=_NAMES)
async def test_an_exception_that_raises_when_it_is_read_ends_a_claim_without_a_worker(raised: type[_Odd]) -> None:
    async with JobQueue(memory=True) as jobs:
        for retry in (True, False):
            await jobs.enqueue("fail", {}, queue="images", max_retries=0)
            job = await jobs.claim_next("images", wait=60)
            assert job is not None
            assert await job.fail(raised(), retry=retry) == "dead"
