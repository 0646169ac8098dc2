"""Lists that are so long that a store may begin to write them before all of their jobs are built."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_core import JobQueue, QueueClosed
from queue_core.client.joblist import PART_JOBS
from queue_core.errors import InvalidJob, QueueFull
from queue_core.model.filters import Filter
from queue_core.model.settings import JobsSettings
from queue_core.model.states import Status
from tests.conformance.working import PATIENCE, working

LONG = 2 * PART_JOBS + 60


async def enqueued(jobs: JobQueue) -> int:
    """Return how many jobs are there."""
    return (await jobs.inspector.conservation()).unfinished


async def test_all_of_it_runs_in_its_order(jobs: JobQueue) -> None:
    ran: list[int] = []

    @jobs.task(queue="work")
    async def task(n: int) -> None:
        ran.append(n)

    handles = await task.enqueue_many([{"n": n} for n in range(LONG)])
    assert len({handle.id for handle in handles}) == LONG
    async with working(jobs, concurrency=1):
        await handles[-1].result(PATIENCE)
    assert ran == list(range(LONG))
    stored = await jobs.inspector.get(handles[-2].id)
    assert json.loads(stored.payload_text) == {"n": LONG - 2}


@pytest.mark.parametrize("place", [0, PART_JOBS, LONG - 1])
async def test_one_that_is_refused_takes_all_others_with_it(jobs: JobQueue, place: int) -> None:
    payloads: list[Mapping[str, Any]] = [{"n": n} for n in range(LONG)]
    payloads[place] = {"n": float("nan")}
    with pytest.raises(InvalidJob, match="the payload"):
        await jobs.enqueue_many("task", payloads, queue="work")
    assert await enqueued(jobs) == 0
    await jobs.enqueue_many("task", payloads[:place] + payloads[place + 1 :], queue="work")
    assert await enqueued(jobs) == LONG - 1


async def test_one_whose_later_payloads_are_large(jobs: JobQueue) -> None:
    payloads = [{"text": "x" * (40_000 if n >= LONG - 300 else 1)} for n in range(LONG)]
    handles = await jobs.enqueue_many("task", payloads, queue="work")
    assert await enqueued(jobs) == LONG
    assert len((await jobs.inspector.get(handles[-1].id)).payload_text) > 40_000


async def test_a_caller_that_gives_up_leaves_all_or_nothing(jobs: JobQueue) -> None:
    callers = [asyncio.create_task(jobs.enqueue_many("task", [{}] * LONG, queue="work")) for _ in range(4)]
    for caller in callers[::2]:
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.wait(callers)
    await jobs._enqueuer.drain()
    assert await enqueued(jobs) in {2 * LONG, 3 * LONG, 4 * LONG}


async def test_a_closed_queue_takes_none(jobs: JobQueue) -> None:
    await jobs.enqueue("task", queue="work")
    await jobs.operations.drain_queue("work")
    with pytest.raises(QueueClosed):
        await jobs.enqueue_many("task", [{}] * LONG, queue="work")
    assert await enqueued(jobs) == 1


async def test_a_limit_refuses_it_as_a_whole(mode_settings: JobsSettings) -> None:
    jobs = JobQueue(settings=mode_settings)
    jobs.queue("narrow", limit=LONG - 1)
    async with jobs:
        with pytest.raises(QueueFull):
            await jobs.enqueue_many("task", [{}] * LONG, queue="narrow")
        assert await enqueued(jobs) == 0
        await jobs.enqueue_many("task", [{}] * (LONG - 1), queue="narrow")
        assert await enqueued(jobs) == LONG - 1


async def test_one_for_later_is_due_then(jobs: JobQueue) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    await jobs.enqueue_many("task", [{}] * LONG, queue="work", run_at=at)
    page = await jobs.inspector.jobs(Filter(), 5)
    assert {job.status for job in page.jobs} == {Status.SCHEDULED}
    assert await enqueued(jobs) == LONG
