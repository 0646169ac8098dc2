"""A worker that is killed: its jobs run elsewhere at once, not when their leases end, in minutes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from queue_core import JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.worker.options import _plain
from tests.waiting import PATIENCE, eventually
from tests.worker.test_supervisor import serving

LEASE = 300.0
"""Seconds; no test waits for so long."""


@pytest.fixture
def environment(mode_settings: JobsSettings, tmp_path: Path) -> dict[str, str]:
    """What the workers of services need to find the store of the mode under test."""
    if mode_settings.mode == "memory":
        pytest.skip("a store in memory has one process")
    return {"SERVED_SETTINGS": json.dumps(_plain(mode_settings.model_dump())), "SERVED_FOLDER": str(tmp_path)}


async def running(jobs: JobQueue, folder: Path) -> tuple[str, int]:
    """Enqueue a job that waits for a gate; once it has started, return it and the process that runs it."""
    handle = await jobs.enqueue("waits")
    assert await eventually((folder / "started-1").exists)
    worker = (await jobs.inspector.get(handle.id)).worker
    assert worker is not None
    return handle.id, int(worker.split(":")[1])


async def finish(jobs: JobQueue, folder: Path, job_id: str) -> None:
    """Let the second attempt end; the first one is a loss, and fenced."""
    assert await eventually((folder / "started-2").exists)
    (folder / "gate").touch()
    assert await jobs.result(job_id, PATIENCE) == 2
    job = await jobs.inspector.get(job_id)
    assert (job.losses, job.crashes, job.retry_count) == (1, 0, 0)
    (attempt,) = await jobs.inspector.attempts(job_id)
    assert attempt.kind == "lost"
    assert attempt.token < job.token


async def test_a_killed_process_of_a_service_is_missed_at_once(
    jobs: JobQueue, tmp_path: Path, environment: dict[str, str]
) -> None:
    with serving(tmp_path, environment=environment, lease=LEASE) as service:
        service.ready()
        job_id, worker = await running(jobs, tmp_path)
        os.kill(worker, signal.SIGKILL)
        await finish(jobs, tmp_path, job_id)


async def test_a_service_that_is_gone_is_missed_by_another_one_on_its_host(
    jobs: JobQueue, tmp_path: Path, environment: dict[str, str]
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with serving(folders[0], environment=environment, processes=1, lease=LEASE) as first:
        first.ready(1)
        job_id, worker = await running(jobs, tmp_path)
        with serving(folders[1], environment=environment, processes=1, lease=LEASE) as second:
            second.ready(1)
            for pid in (first.process.pid, worker):
                os.kill(pid, signal.SIGKILL)
            await finish(jobs, tmp_path, job_id)
            assert f":{worker}:" in second.log, "it says whom it misses"
