"""Failures: retried by the task's policy, buried when it is spent, repeated by an operator."""

import asyncio
import threading
from datetime import timedelta

import pytest

from queue_core.client.context import JobContext
from queue_core.errors import JobFailed
from queue_core.model.retry import Retry, RetryLater
from queue_core.queue import JobQueue
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE, until_status, working

SOON = Retry(max_retries=3, delay=0.05, backoff=2.0)


class BadFile(Exception):
    """Another attempt would not help."""


class WorseFile(BadFile):
    """Nor here."""


async def test_what_asks_for_a_retry_is_not_its_reason(jobs: JobQueue) -> None:
    """That is the error from which it was raised."""

    @jobs.task(retry=SOON)
    async def asks(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise RetryLater(delay=0.0) from OSError("smtp is away")
        if ctx.attempt == 2:
            raise RetryLater("not yet", delay=0.0)

    async with working(jobs):
        handle = await asks.enqueue()
        await handle.result(PATIENCE)
    attempts = await jobs.inspector.attempts(handle.id)
    assert [attempt.message for attempt in attempts] == ["smtp is away", "not yet"]


async def test_it_is_retried_until_it_works(jobs: JobQueue) -> None:
    tries: list[tuple[int, int]] = []

    @jobs.task(retry=SOON)
    async def flaky(ctx: JobContext) -> str:
        tries.append((ctx.attempt, ctx.token))
        if len(tries) < 3:
            raise OSError(f"try {len(tries)}")
        return "done"

    async with working(jobs):
        handle = await flaky.enqueue()
        assert await handle.result(PATIENCE) == "done"
    assert [attempt for attempt, _ in tries] == [1, 2, 3]
    assert [token for _, token in tries] == sorted({token for _, token in tries})
    job = await jobs.inspector.get(handle.id)
    assert (job.retry_count, job.error) == (2, "OSError: try 2")
    attempts = await jobs.inspector.attempts(handle.id)
    assert [attempt.message for attempt in attempts] == ["try 1", "try 2"]
    assert all("in flaky" in attempt.traceback for attempt in attempts)
    *failed, last = await jobs.attempts(handle.id)
    assert [(one.number, one.kind, one.message) for one in failed] == [(1, "error", "try 1"), (2, "error", "try 2")]
    assert (last.number, last.kind, last.message, last.token) == (3, "completed", "", tries[-1][1])
    assert last.started_at is not None
    assert last.finished_at == job.completed_at


async def test_each_wait_is_longer(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=3, delay=0.2, backoff=2.0, cap=0.5))
    async def fail() -> None:
        raise OSError("again")

    async with working(jobs):
        handle = await fail.enqueue()
        with pytest.raises(JobFailed):
            await handle.result(PATIENCE)
    attempts = await jobs.inspector.attempts(handle.id)
    starts = [attempt.started_at for attempt in attempts if attempt.started_at is not None]
    waits = [after - attempt.finished_at for attempt, after in zip(attempts, starts[1:], strict=False)]
    assert len(waits) == 3
    for wait, least in zip(waits, (0.2, 0.4, 0.5), strict=True):
        assert wait >= timedelta(seconds=least - 0.01)


@pytest.mark.parametrize("retries", [0, 1, 2])
async def test_so_many_retries_and_no_more(jobs: JobQueue, retries: int) -> None:
    tries = 0

    @jobs.task(retry=Retry(max_retries=5, delay=0.01))
    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise OSError("always")

    async with working(jobs):
        handle = await fail.options(max_retries=retries).enqueue()
        with pytest.raises(JobFailed):
            await handle.result(PATIENCE)
    assert tries == retries + 1
    job = await jobs.inspector.get(handle.id)
    assert (job.retry_count, job.failure_kind, job.crashes) == (retries, "error", 0)
    assert job.signature is not None
    assert len(job.signature) == 12


@pytest.mark.parametrize("error", [BadFile, WorseFile])
async def test_some_exceptions_are_never_retried(jobs: JobQueue, error: type[Exception]) -> None:
    tries = 0

    @jobs.task(retry=Retry(max_retries=5, delay=0.01, never=(BadFile,)))
    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise error("broken for good")

    async with working(jobs):
        handle = await fail.enqueue()
        with pytest.raises(JobFailed, match="broken for good"):
            await handle.result(PATIENCE)
    assert tries == 1


async def test_plain_functions_fail_alike(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=1, delay=0.01))
    def fail() -> None:
        raise KeyError("user")

    async with working(jobs):
        handle = await fail.enqueue()
        with pytest.raises(JobFailed, match="KeyError: 'user'"):
            await handle.result(PATIENCE)
    assert len(await jobs.inspector.attempts(handle.id)) == 2


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        StopIteration(1),
        asyncio.CancelledError("by itself"),
        GeneratorExit(),
        Hostile(),
        ExceptionGroup("several", [OSError("a"), ValueError("b")]),
        Exception("\0 \ud800 \x1b[31m"),
        RecursionError("x" * 100_000),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_handler_raises_is_its_own_failure(jobs: JobQueue, error: BaseException) -> None:
    @jobs.task(retry=Retry(max_retries=0))
    async def fail() -> None:
        raise error

    @jobs.task(retry=Retry(max_retries=0))
    def fail_in_thread() -> None:
        raise error

    @jobs.task
    async def fine() -> str:
        return "fine"

    async with working(jobs):
        for task in (fail, fail_in_thread):
            handle = await task.enqueue()
            with pytest.raises(JobFailed):
                await handle.result(PATIENCE)
            assert (await jobs.inspector.get(handle.id)).failure_kind == "error"
        assert await (await fine.enqueue()).result(PATIENCE) == "fine"


async def test_a_time_limit_ends_the_attempt(jobs: JobQueue) -> None:
    cancelled = asyncio.Event()

    @jobs.task(timeout=0.1, retry=Retry(max_retries=0))
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with working(jobs):
        handle = await endless.enqueue()
        with pytest.raises(JobFailed, match=r"0\.1"):
            await handle.result(PATIENCE)
    assert cancelled.is_set()
    job = await jobs.inspector.get(handle.id)
    assert (job.failure_kind, job.status) == ("timeout", "dead")
    assert "endless" in str(job.traceback)


async def test_a_time_limit_is_retried_like_any_failure(jobs: JobQueue) -> None:
    tries = 0

    @jobs.task(timeout=0.1, retry=Retry(max_retries=1, delay=0.01))
    async def slow_at_first() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            await asyncio.Event().wait()
        return "in time"

    async with working(jobs):
        assert await (await slow_at_first.enqueue()).result(PATIENCE) == "in time"
    totals = {one.outcome: one.count for one in await jobs.inspector.tallies()}
    assert totals == {"enqueued": 1, "retried": 1, "timed_out": 1, "completed": 1}


async def test_a_time_limit_of_a_plain_function(jobs: JobQueue) -> None:
    """Its thread cannot be stopped, but the job is over."""
    release = threading.Event()

    @jobs.task(timeout=0.1, retry=Retry(max_retries=0))
    def endless() -> None:
        release.wait(PATIENCE)

    async with working(jobs):
        handle = await endless.enqueue()
        try:
            with pytest.raises(JobFailed):
                await handle.result(PATIENCE)
        finally:
            release.set()
    assert (await jobs.inspector.get(handle.id)).failure_kind == "timeout"


async def test_no_time_limit(jobs: JobQueue) -> None:
    @jobs.task(timeout=0)
    async def take_its_time() -> str:
        await asyncio.sleep(0.2)
        return "done"

    async with working(jobs):
        assert await (await take_its_time.enqueue()).result(PATIENCE) == "done"


async def test_out_of_the_dlq_after_the_repair(jobs: JobQueue) -> None:
    broken = True

    @jobs.task(retry=Retry(max_retries=1, delay=0.01))
    async def parse(ctx: JobContext) -> int:
        if broken:
            raise BadFile("not yet")
        return ctx.attempt

    async with working(jobs):
        handle = await parse.enqueue()
        with pytest.raises(JobFailed):
            await handle.result(PATIENCE)
        broken = False
        assert (await jobs.operations.change("retry", [handle.id])).ids == (handle.id,)
        assert await handle.result(PATIENCE) == 1


async def test_a_payload_that_its_handler_cannot_take(jobs: JobQueue) -> None:
    """It is tried again, for a worker of another version may take it; the next job runs."""

    @jobs.task(retry=SOON)
    async def resize(path: str) -> str:
        return path

    async with working(jobs):
        # As a producer writes it that does not know the handler.
        bad = new_job(type="resize", queue="default", payload='{"width": 1}', max_retries=0)
        await jobs.store.insert([bad])
        with pytest.raises(JobFailed):
            await jobs.result(bad.id, PATIENCE)
        assert (await jobs.inspector.get(bad.id)).failure_kind == "invalid_payload"
        assert await (await resize.enqueue("a.png")).result(PATIENCE) == "a.png"


@pytest.mark.parametrize("text", ["{not json", "[1]", '"x"', "null", ""])
async def test_a_stored_payload_that_is_none(jobs: JobQueue, text: str) -> None:
    @jobs.task(queue="work")
    async def task() -> None: ...

    bad, good = new_job(payload=text), new_job()
    await jobs.store.insert([bad, good])
    async with working(jobs):
        await until_status(jobs, bad.id, "dead")
        await until_status(jobs, good.id, "completed")
    assert (await jobs.inspector.get(bad.id)).failure_kind == "invalid_payload"
