"""A worker with one handler for whole queues, without a registry."""

import asyncio
from typing import Any

import pytest

from queue_core import ConfigurationError, JobContext, JobFailed, JobQueue, Reschedule
from queue_core.worker.worker import Worker
from tests.conformance.working import PATIENCE, until, until_status, working


async def test_it_gets_every_job_of_its_queues_whatever_the_type(jobs: JobQueue) -> None:
    async def handle(ctx: JobContext) -> Any:
        return [ctx.queue, ctx.type, ctx.payload, ctx.attempt]

    async with working(jobs, handler=handle, queues=["images", "films"]):
        first = await jobs.enqueue("thumbnail", {"path": "a.png", "ctx": 1, "self": 2}, queue="images")
        second = await jobs.enqueue("written.elsewhere", queue="films")
        assert await first.result(PATIENCE) == ["images", "thumbnail", {"path": "a.png", "ctx": 1, "self": 2}, 1]
        assert await second.result(PATIENCE) == ["films", "written.elsewhere", {}, 1]


async def test_a_plain_one_runs_in_a_thread(jobs: JobQueue) -> None:
    def handle(ctx: JobContext) -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return ctx.type

    async with working(jobs, handler=handle, queues=["images"]):
        assert await (await jobs.enqueue("any", queue="images")).result(PATIENCE) == "any"


async def test_an_object_that_can_be_called(jobs: JobQueue) -> None:
    class Handler:
        async def __call__(self, ctx: JobContext) -> str:
            await asyncio.sleep(0)
            return ctx.type

    async with working(jobs, handler=Handler(), queues=["images"]):
        assert await (await jobs.enqueue("any", queue="images")).result(PATIENCE) == "any"


async def test_a_plain_one_that_returns_a_coroutine_fails(jobs: JobQueue) -> None:
    async def handle(ctx: JobContext) -> str:
        return ctx.type

    def wrapped(ctx: JobContext) -> Any:
        return handle(ctx)

    async with working(jobs, handler=wrapped, queues=["images"]):
        with pytest.raises(JobFailed, match="returned a coroutine, which nothing awaits"):
            await (await jobs.enqueue("any", queue="images", max_retries=0)).result(PATIENCE)


async def test_registered_tasks_are_not_looked_at(jobs: JobQueue) -> None:
    @jobs.task(queue="images")
    async def thumbnail(path: str) -> str:
        return f"the task made {path}"

    async def handle(ctx: JobContext) -> str:
        return f"the handler got {ctx.payload['path']}"

    async with working(jobs, handler=handle, queues=["images"]):
        assert await (await thumbnail.enqueue("a.png")).result(PATIENCE) == "the handler got a.png"


async def test_other_queues_are_left_alone_and_not_taken_for_served(jobs: JobQueue) -> None:
    async def handle(ctx: JobContext) -> str:
        return ctx.queue

    async with working(jobs, handler=handle, queues=["images"]):
        other = await jobs.enqueue("thumbnail", queue="films")
        mine = await jobs.enqueue("thumbnail", queue="images")
        assert await mine.result(PATIENCE) == "images"
        assert await other.status() == "queued"

        async def announced() -> bool:
            return bool((await jobs.inspector.overview()).workers)

        await until(announced)
        overview = await jobs.inspector.overview()
        assert overview.orphaned_types == {"thumbnail": 1}
        assert overview.workers[0].types is None


async def test_beside_a_worker_of_tasks_in_the_same_queue(jobs: JobQueue) -> None:
    @jobs.task
    async def known() -> str:
        return "task"

    async def handle(ctx: JobContext) -> str:
        return "handler"

    async with working(jobs, concurrency=2), working(jobs, concurrency=2, handler=handle, queues=["default"]):
        strange = [await jobs.enqueue("strange") for _ in range(10)]
        handles = [await known.enqueue() for _ in range(10)]
        assert {await handle.result(PATIENCE) for handle in strange} == {"handler"}
        assert {await handle.result(PATIENCE) for handle in handles} <= {"task", "handler"}


async def test_what_it_raises_goes_by_the_job_and_the_defaults(jobs: JobQueue) -> None:
    turns: list[int] = []

    async def handle(ctx: JobContext) -> int:
        turns.append(ctx.attempt)
        if ctx.type == "again" and len(turns) == 1:
            raise Reschedule
        if ctx.type == "broken":
            raise ValueError("no")
        return len(turns)

    async with working(jobs, handler=handle, queues=["images"]):
        assert await (await jobs.enqueue("again", queue="images")).result(PATIENCE) == 2
        with pytest.raises(JobFailed, match="ValueError: no"):
            await (await jobs.enqueue("broken", queue="images", max_retries=0)).result(PATIENCE)
        await until_status(jobs, (await jobs.enqueue("broken", queue="images")).id, "retrying")


async def test_what_does_not_go_together(jobs: JobQueue) -> None:
    async def handle(ctx: JobContext) -> None: ...

    def nothing() -> None: ...

    with pytest.raises(ConfigurationError, match="name them with queues="):
        Worker(jobs, handler=handle)
    with pytest.raises(ConfigurationError, match="'nothing' does not"):
        Worker(jobs, handler=nothing, queues=["images"])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="target="):
        Worker(jobs, handler=handle, queues=["images"], target="module:jobs")


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": "images"},
        {"queues": [""]},
        {"queues": [7]},
        {"concurrency": 0},
        {"concurrency": "5"},
        {"concurrency": True},
        {"grace": "soon"},
        {"lease": -1},
        {"lease": "999ms"},
        {"lease": "5m", "heartbeat": "4m"},
        {"heartbeat": 0},
    ],
)
async def test_a_worker_that_cannot_be(jobs: JobQueue, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Worker(jobs, **wrong)
