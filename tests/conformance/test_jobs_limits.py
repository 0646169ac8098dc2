"""Soft time limits, and how handlers hear that they shall end."""

import asyncio
import contextlib
import threading
import time

import pytest

from queue_core import (
    ConfigurationError,
    JobContext,
    JobFailed,
    JobQueue,
    Middleware,
    Retry,
    RetryLater,
    SoftTimeLimitExceeded,
)
from tests.conformance.working import PATIENCE, until_status, working


async def test_the_handler_may_clean_up_and_fail(jobs: JobQueue) -> None:
    cleaned: list[str] = []

    @jobs.task(soft_timeout=0.1, timeout=PATIENCE, retry=Retry(max_retries=0))
    async def slow(ctx: JobContext) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except SoftTimeLimitExceeded as error:
            cleaned.append(f"{error.seconds:g} {ctx.stopping}")
            await asyncio.sleep(0.01)  # it can wait again
            raise

    async with working(jobs):
        handle = await slow.enqueue()
        with pytest.raises(JobFailed, match=r"soft time limit of 0\.1 s"):
            await handle.result(PATIENCE)
    assert cleaned == ["0.1 soft_timeout"]
    assert (await jobs.get(handle.id)).failure_kind == "timeout"


async def test_the_handler_may_still_finish(jobs: JobQueue) -> None:
    @jobs.task(soft_timeout=0.1, timeout=PATIENCE)
    async def slow() -> str:
        done = 0
        try:
            for _ in range(1000):
                await asyncio.sleep(0.02)
                done += 1
        except SoftTimeLimitExceeded:
            await asyncio.sleep(0)
            return "in part"
        return "whole"

    async with working(jobs):
        assert await (await slow.enqueue()).result(PATIENCE) == "in part"


async def test_who_goes_on_is_not_being_cancelled_any_more(jobs: JobQueue) -> None:
    """A group of tasks that it opens then would take the limit for a cancellation of its own."""

    @jobs.task(soft_timeout=0.1, timeout=PATIENCE)
    async def slow() -> int:
        with contextlib.suppress(SoftTimeLimitExceeded):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    async with working(jobs):
        assert await (await slow.enqueue()).result(PATIENCE) == 0


async def test_or_ask_for_another_attempt(jobs: JobQueue) -> None:
    @jobs.task(soft_timeout=0.1, timeout=PATIENCE)
    async def slow(ctx: JobContext) -> int:
        try:
            if ctx.attempt == 1:
                await asyncio.sleep(PATIENCE)
        except SoftTimeLimitExceeded as error:
            raise RetryLater(delay=0) from error
        return ctx.attempt

    async with working(jobs):
        assert await (await slow.enqueue()).result(PATIENCE) == 2


async def test_wherever_it_waits(jobs: JobQueue) -> None:
    """Within a time limit of its own, a group of tasks and a task: each is ended as a cancellation would end it."""
    ended: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("child")

    @jobs.task(soft_timeout=0.1, timeout=PATIENCE)
    async def slow(how: str) -> str:
        try:
            if how == "timeout":
                async with asyncio.timeout(PATIENCE):
                    await child()
            elif how == "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(child())
            else:
                await asyncio.create_task(child())
        except* SoftTimeLimitExceeded:
            ended.append(how)
        async with asyncio.timeout(PATIENCE):  # what was cancelled once works again
            await asyncio.sleep(0)
        return how

    async with working(jobs):
        for how in ("timeout", "group", "task"):
            ended.clear()
            assert await (await slow.enqueue(how)).result(PATIENCE) == how
            assert ended == ["child", how]


async def test_the_hard_limit_ends_what_goes_on(jobs: JobQueue) -> None:
    @jobs.task(soft_timeout=0.1, timeout=0.4, retry=Retry(max_retries=0))
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(PATIENCE)
            except SoftTimeLimitExceeded:
                continue

    async with working(jobs):
        with pytest.raises(JobFailed, match=r"ran longer than its time limit of 0\.4 s"):
            await (await stubborn.enqueue()).result(PATIENCE)


async def test_quick_ones_never_hear_of_it(jobs: JobQueue) -> None:
    @jobs.task(soft_timeout=PATIENCE, timeout=2 * PATIENCE)
    async def quick(ctx: JobContext) -> str:
        await asyncio.sleep(0.01)
        return ctx.stopping

    async with working(jobs):
        assert await (await quick.enqueue()).result(PATIENCE) == ""


async def test_a_plain_function_looks(jobs: JobQueue) -> None:
    @jobs.task(soft_timeout=0.1, timeout=PATIENCE)
    def slow(ctx: JobContext) -> str:
        ends = time.monotonic() + PATIENCE
        while not ctx.stopping and time.monotonic() < ends:
            time.sleep(0.005)
        return ctx.stopping

    async with working(jobs):
        assert await (await slow.enqueue()).result(PATIENCE) == "soft_timeout"


@pytest.mark.parametrize("how", ["cancel", "release", "timeout"])
async def test_a_plain_function_sees_why_it_shall_end(jobs: JobQueue, how: str) -> None:
    started, seen = threading.Event(), threading.Event()
    why: list[str] = []

    @jobs.task(timeout=0.3 if how == "timeout" else 0, retry=Retry(max_retries=0))
    def slow(ctx: JobContext) -> None:
        started.set()
        ends = time.monotonic() + PATIENCE
        while not ctx.stopping and time.monotonic() < ends:
            time.sleep(0.005)
        why.append(ctx.stopping)
        seen.set()

    async with working(jobs, stops=True, grace=0.1) as worker:
        handle = await slow.enqueue()
        await asyncio.to_thread(started.wait, PATIENCE)
        if how == "cancel":
            await jobs.cancel(handle.id)
        elif how == "release":
            worker.stop()
        assert await asyncio.to_thread(seen.wait, PATIENCE)
        worker.stop()
    assert why == [how]
    await until_status(jobs, handle.id, {"cancel": "cancelled", "release": "queued", "timeout": "dead"}[how])


async def test_hooks_see_it_too(jobs: JobQueue) -> None:
    seen: list[str] = []

    class Seeing(Middleware):
        async def around_run(self, ctx, call):  # type: ignore[no-untyped-def]
            try:
                return await call()
            except SoftTimeLimitExceeded:
                seen.append("seen")
                raise

    jobs.middleware(Seeing())

    @jobs.task(soft_timeout=0.1, timeout=PATIENCE, retry=Retry(max_retries=0))
    async def slow() -> None:
        await asyncio.sleep(PATIENCE)

    async with working(jobs):
        with pytest.raises(JobFailed):
            await (await slow.enqueue()).result(PATIENCE)
    assert seen == ["seen"]


async def test_a_cancellation_is_no_time_limit(jobs: JobQueue) -> None:
    started = asyncio.Event()
    ended: list[str] = []

    @jobs.task(soft_timeout=PATIENCE, timeout=2 * PATIENCE)
    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(PATIENCE)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    async with working(jobs):
        handle = await slow.enqueue()
        await started.wait()
        await jobs.cancel(handle.id)
        await until_status(jobs, handle.id, "cancelled")
    assert ended == ["CancelledError"]


@pytest.mark.parametrize(("hard", "soft"), [(10, 10), (10, "1m"), (None, "1h"), ("soon", 1), (10, "soon"), (10, -1)])
async def test_limits_that_cannot_be(jobs: JobQueue, hard: object, soft: object) -> None:
    with pytest.raises(ConfigurationError):
        jobs.task(timeout=hard, soft_timeout=soft)(lambda: None)  # type: ignore[call-overload]
