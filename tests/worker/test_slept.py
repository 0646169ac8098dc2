"""Leases that have run out by the worker's own clock before a handler begins: see conformance/test_jobs_slept, too."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.model.job import Claim
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.children.pool import ProcessPool
from queue_core.worker.worker import Worker
from tests.conformance.working import PATIENCE, until_status, working
from tests.worker import process_tasks


def age(worker: Worker, job_id: str) -> int:
    """Let the lease of a job have run out by its worker's clock; return its token."""
    attempt = worker._held[job_id]
    attempt.renewed = -inf
    return attempt.claim.token


async def test_what_outlives_its_lease_in_the_turn_of_the_loop_in_which_it_begins_does_not(jobs: JobQueue) -> None:
    """Others that began in the same turn may have computed for long, or the process was stopped."""
    ran: list[int] = []
    tokens: list[int] = []

    @jobs.task
    async def work() -> None:
        ran.append(len(tokens))

    async with working(jobs, heartbeat="10s") as worker:
        started = worker._publisher.started

        def aging(claim: Claim) -> None:
            if not tokens:
                age(worker, claim.id)
            tokens.append(claim.token)
            started(claim)

        worker._publisher.started = aging  # type: ignore[method-assign]
        handle = await jobs.enqueue("work")
        await until_status(jobs, handle.id, "completed")
    assert (ran, len(tokens)) == ([2], 2)
    assert (await jobs.inspector.get(handle.id)).losses == 0


async def test_what_outlives_its_lease_while_it_waits_for_a_child_does_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens: list[int] = []
    take = ProcessPool._take

    async with JobQueue(memory=True) as jobs:
        jobs.tasks.add(process_tasks.jobs.tasks.get("pid"))
        workers: list[Worker] = []

        async def taking(pool: ProcessPool, attempt: RunningAttempt) -> Any:
            child = await take(pool, attempt)
            tokens.append(workers[0]._held[handle.id].claim.token)
            if len(tokens) == 1:
                age(workers[0], handle.id)
            return child

        monkeypatch.setattr(ProcessPool, "_take", taking)
        handle = await jobs.enqueue("pid", {})
        async with working(jobs, target="tests.worker.process_tasks:jobs", heartbeat="10s") as worker:
            workers.append(worker)
            await handle.result(PATIENCE)
        job = await jobs.inspector.get(handle.id)
    assert (len(tokens), job.token, job.losses, job.retry_count) == (2, tokens[1], 0, 0)
