"""Handlers that say themselves when their job goes on, and policies for single exceptions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_core.client.context import JobContext
from queue_core.errors import ConfigurationError, JobFailed
from queue_core.model.retry import Reschedule, Retry, RetryLater
from queue_core.queue import JobQueue
from tests.conformance.working import PATIENCE, until_status, working


async def test_retry_later_uses_an_attempt(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=1, delay="1h"))
    async def poll(ctx: JobContext) -> None:
        raise RetryLater("not ready", delay=0.01)

    async with working(jobs):
        handle = await poll.enqueue()
        with pytest.raises(JobFailed, match="not ready"):
            await handle.result(PATIENCE)
    assert (await jobs.inspector.get(handle.id)).retry_count == 1


async def test_retry_later_waits_as_long_as_asked_and_keeps_the_reason(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(delay=0.01))
    def fetch() -> None:
        try:
            raise OSError("no such host")
        except OSError as error:
            raise RetryLater(delay="1h") from error

    async with working(jobs):
        handle = await fetch.enqueue()
        await until_status(jobs, handle.id, "retrying")
    job = await jobs.inspector.get(handle.id)
    assert job.error == "OSError: no such host"
    assert timedelta(minutes=59) < job.run_at - job.updated_at <= timedelta(hours=1, seconds=1)


async def test_reschedule_to_the_back_of_the_queue(jobs: JobQueue) -> None:
    ran: list[tuple[int, int]] = []

    @jobs.task(retry=Retry(max_retries=0))
    async def turn(ctx: JobContext, n: int) -> None:
        ran.append((n, ctx.attempt))
        if n == 0 and len(ran) < 4:
            raise Reschedule

    handles = await turn.enqueue_many([{"n": n} for n in range(3)])
    async with working(jobs, concurrency=1):
        for handle in handles:
            await handle.result(PATIENCE)
    assert ran[0] == (0, 1)
    assert ran.index((1, 1)) < ran.index((2, 1))
    assert ran.count((0, 1)) == len(ran) - 2 >= 2


@pytest.mark.parametrize("asked", ["delay", "at"])
async def test_reschedule_for_a_time(jobs: JobQueue, asked: str) -> None:
    @jobs.task
    async def wait() -> None:
        if asked == "delay":
            raise Reschedule(delay="1h")
        raise Reschedule(at=datetime.now(UTC) + timedelta(hours=1))

    async with working(jobs):
        handle = await wait.enqueue()
        await until_status(jobs, handle.id, "scheduled")
    job = await jobs.inspector.get(handle.id)
    assert (job.retry_count, job.crashes, job.error) == (0, 0, None)
    assert abs(job.run_at - job.updated_at - timedelta(hours=1)) < timedelta(minutes=5)


async def test_reschedule_soon_runs_again(jobs: JobQueue) -> None:
    times = 0

    @jobs.task
    async def poll(ctx: JobContext) -> int:
        nonlocal times
        times += 1
        if times < 3:
            raise Reschedule(delay=0.05)
        return ctx.attempt

    async with working(jobs):
        assert await (await poll.enqueue()).result(PATIENCE) == 1
    assert times == 3


@pytest.mark.parametrize("asked", [{"delay": -1}, {"delay": "soon"}, {"at": datetime(2030, 1, 1)}])
async def test_a_wrong_wish_fails_the_attempt(jobs: JobQueue, asked: dict[str, object]) -> None:
    @jobs.task(retry=Retry(max_retries=0))
    async def wish() -> None:
        raise Reschedule(**asked)  # type: ignore[arg-type]

    async with working(jobs):
        with pytest.raises(JobFailed, match="InvalidJob"):
            await (await wish.enqueue()).result(PATIENCE)


class Limited(OSError):
    pass


async def test_a_policy_for_an_exception(jobs: JobQueue) -> None:
    on = {OSError: Retry(delay="1h"), Limited: Retry(max_retries=4, delay=0.01), KeyError: Retry(max_retries=0)}

    @jobs.task(retry=Retry(max_retries=1, delay=0.01, on=on))
    async def call(what: str) -> None:
        raise {"limited": Limited, "os": OSError, "key": KeyError, "other": ValueError}[what]("x")

    async with working(jobs):
        handles = {what: await call.enqueue(what) for what in ("limited", "key", "other", "os")}
        for what, retries in (("limited", 4), ("key", 0), ("other", 1)):
            with pytest.raises(JobFailed):
                await handles[what].result(PATIENCE)
            assert (await jobs.inspector.get(handles[what].id)).retry_count == retries
        await until_status(jobs, handles["os"].id, "retrying")
        given = await call.options(max_retries=2).enqueue("limited")  # what the caller asks for holds
        with pytest.raises(JobFailed):
            await given.result(PATIENCE)
        assert (await jobs.inspector.get(given.id)).retry_count == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"never": ("KeyError",)},
        {"never": (5,)},
        {"never": "KeyError"},
        {"never": KeyError("x")},
        {"on": {OSError: 5}},
        {"on": {5: Retry()}},
        {"on": [OSError]},
        {"backoff": float("nan")},
        {"backoff": float("inf")},
        {"backoff": "x"},
        {"jitter": float("nan")},
        {"jitter": None, "delay": float("nan")},
        {"cap": 1e300},
        {"delay": [1]},
        {"max_retries": 1.5},
        {"max_retries": "3"},
    ],
    ids=str,
)
async def test_what_is_no_policy_is_refused(wrong: dict[str, Any]) -> None:
    """It would be found at a job's first failure, whose outcome could not be made then."""
    with pytest.raises(ConfigurationError, match="retry policy"):
        JobQueue(memory=True).task(retry=Retry(**wrong))


async def test_one_class_is_buried_at_once(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(delay=0.01, never=LookupError))
    async def look() -> None:
        raise KeyError("x")

    async with working(jobs):
        handle = await look.enqueue()
        with pytest.raises(JobFailed):
            await handle.result(PATIENCE)
    assert (await jobs.inspector.get(handle.id)).retry_count == 0


async def test_a_delay_that_cannot_be_is_the_policy_s(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=1, delay=0.01))
    async def ask() -> None:
        asked = RetryLater(delay=1)
        asked.delay = float("nan")
        raise asked

    async with working(jobs):
        handle = await ask.enqueue()
        with pytest.raises(JobFailed):
            await handle.result(PATIENCE)


@pytest.mark.parametrize("inner", [Retry(max_retries=-1), Retry(never=(OSError,)), Retry(on={OSError: Retry()})])
async def test_a_wrong_policy_is_refused(inner: Retry) -> None:
    with pytest.raises(ConfigurationError, match="retry policy"):
        JobQueue(memory=True).task(retry=Retry(on={ValueError: inner}))
