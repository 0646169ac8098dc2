"""Lines that handlers of every kind write with `ctx.log`: in the store before the end of their attempt, and bounded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from queue_core.client.context import JobContext
from queue_core.client.results import JobHandle
from queue_core.model.job import MAX_LOG_LINE_BYTES, MAX_LOG_LINES
from queue_core.model.report import LogPage
from queue_core.model.retry import Retry
from queue_core.queue import JobQueue
from tests.conformance.working import PATIENCE, until, until_status, working
from tests.worker import process_tasks

TARGET = "tests.worker.process_tasks:jobs"


async def log_of(jobs: JobQueue, handle: JobHandle[object]) -> LogPage:
    return await jobs.inspector.logs(handle.id)


async def texts(jobs: JobQueue, handle: JobHandle[object]) -> list[str]:
    return [entry.text for entry in (await log_of(jobs, handle)).entries]


@pytest.fixture
async def with_processes(jobs: JobQueue) -> AsyncIterator[JobQueue]:
    """The queue object with the tasks of the module that children import."""
    for name in process_tasks.jobs.tasks.types():
        jobs.tasks.add(process_tasks.jobs.tasks.get(name))
    return jobs


async def test_lines_of_a_coroutine(jobs: JobQueue) -> None:
    @jobs.task
    async def work(ctx: JobContext) -> None:
        await ctx.log("began")
        await asyncio.sleep(0)
        await ctx.log("two\nlines")
        ctx.log_now("ended")

    async with working(jobs):
        handle = await work.enqueue()
        await handle.result(PATIENCE)
        # Nothing to wait for: what the attempt wrote was there before its result was.
        page = await log_of(jobs, handle)
    assert [(entry.number, entry.text) for entry in page.entries] == [(1, "began"), (2, "two\nlines"), (3, "ended")]
    job = await jobs.inspector.get(handle.id)
    assert {entry.token for entry in page.entries} == {job.token}
    assert page.dropped == 0


async def test_lines_of_a_thread(jobs: JobQueue) -> None:
    @jobs.task
    def work(ctx: JobContext) -> None:
        ctx.log_now("began")
        others = [threading.Thread(target=ctx.log_now, args=(f"thread {number}",)) for number in range(5)]
        for one in others:
            one.start()
        for one in others:
            one.join()
        ctx.log_now("ended")

    async with working(jobs):
        handle = await work.enqueue()
        await handle.result(PATIENCE)
        found = await texts(jobs, handle)
    assert (found[0], found[-1]) == ("began", "ended")
    assert sorted(found[1:-1]) == [f"thread {number}" for number in range(5)]


async def test_lines_of_a_process(with_processes: JobQueue) -> None:
    jobs = with_processes
    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("tell", {"lines": 3})
        await handle.result(PATIENCE)
        assert await texts(jobs, handle) == ["line 1", "line 2", "line 3"]


async def test_lines_of_a_process_that_dies(with_processes: JobQueue) -> None:
    """Both attempts: the last words of a process are what one wants to read."""
    jobs = with_processes
    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("tell_and_leave")
        await until_status(jobs, handle.id, "dead")
        page = await log_of(jobs, handle)
    assert [entry.text for entry in page.entries] == ["attempt 1", "attempt 2"]
    assert len({entry.token for entry in page.entries}) == 2


async def test_a_loop_of_lines_in_a_process(with_processes: JobQueue) -> None:
    jobs = with_processes
    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("tell", {"lines": 20 * MAX_LOG_LINES})
        await handle.result(PATIENCE)
        page = await log_of(jobs, handle)
    assert page.entries[-1].number == 20 * MAX_LOG_LINES
    assert [entry.number for entry in page.entries] == list(range(19 * MAX_LOG_LINES + 1, 20 * MAX_LOG_LINES + 1))
    assert page.dropped == 19 * MAX_LOG_LINES


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_a_loop_of_lines(jobs: JobQueue, kind: str) -> None:
    async def coroutine(ctx: JobContext) -> None:
        for number in range(20 * MAX_LOG_LINES):
            await ctx.log(f"line {number + 1}")

    def thread(ctx: JobContext) -> None:
        for number in range(20 * MAX_LOG_LINES):
            ctx.log_now(f"line {number + 1}")

    work = jobs.task(coroutine if kind == "coroutine" else thread, name="work")
    async with working(jobs):
        handle = await jobs.enqueue("work")
        await handle.result(PATIENCE)
        page = await log_of(jobs, handle)
    assert work is not None
    assert [entry.text for entry in page.entries] == [
        f"line {n}" for n in range(19 * MAX_LOG_LINES + 1, 20 * MAX_LOG_LINES + 1)
    ]
    assert page.dropped == 19 * MAX_LOG_LINES


async def test_lines_are_there_while_the_job_runs(jobs: JobQueue) -> None:
    go_on = asyncio.Event()

    @jobs.task
    async def work(ctx: JobContext) -> None:
        await ctx.log("first")
        await go_on.wait()
        await ctx.log("second")
        await asyncio.sleep(3600)

    async with working(jobs, grace=0.1):
        handle = await work.enqueue()

        async def there(*wanted: str) -> bool:
            return await texts(jobs, handle) == list(wanted)

        await until(lambda: there("first"))
        go_on.set()
        await until(lambda: there("first", "second"))
        assert str(await handle.status()) == "running"


async def test_every_end_has_its_lines(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=1, delay=0.01))
    async def fail(ctx: JobContext) -> None:
        await ctx.log(f"attempt {ctx.attempt}")
        raise OSError("no such file")

    async with working(jobs):
        handle = await fail.enqueue()
        await until_status(jobs, handle.id, "dead")
        assert await texts(jobs, handle) == ["attempt 1", "attempt 2"]


async def test_lines_of_a_job_that_is_given_back(jobs: JobQueue) -> None:
    begun = asyncio.Event()

    @jobs.task
    async def work(ctx: JobContext) -> None:
        await ctx.log("began")
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await ctx.log("gave up")

    async with working(jobs, grace=0.1):
        handle = await work.enqueue()
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
    assert str(await handle.status()) == "queued"
    assert await texts(jobs, handle) == ["began", "gave up"]


async def test_long_and_odd_lines(jobs: JobQueue) -> None:
    @jobs.task
    async def work(ctx: JobContext) -> None:
        await ctx.log("é" * MAX_LOG_LINE_BYTES)
        await ctx.log("x" * MAX_LOG_LINE_BYTES)
        await ctx.log("\0 \x1b[2J \udc80")
        await ctx.log(42)  # type: ignore[arg-type]

    async with working(jobs):
        handle = await work.enqueue()
        await handle.result(PATIENCE)
        long, just, odd, number = await texts(jobs, handle)
    assert (len(long.encode()) <= MAX_LOG_LINE_BYTES, long[-2:]) == (True, "é…")
    assert len(long.encode()) > MAX_LOG_LINE_BYTES - 4
    assert just == "x" * MAX_LOG_LINE_BYTES
    assert (odd, number) == ("\u2400 \x1b[2J \\udc80", "42")


async def test_many_jobs_at_once(jobs: JobQueue) -> None:
    @jobs.task
    async def work(ctx: JobContext, number: int) -> None:
        for line in range(number % 4):
            await ctx.log(f"{number}.{line}")
            await asyncio.sleep(0)

    async with working(jobs, concurrency=20):
        handles = await work.enqueue_many([{"number": number} for number in range(200)])
        for handle in handles:
            await handle.result(PATIENCE)
    for number, handle in enumerate(handles):
        assert await texts(jobs, handle) == [f"{number}.{line}" for line in range(number % 4)]


async def test_a_worker_announces_its_types(jobs: JobQueue) -> None:
    @jobs.task
    async def resize(ctx: JobContext, path: str, width: int = 200) -> None:
        """Nothing."""

    async with working(jobs):

        async def announced() -> bool:
            return "resize" in await jobs.inspector.types()

        await until(announced)
        assert (await jobs.inspector.types())["resize"].schema == resize.schema()
    assert sorted(await jobs.inspector.types()) == ["resize"], "a schema outlives its worker"
