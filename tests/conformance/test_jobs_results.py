"""Results: what a handler returned, or why there is none."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from queue_core.client.context import JobContext
from queue_core.errors import JobCancelled, JobFailed, JobNotFound, QueueCoreError, ResultExpired, ResultTimeout
from queue_core.model.job import JobResult
from queue_core.model.retry import Retry
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue
from tests.conformance.making import UNKNOWN
from tests.conformance.working import PATIENCE, until, until_status, working

VALUES: dict[str, Any] = {
    "none": None,
    "number": 42,
    "float": 1.5,
    "truth": False,
    "text": "emoji 🦀 \u202eand more \x1b[31m",
    "nested": {"a": [1, {"b": None}], "c": "ü"},
    "empty": {},
    "large": "x" * 500_000,
}


@pytest.mark.parametrize("running", [False, True], ids=["waiting", "running"])
async def test_a_cancellation_is_heard_at_once(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch, running: bool) -> None:
    monkeypatch.setattr("queue_core.client.results.FIRST_READ_BACK", 3600.0)
    monkeypatch.setattr("queue_core.stores.postgres.delivery.events.FIRST_POLL", 3600.0)
    started = asyncio.Event()

    @jobs.task(queue="images")
    async def work() -> None:
        started.set()
        await asyncio.sleep(PATIENCE)

    handle = await (work if running else work.options(queue="other")).enqueue()
    async with working(jobs):
        if running:
            await started.wait()
        looked, final = asyncio.Event(), jobs.store.results

        async def finals(ids: Sequence[str]) -> list[JobResult]:
            looked.set()
            return await final(ids)

        monkeypatch.setattr(jobs.store, "results", finals)
        waiting = asyncio.create_task(handle.result())
        await looked.wait()
        assert await jobs.cancel(handle.id)
        with pytest.raises(JobCancelled):
            await asyncio.wait_for(waiting, PATIENCE)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
async def test_it_comes_back_as_it_was(jobs: JobQueue, value: Any) -> None:
    @jobs.task
    async def give() -> Any:
        return value

    async with working(jobs):
        assert await (await give.enqueue()).result(PATIENCE) == value


async def test_of_every_kind_of_handler(jobs: JobQueue) -> None:
    @jobs.task
    async def with_context(ctx: JobContext, a: int, b: int = 2) -> list[Any]:
        return [ctx.type, a, b]

    @jobs.task
    async def without(a: int, *, b: int = 3) -> list[Any]:
        return ["without", a, b]

    @jobs.task
    def plain(ctx: JobContext, a: int, b: int = 4) -> list[Any]:
        return [ctx.type, a, b]

    @jobs.task
    def bare(**names: int) -> dict[str, int]:
        return names

    async with working(jobs):
        assert await (await with_context.enqueue(1)).result(PATIENCE) == ["with_context", 1, 2]
        assert await (await without.enqueue(1, b=9)).result(PATIENCE) == ["without", 1, 9]
        assert await (await plain.enqueue(a=1)).result(PATIENCE) == ["plain", 1, 4]
        assert await (await bare.enqueue(x=1, y=2)).result(PATIENCE) == {"x": 1, "y": 2}


async def test_what_the_context_says(jobs: JobQueue) -> None:
    @jobs.task(queue="images", priority=9)
    async def look(ctx: JobContext, path: str) -> dict[str, Any]:
        return {
            "job_id": ctx.job_id,
            "token": ctx.token,
            "attempt": ctx.attempt,
            "payload": ctx.payload,
            "where": [ctx.queue, ctx.type, ctx.worker, ctx.priority, list(ctx.tags), ctx.max_retries],
        }

    async with working(jobs) as worker:
        handle = await look.options(tags=["x"], max_retries=2).enqueue("a.png")
        found = await handle.result(PATIENCE)
    job = await jobs.inspector.get(handle.id)
    assert (found["job_id"], found["token"], found["attempt"]) == (handle.id, job.token, 1)
    assert found["payload"] == {"path": "a.png"}
    assert found["where"] == ["images", "look", worker.id, 9, ["x"], 2]


async def test_many_wait_for_one(jobs: JobQueue) -> None:
    @jobs.task
    async def give() -> int:
        return 7

    handle = await give.enqueue()
    waiting = asyncio.gather(*(handle.result(PATIENCE) for _ in range(5)), jobs.result(handle.id, PATIENCE))
    async with working(jobs):
        assert await waiting == [7] * 6
    assert await handle.result() == 7


async def test_in_time_or_not(jobs: JobQueue) -> None:
    release = asyncio.Event()

    @jobs.task
    async def hold() -> int:
        await release.wait()
        return 1

    handle = await hold.enqueue()
    with pytest.raises(ResultTimeout) as caught:
        await handle.result(0.05)
    assert (caught.value.job_id, caught.value.timeout) == (handle.id, 0.05)
    async with working(jobs):
        await until_status(jobs, handle.id, "running")
        with pytest.raises(TimeoutError):
            await handle.result(0.05)
        release.set()
        assert await handle.result(PATIENCE) == 1


async def test_who_waits_learns_that_the_object_is_closed(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("work")
    # In memory, where no program runs jobs, it would be an error to wait.
    assert await jobs.claim_next("elsewhere", types=["other"]) is None
    waiting = [asyncio.ensure_future(handle.result(timeout)) for timeout in (None, PATIENCE)]

    async def wait() -> bool:
        return len(jobs._results._limits) == len(waiting)

    await until(wait)
    await jobs.close()
    for one in waiting:
        with pytest.raises(QueueCoreError, match="closed while a result was waited for"):
            await asyncio.wait_for(one, PATIENCE)
    assert await handle.status() == "queued"


async def test_of_a_job_that_died(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=0))
    async def fail() -> None:
        raise ValueError("no such width: 0")

    async with working(jobs):
        handle = await fail.enqueue()
        with pytest.raises(JobFailed, match="ValueError: no such width: 0") as caught:
            await handle.result(PATIENCE)
    assert (caught.value.job_id, caught.value.error) == (handle.id, "ValueError: no such width: 0")
    assert await handle.status() == "dead"


async def test_of_a_job_that_was_cancelled(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("nobody.runs.this")
    waiting = asyncio.create_task(handle.result(PATIENCE))
    await asyncio.sleep(0)
    await jobs.operations.change("cancel", [handle.id])
    with pytest.raises(JobCancelled):
        await waiting
    with pytest.raises(JobCancelled):
        await jobs.result(handle.id)


@pytest.mark.parametrize("job_id", [UNKNOWN, "rubbish", ""])
async def test_of_a_job_that_is_not_there(jobs: JobQueue, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        await jobs.result(job_id, 1)


async def test_what_has_no_json_form_comes_as_its_text(jobs: JobQueue) -> None:
    """The work is done; the job does not fail for its return value."""

    @jobs.task
    async def give() -> Any:
        return {1, 2}

    async with working(jobs):
        handle = await give.enqueue()
        assert await handle.result(PATIENCE) == "{1, 2}"


async def test_a_result_over_its_limit_is_cut(jobs: JobQueue) -> None:
    @jobs.task
    async def give() -> str:
        return "x" * (3 << 20)

    async with working(jobs):
        result = await (await give.enqueue()).result(PATIENCE)
    assert len(result) < 1 << 20
    assert "cut" in result


@pytest.mark.parametrize("value", [42, None])
async def test_after_its_retention_it_is_an_error_of_its_own(mode_settings: JobsSettings, value: int | None) -> None:
    kept = mode_settings.retention.model_copy(update={"results": 0.01})
    async with JobQueue(settings=mode_settings.model_copy(update={"retention": kept})) as jobs:

        @jobs.task
        async def give() -> Any:
            return value

        async with working(jobs):
            handle = await give.enqueue()
            await until_status(jobs, handle.id, "completed")
            # What is waited for is the time itself.
            await asyncio.sleep(0.05)
            with pytest.raises(ResultExpired, match=f"job {handle.id} has completed; its result is over its retention"):
                await handle.result(PATIENCE)
            assert await handle.status() == "completed"
