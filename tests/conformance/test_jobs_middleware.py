"""Hooks around enqueueing, running and settling; one that breaks costs no job."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from queue_core.client.context import JobContext
from queue_core.client.middleware import Middleware, SettledJob
from queue_core.errors import InvalidJob, JobFailed
from queue_core.model.job import NewJob
from queue_core.model.retry import Retry
from queue_core.queue import JobQueue
from tests.conformance.working import PATIENCE, until, until_status, working


class Recorder(Middleware):
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.seen: list[Any] = []

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        self.seen.append(("enqueue", [job.type for job in jobs]))

    async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        self.seen.append(("run", ctx.type, ctx.payload))
        try:
            return await call()
        finally:
            self.seen.append(("ran", ctx.type))

    async def after_settle(self, job: SettledJob) -> None:
        self.seen.append((job.outcome, job.type, job.error))


async def test_each_hook_is_called_in_its_turn(jobs: JobQueue) -> None:
    recorder = jobs.middleware(Recorder())

    @jobs.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with working(jobs):
        handle, _ = await add.enqueue_many([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        assert await handle.result(PATIENCE) == 3
    seen = recorder.seen
    assert seen[0] == ("enqueue", ["add", "add"])
    assert seen.count(("ran", "add")) == seen.count(("completed", "add", None)) == 2
    assert seen.index(("run", "add", {"a": 1, "b": 2})) < seen.index(("ran", "add"))


async def test_failures_are_told_with_their_error(jobs: JobQueue) -> None:
    recorder = jobs.middleware(Recorder())

    @jobs.task(retry=Retry(max_retries=1, delay=0.01))
    def fail() -> None:
        raise OSError("no such file")

    async with working(jobs):
        handle = await fail.enqueue()
        with pytest.raises(JobFailed):
            await handle.result(PATIENCE)
    told = [seen for seen in recorder.seen if seen[0] in {"retrying", "dead"}]
    assert told == [("retrying", "fail", "OSError: no such file"), ("dead", "fail", "OSError: no such file")]


async def test_the_first_registered_is_the_outermost(jobs: JobQueue) -> None:
    order: list[str] = []

    class Named(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
            order.append(self.name)
            await call()
            order.append(self.name)

    for name in "ab":
        jobs.middleware(Named(name))

    @jobs.task
    async def run() -> str:
        order.append("run")
        return "done"

    async with working(jobs):
        assert await (await run.enqueue()).result(PATIENCE) == "done"  # what a hook returns does not count
    assert order == ["a", "b", "run", "b", "a"]


async def test_context_variables_reach_the_handler(jobs: JobQueue) -> None:
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="none")

    class Tracing(Middleware):
        async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
            trace.set(ctx.job_id)
            return await call()

    jobs.middleware(Tracing())

    @jobs.task
    async def here() -> str:
        return trace.get()

    @jobs.task
    def there() -> str:
        return trace.get()

    async with working(jobs):
        for task in (here, there):
            handle = await task.enqueue()
            assert await handle.result(PATIENCE) == handle.id
    assert trace.get() == "none"


class Broken(Middleware):
    """Each hook breaks, at one place or another."""

    def __init__(self, when: str) -> None:
        self.when = when

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        raise RuntimeError("broken")

    async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        if self.when == "before":
            raise RuntimeError("broken")
        if self.when == "never":
            return None
        try:
            await call()
        except OSError:
            if self.when == "swallows":
                return "all is well"
            raise SystemExit(1) from None
        if self.when == "twice":
            await call()
        raise KeyError("broken")

    async def after_settle(self, job: SettledJob) -> None:
        raise RuntimeError("broken")


@pytest.mark.parametrize("when", ["before", "never", "after", "twice", "swallows"])
async def test_a_hook_that_breaks_costs_no_job(jobs: JobQueue, when: str) -> None:
    jobs.middleware(Broken(when))
    recorder = jobs.middleware(Recorder())
    ran: list[int] = []

    @jobs.task
    async def good(n: int) -> int:
        ran.append(n)
        return n

    @jobs.task(retry=Retry(max_retries=0))
    async def bad() -> None:
        raise OSError("no such file")

    async with working(jobs):
        assert await (await good.enqueue(1)).result(PATIENCE) == 1
        with pytest.raises(JobFailed, match="no such file"):
            await (await bad.enqueue()).result(PATIENCE)
    assert ran == [1]
    assert ("completed", "good", None) in recorder.seen


async def test_a_hook_may_refuse_an_enqueue(jobs: JobQueue) -> None:
    class Strict(Middleware):
        async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
            if len(jobs) > 1:
                raise InvalidJob("one at a time")

    jobs.middleware(Strict())
    with pytest.raises(InvalidJob, match="one at a time"):
        await jobs.enqueue_many("any", [{}, {}])
    assert (await jobs.inspector.conservation()).unfinished == 0
    await jobs.enqueue("any")


async def test_a_slow_hook_does_not_hold_up_the_jobs(jobs: JobQueue) -> None:
    held, told = asyncio.Event(), []

    class Slow(Middleware):
        async def after_settle(self, job: SettledJob) -> None:
            await held.wait()
            told.append(job.id)

    jobs.middleware(Slow())

    @jobs.task
    async def quick() -> None: ...

    async with working(jobs):
        ids = [handle.id for handle in await quick.enqueue_many([{}] * 20)]
        for job_id in ids:
            await until_status(jobs, job_id, "completed")
        assert told == []
        held.set()

        async def all_told() -> bool:
            return sorted(told) == sorted(ids)

        await until(all_told)


async def test_a_worker_s_end_waits_for_hooks(jobs: JobQueue) -> None:
    begun, told = asyncio.Event(), []

    class Slow(Middleware):
        async def after_settle(self, job: SettledJob) -> None:
            begun.set()
            for _ in range(100):
                await asyncio.sleep(0)
            told.append(job.id)

    jobs.middleware(Slow())

    @jobs.task
    async def quick() -> None: ...

    async with working(jobs):
        handles = await quick.enqueue_many([{}] * 20)
        await begun.wait()
        for handle in handles:
            await until_status(jobs, handle.id, "completed")
    assert sorted(told) == sorted(handle.id for handle in handles)


async def test_cancelling_reaches_the_handler_through_the_hooks(jobs: JobQueue) -> None:
    recorder = jobs.middleware(Recorder())
    started = asyncio.Event()

    @jobs.task
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    async with working(jobs):
        handle = await long.enqueue()
        await started.wait()
        await jobs.operations.change("cancel", [handle.id])
        await until_status(jobs, handle.id, "cancelled")
    assert ("ran", "long") in recorder.seen
    assert ("cancelled", "long", None) in recorder.seen
