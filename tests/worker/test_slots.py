"""What a worker holds beside the jobs that run, which attempt of a job that is, and what a stop means to it."""

from __future__ import annotations

import asyncio
import time

import pytest

from queue_core import JobContext, JobQueue
from queue_core.model.job import Claim
from queue_core.ports.store import ClaimRequest
from queue_core.worker.attempt import RunningAttempt, within_soft_limit
from queue_core.worker.runner import PATIENCE_SECONDS
from queue_core.worker.worker import Worker
from tests.waiting import eventually


async def claimed(jobs: JobQueue, worker: Worker, number: int) -> list[Claim]:
    """Let a worker have claimed jobs of the type `work`."""
    await jobs.enqueue_many("work", [{}] * number)
    return await jobs.store.claim(ClaimRequest("default", worker.id, None, number, 3600.0))


async def test_of_what_waits_too_long_the_last_ones_are_given_back_and_count_for_nothing(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the best ranks stay, and as many jobs may still be run as before."""
    worker = Worker(jobs, queues=["default"], concurrency=1)
    runner, back = worker._runner, list[str]()
    monkeypatch.setattr(runner._settler, "put", lambda outcome: back.append(outcome.id))
    runner.draining = True  # nothing begins
    runner.left = 10
    claims = await claimed(jobs, worker, 5)
    now = time.monotonic()
    runner.accept(claims, now, 0)
    for _ in range(2):
        now += PATIENCE_SECONDS
        # two of them will start within a tenth of a second
        runner._ended, runner._counted_at = 20, now - 1.0
        runner._count(now)
    assert back == [claim.id for claim in claims[:1:-1]]
    assert runner.left == 10 - 5 + 3


async def test_a_job_that_was_claimed_again_is_held_whatever_becomes_of_its_earlier_attempt(jobs: JobQueue) -> None:
    """Else nobody renews its lease: the worker slept beyond the one before."""
    tokens: list[int] = []
    go_on = asyncio.Event()

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> None:
        tokens.append(ctx.token)
        await go_on.wait()

    worker = Worker(jobs)
    runner = worker._runner
    (claim,) = await claimed(jobs, worker, 1)
    runner.accept([claim], time.monotonic(), 1)
    assert await eventually(lambda: tokens == [claim.token])
    again = claim._replace(token=claim.token + 1)
    runner.accept([again], time.monotonic(), 1)
    assert await eventually(lambda: tokens == [claim.token, again.token] and runner.busy == 1)
    assert [one.claim for one in worker._held.values()] == [again]
    go_on.set()
    assert await eventually(lambda: runner.busy == 0)


async def test_who_is_stopped_at_the_moment_of_its_soft_limit_is_cancelled(jobs: JobQueue) -> None:
    """It is not to go on, as one may after such a limit."""
    seen: list[BaseException] = []

    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            seen.append(error)
            raise

    (claim,) = await claimed(jobs, Worker(jobs), 1)
    attempt = RunningAttempt(claim, 0.0)
    attempt.task = running = asyncio.create_task(within_soft_limit(attempt, 0.001, True, handler()))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.001, attempt.stop, "cancel")
    time.sleep(0.05)  # noqa: ASYNC251  both are due in one turn of the loop, the limit first
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (attempt.late, attempt.stop_reason) == (True, "cancel")
    assert [type(error) for error in seen] == [asyncio.CancelledError]
