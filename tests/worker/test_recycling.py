"""Worker processes that end to be replaced: after many jobs, too much memory, lost threads, or a wedged event loop."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from queue_core import JobFailed, JobQueue
from queue_core.worker.options import EXIT_FAILED, EXIT_RECYCLE, ServiceOptions
from tests.conformance.working import PATIENCE, until

TARGET = "tests.worker.recycled_tasks:jobs"


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[JobQueue]:
    """A queue object on the file that worker processes use too."""
    async with JobQueue(sqlite=tmp_path / "jobs.db") as jobs:
        yield jobs


@asynccontextmanager
async def process(tmp_path: Path, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    environ = {"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__SQLITE__PATH": str(tmp_path / "jobs.db")}
    command = (sys.executable, "-m", "queue_core.worker.process", TARGET, ServiceOptions(**options).to_json())
    with (tmp_path / "log").open("wb") as log:
        running = await asyncio.create_subprocess_exec(*command, env={**os.environ, **environ}, stderr=log)
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def ended(running: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(PATIENCE):
        return await running.wait()


async def test_after_so_many_jobs_and_not_one_more(jobs: JobQueue, tmp_path: Path) -> None:
    await jobs.enqueue_many("pid", [{}] * 30)
    async with process(tmp_path, max_jobs=20, concurrency=7) as running:
        assert await ended(running) == EXIT_RECYCLE
    where = await jobs.inspector.conservation()
    assert (where.completed, where.unfinished) == (20, 10)


async def test_over_so_much_memory(jobs: JobQueue, tmp_path: Path) -> None:
    async with process(tmp_path, max_memory=400 << 20) as running:
        handle = await jobs.enqueue("grow", {"mib": 1})
        assert await handle.result(PATIENCE) == running.pid
        assert running.returncode is None
        await jobs.enqueue("grow", {"mib": 600})
        assert await ended(running) == EXIT_RECYCLE
    assert (await jobs.inspector.conservation()).completed == 2


async def test_after_threads_that_cannot_be_ended(jobs: JobQueue, tmp_path: Path) -> None:
    async with process(tmp_path, concurrency=20) as running:
        first = await jobs.enqueue("stuck", {}, max_retries=0)
        with pytest.raises(JobFailed, match="time limit"):
            await first.result(PATIENCE)
        assert await (await jobs.enqueue("pid")).result(PATIENCE) == running.pid  # one of twenty is no reason
        await jobs.enqueue("stuck", {}, max_retries=0)
        assert await ended(running) == EXIT_RECYCLE
    assert "2 handlers cannot be ended" in _log(tmp_path)
    assert (await jobs.inspector.conservation()).dead == 2


async def test_a_blocked_loop_names_its_job(jobs: JobQueue, tmp_path: Path) -> None:
    async with process(tmp_path):
        handle = await jobs.enqueue("block", {"seconds": 2.5})
        await handle.result(PATIENCE)

        async def told() -> bool:
            return "answers again" in await asyncio.to_thread(_log, tmp_path)

        await until(told)
    log = _log(tmp_path)
    assert f"job {handle.id} of type 'block' holds it up" in log
    assert "time.sleep(seconds)" in log


async def test_a_wedged_loop_ends_the_process(jobs: JobQueue, tmp_path: Path) -> None:
    async with process(tmp_path, lease=2.0, heartbeat=0.4) as running:
        handle = await jobs.enqueue("block", {"seconds": 600})
        assert await ended(running) == EXIT_FAILED
    assert "this process ends" in _log(tmp_path)
    assert (await handle.status()) == "running"  # until its lease ends


def _log(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text()
