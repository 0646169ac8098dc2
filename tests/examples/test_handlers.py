"""docs/tasks.md: the blocks about handlers, schedules and jobs without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from queue_core import (
    JobContext,
    JobQueue,
    Middleware,
    Reschedule,
    Retry,
    RetryLater,
    SoftTimeLimitExceeded,
    StaleLease,
    Status,
    Worker,
)
from tests.conformance.working import PATIENCE, until, until_status, working
from tests.examples.blocks import blocks, run

PAGE = "tasks.md"
OFFERED = (JobContext, Middleware, Reschedule, Retry, RetryLater, SoftTimeLimitExceeded, StaleLease, Worker)


def names(jobs: JobQueue, **more: Any) -> dict[str, Any]:
    """Return what a reader of the page has imported."""
    return {"jobs": jobs, "Any": Any} | {one.__name__: one for one in OFFERED} | more


async def test_middleware() -> None:
    spans: list[str] = []

    class Tracer:
        @contextmanager
        def span(self, name: str) -> Iterator[None]:
            spans.append(name)
            yield

    jobs = JobQueue(memory=True)
    block, _ = blocks(PAGE, "## Middleware")  # the other one is that of its section on headers
    await run(block, names(jobs, tracer=Tracer()))
    async with jobs.testing() as inside:
        await jobs.enqueue("unknown")
        jobs.task(name="known")(_nothing)
        await jobs.enqueue("known")
        await inside.run_due()
    assert spans == ["known"]


async def _nothing() -> None: ...


async def test_when_a_job_runs_again() -> None:
    class RateLimited(Exception): ...

    jobs = JobQueue(memory=True)
    (block,) = blocks(PAGE, "## When a job runs again")
    raised: list[BaseException] = [RateLimited(), OSError()]
    found = names(jobs, RateLimited=RateLimited)
    await run(block.replace("int: ...", "int: raise next(raised)"), found | {"raised": iter(raised)})
    async with jobs.testing() as inside:
        handle = await jobs.enqueue("fetch", {"url": "a"})
        waits = []
        for _ in raised:
            await inside.run_due()
            job = await jobs.get(handle.id)
            assert job.status == Status.RETRYING
            waits.append(round((job.run_at - job.updated_at).total_seconds()))
            inside.advance(waits[-1])
    assert waits == [60, 5]


async def test_what_a_handler_writes(postgres_url: str) -> None:
    jobs = JobQueue(postgres=postgres_url)
    ran = asyncio.Event()

    @jobs.task
    async def send_receipt(order: int) -> None:
        ran.set()

    (block,) = blocks(PAGE, "## What a handler writes, and its end, in one commit")
    found = names(jobs, send_receipt=send_receipt)
    await run(block, found)
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        await connection.execute("CREATE TABLE receipts (order_id integer)")
        async with jobs, working(jobs):
            await (await found["pay"].enqueue(order=7)).result(PATIENCE)
            async with asyncio.timeout(PATIENCE):
                await ran.wait()
        assert await (await connection.execute("SELECT order_id FROM receipts")).fetchall() == [(7,)]


async def test_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = JobQueue(memory=True)
    define, use = blocks(PAGE, "## Schedules")
    found = names(jobs)
    await run(define, found)
    async with jobs, working(jobs):

        async def announced() -> bool:
            return len((await jobs.schedules.list()).schedules) == 2

        await until(announced)
        await run(use, found)
        assert await found["handle"].result(PATIENCE) is None
        (left,) = (await jobs.schedules.list()).schedules
    assert left.schedule.name == "digest-weekly"
    shown = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in shown) == ["digest", "digest-weekly"]
    assert all("datetime" in line or "+00:00" in line for line in shown)


async def test_time_limits() -> None:
    jobs = JobQueue(memory=True)

    async def whole(path: str) -> str:
        await asyncio.Event().wait()
        return ""

    async def preview(path: str) -> str:
        return f"preview of {path}"

    (block,) = blocks(PAGE, "### Time limits")
    found = names(jobs, whole=whole, preview=preview)
    await run(block.replace('"4m"', '"0.05s"'), found)
    async with jobs, working(jobs):
        assert await (await found["convert"].enqueue("a.png")).result(PATIENCE) == "preview of a.png"


async def test_one_handler_for_whole_queues() -> None:
    async def mail(to: str) -> str:
        return f"mail to {to}"

    async with JobQueue(memory=True) as jobs:
        (block,) = blocks(PAGE, "## One handler for whole queues")
        working = asyncio.create_task(run(block, names(jobs, table={"mail": mail})))
        handle = await jobs.enqueue("mail", {"to": "ada"}, queue="images")
        assert await handle.result(PATIENCE) == "mail to ada"
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_without_a_worker() -> None:
    def work(kind: str, payload: dict[str, Any]) -> str:
        if payload["fails"]:
            raise OSError("no disk")
        return kind

    (block,) = blocks(PAGE, "## Without a Worker")
    async with JobQueue(memory=True) as jobs:
        for fails, status in ((False, Status.COMPLETED), (True, Status.RETRYING)):
            handle = await jobs.enqueue("resize", {"fails": fails}, queue="images")
            await run(block, names(jobs, work=work))
            await until_status(jobs, handle.id, str(status))
        assert await jobs.count("status:retrying err:disk") == 1


async def test_in_tests() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task
    async def thumbnail(path: str, width: int = 200) -> dict[str, str]:
        return {"made": f"{path}@{width}"}

    (block,) = blocks(PAGE, "## In tests")
    await run(block, names(jobs, thumbnail=thumbnail))
