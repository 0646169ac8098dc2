"""`jobs.testing()`: everything in process, by a clock that the test moves."""

import asyncio
from contextvars import ContextVar

import pytest

from queue_core import InvalidJob, JobContext, JobFailed, JobQueue, Middleware, Reschedule, ResultTimeout, Retry
from queue_core import SettledJob as Settled


async def test_due_jobs_run_when_the_test_says_so() -> None:
    jobs = JobQueue(postgres="postgresql://app@127.0.0.1:1/nowhere")  # nobody connects there

    @jobs.task
    async def double(ctx: JobContext, n: int) -> int:
        await ctx.progress(50)
        return 2 * n

    @jobs.task(queue="other")
    def plain() -> str:
        return "plain"

    async with jobs.testing() as t:
        handles = [await double.enqueue(1), await plain.enqueue(), await double.options(delay="5m").enqueue(3)]
        assert await t.run_due() == 2
        assert [await handle.result() for handle in handles[:2]] == [2, "plain"]
        assert await handles[2].status() == "scheduled"
        t.advance(299)
        assert await t.run_due() == 0
        t.advance(1)
        assert await t.run_due() == 1
        assert await handles[2].result() == 6
        with pytest.raises(InvalidJob):
            await double.enqueue("x")  # type: ignore[arg-type]
    assert jobs.settings.mode == "postgres"
    assert "postgres" in type(jobs.store).__module__


async def test_context_variables_stay_in_their_job() -> None:
    jobs = JobQueue(memory=True)
    tenant: ContextVar[str] = ContextVar("tenant", default="")
    seen: list[str] = []

    @jobs.task
    async def change(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)

    async with jobs.testing() as t:
        await change.enqueue_many([{"name": name} for name in "abc"])
        assert await t.run_due() == 3
    assert seen == [""] * 3


async def test_retries_take_their_time() -> None:
    jobs = JobQueue(memory=True)
    tries: list[int] = []

    @jobs.task(retry=Retry(max_retries=2, delay=5, backoff=2.0))
    async def fail(ctx: JobContext) -> None:
        tries.append(ctx.attempt)
        raise OSError("no such file")

    async with jobs.testing() as t:
        handle = await fail.enqueue()
        for seconds, ran in ((0, 1), (4, 0), (1, 1), (9, 0), (1, 1), (3600, 0)):
            t.advance(seconds)
            assert await t.run_due() == ran
        with pytest.raises(JobFailed, match="no such file"):
            await handle.result()
    assert tries == [1, 2, 3]


async def test_jobs_that_enqueue_jobs_hooks_and_pauses() -> None:
    jobs = JobQueue(memory=True)
    told: list[str] = []

    class Telling(Middleware):
        async def after_settle(self, job: Settled) -> None:
            told.append(f"{job.type} {job.outcome}")

    jobs.middleware(Telling())

    @jobs.task
    async def first() -> None:
        await second.enqueue()

    @jobs.task(queue="late")
    async def second() -> None: ...

    async with jobs.testing() as t:
        await first.enqueue()
        assert await t.run_due() == 2
        assert told == ["first completed", "second completed"]
        await jobs.operations.pause_queue("late")
        handle = await second.enqueue()
        assert await t.run_due() == 0
        with pytest.raises(ResultTimeout):
            await handle.result(timeout=0)


async def test_no_end_is_told() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task
    async def again() -> None:
        raise Reschedule

    @jobs.task(retry=Retry(max_retries=0))
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async with jobs.testing() as t:
        handle = await cancelled.enqueue()
        assert await t.run_due() == 1
        assert await handle.status() == "dead"
        await again.enqueue()
        with pytest.raises(RuntimeError, match="for ever"):
            await t.run_due(most=20)


async def test_schedules_tick_by_the_clock_that_is_moved() -> None:
    jobs = JobQueue(postgres="postgresql://app@127.0.0.1:1/nowhere")  # nobody connects there
    ran: list[int] = []

    @jobs.cron("0 9 * * *", tz="Europe/Paris", payload={"n": 1})
    async def daily(n: int) -> None:
        ran.append(n)

    async with jobs.testing() as t:
        assert await t.run_due() == 0  # at midnight UTC of a winter's day
        t.advance(8 * 3600 - 1)
        assert await t.run_due() == 0
        t.advance(1)
        assert await t.run_due() == 1
        assert await t.run_due() == 0
        t.advance(5 * 86400)
        assert await t.run_due() == 1  # what was missed comes once
        await jobs.schedules.pause("daily")
        t.advance(86400)
        assert await t.run_due() == 0
        await jobs.schedules.resume("daily")
        assert await t.run_due() == 0
        await jobs.schedules.trigger("daily")
        assert await t.run_due() == 1
        jobs.schedule("hourly", "0 * * * *", "daily", {"n": 2})
        assert await t.run_due() == 0
        t.advance(3600)
        assert await t.run_due() == 1
        assert len(await jobs.schedules.ticks("daily")) == 2
    assert ran == [1, 1, 1, 2]
