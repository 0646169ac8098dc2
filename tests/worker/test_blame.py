"""Jobs that run alone: only a death that their worker saw, and that nobody else brought about, is their own doing."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queue_core import Job, JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.ports.store import ClaimRequest
from tests.conformance.working import PATIENCE, until, working
from tests.waiting import eventually
from tests.worker import process_tasks

TARGET = "tests.worker.process_tasks:jobs"


@pytest.fixture
async def jobs() -> AsyncIterator[JobQueue]:
    """A queue object of this test alone, with the tasks of the module that children import."""
    settings = JobsSettings.model_validate({"queue_backend": "memory", "defaults": {"max_losses": 4}})
    async with JobQueue(settings=settings) as jobs:
        jobs.tasks.add(process_tasks.jobs.tasks.get("alone"))
        yield jobs


async def suspect(jobs: JobQueue, folder: Path, how: str, losses: int = 2) -> str:
    """Enqueue a job that has lost this many workers."""
    handle = await jobs.enqueue("alone", {"folder": str(folder), "how": how}, max_retries=50)
    await jobs.store.acquire_leadership("sweep", "test", 0.0)
    for number in range(losses):
        assert await jobs.store.claim(ClaimRequest("default", f"lost-{number}", None, 1, 0.001))

        async def taken_back() -> bool:
            return bool(await jobs.store.reclaim(1))

        await until(taken_back)
    return handle.id


async def until_lost(jobs: JobQueue, job_id: str, losses: int = 3) -> Job:
    async def lost() -> bool:
        return (await jobs.inspector.get(job_id)).losses >= losses

    await until(lost)
    return await jobs.inspector.get(job_id)


async def until_dead(jobs: JobQueue, job_id: str) -> Job:
    async def dead() -> bool:
        return (await jobs.inspector.get(job_id)).status == "dead"

    await until(dead)
    return await jobs.inspector.get(job_id)


async def until_alone(folder: Path) -> int:
    """Return the process in which the job runs."""
    assert await eventually((folder / "alone").exists)
    pid = int((folder / "alone").read_text())
    assert pid != os.getpid()
    return pid


@pytest.mark.parametrize("how", ["segfault", "exit", "kill"])
async def test_one_death_alone_that_its_worker_saw_is_poison(jobs: JobQueue, tmp_path: Path, how: str) -> None:
    job_id = await suspect(jobs, tmp_path, how)
    async with working(jobs, target=TARGET):
        job = await until_dead(jobs, job_id)
    assert (job.failure_kind, job.losses, job.crashes, job.retry_count) == ("poison", 2, 1, 0)
    assert job.error is not None
    assert job.error.endswith("; before that, 2 workers were lost while they ran it")
    await jobs.operations.change("retry", [job_id])
    (tmp_path / "alone").unlink()
    async with working(jobs, target=TARGET):
        await until_alone(tmp_path)  # at once, for the crash count stays
        job = await until_dead(jobs, job_id)
    assert (job.failure_kind, job.losses, job.crashes) == ("poison", 0, 2)
    assert job.error is not None
    assert "lost while" not in job.error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_of_the_service_blames_nobody(jobs: JobQueue, tmp_path: Path, number: signal.Signals) -> None:
    job_id = await suspect(jobs, tmp_path, "wait")
    async with working(jobs, target=TARGET, grace="0.1s"):
        os.kill(await until_alone(tmp_path), number)
        job = await until_lost(jobs, job_id)
        assert (job.failure_kind, job.losses, job.crashes, job.retry_count) == ("lost", 3, 0, 0)


async def test_a_death_while_the_worker_drains_blames_nobody(jobs: JobQueue, tmp_path: Path) -> None:
    """Who ends a service ends its processes one after the other."""
    job_id = await suspect(jobs, tmp_path, "wait")
    async with working(jobs, stops=True, target=TARGET, grace=PATIENCE) as worker:
        os.kill(await until_alone(tmp_path), signal.SIGKILL)
        worker.stop()
    job = await jobs.inspector.get(job_id)
    assert (job.status, job.failure_kind, job.losses, job.crashes) == ("queued", "lost", 3, 0)


async def test_a_process_that_never_had_the_job_blames_nobody(jobs: JobQueue, tmp_path: Path) -> None:
    """It cannot even import the queue object. At the bound of losses the job is buried, and not as poison."""
    job_id = await suspect(jobs, tmp_path, "wait")
    async with working(jobs, target="tests.worker.no_such_module:jobs"):
        job = await until_dead(jobs, job_id)
    assert (job.failure_kind, job.losses, job.crashes) == ("lost", 4, 0)
