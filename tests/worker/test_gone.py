"""A worker that is killed: its jobs run elsewhere at once, not when their leases end, in minutes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queue_core import Job, JobQueue
from queue_core.worker.options import ServiceOptions
from tests.architecture.sources import ROOT
from tests.waiting import PATIENCE, eventually, until
from tests.worker.test_neighbours import NAMESPACE
from tests.worker.test_supervisor import TARGET, serving

LEASE = 300.0
"""Seconds; no test waits for so long."""


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[JobQueue]:
    """A producer on the store of the services."""
    async with JobQueue(sqlite=tmp_path / "jobs.db") as jobs:
        yield jobs


async def until_started(folder: Path, number: int = 1) -> None:
    assert await eventually((folder / f"started-{number}").exists), f"attempt {number} has not started"


async def until_running(jobs: JobQueue, job_id: str) -> int:
    """Return the process that runs a job."""
    job = await jobs.inspector.get(job_id)
    assert job.worker is not None
    return int(job.worker.split(":")[1])


async def finished(jobs: JobQueue, folder: Path, job_id: str) -> Job:
    (folder / "gate").touch()
    assert await jobs.result(job_id, PATIENCE) == 2
    return await jobs.inspector.get(job_id)


async def test_the_service_itself_tells_the_store(tmp_path: Path, jobs: JobQueue) -> None:
    """Nobody else is on this machine, and the next process has yet to import the application."""
    environment = {"SERVED_SLOW_IMPORT": "5"}
    with serving(tmp_path, environment=environment, processes=1, lease=LEASE) as service:
        (worker,) = service.ready(1)
        handle = await jobs.enqueue("waits")
        await until_started(tmp_path)
        os.kill(worker, signal.SIGKILL)

        async def is_back() -> bool:
            return (await jobs.inspector.get(handle.id)).status == "queued"

        assert await eventually(is_back), service.log
        assert service.log.count(" INFO worker ") == 1, "the next one works already, and may have done it"
        await until_started(tmp_path, 2)
        assert (await finished(jobs, tmp_path, handle.id)).losses == 1


async def test_a_process_that_stands_still_is_not_gone(tmp_path: Path, jobs: JobQueue) -> None:
    with serving(tmp_path, lease=LEASE) as service:
        service.ready()
        handle = await jobs.enqueue("waits")
        await until_started(tmp_path)
        worker = await until_running(jobs, handle.id)
        os.kill(worker, signal.SIGSTOP)
        assert not until((tmp_path / "started-2").exists, 1.5)
        os.kill(worker, signal.SIGCONT)
        (tmp_path / "gate").touch()
        assert await handle.result(PATIENCE) == 1


@contextmanager
def contained(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker whose process has a number of its own namespace."""
    if subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not make a process namespace")
    options = ServiceOptions(concurrency=1, lease=LEASE)
    with (folder / "contained").open("wb") as log:
        process = subprocess.Popen(
            [*NAMESPACE, sys.executable, "-m", "queue_core.worker.process", TARGET, options.to_json()],
            cwd=ROOT,
            env=os.environ | {"SERVED_FOLDER": str(folder)},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()  # and with it, since `unshare` is its parent, whatever runs there
        process.wait()


async def test_of_a_container_with_the_same_host_name_only_the_lease_tells(tmp_path: Path, jobs: JobQueue) -> None:
    """Its process has a number there that no process, or another one, has here."""
    with contained(tmp_path) as process:
        handle = await jobs.enqueue("waits")
        await until_started(tmp_path)

        # Its first heartbeat and its first claim are on their way at once.
        async def is_known() -> bool:
            return bool((await jobs.inspector.overview()).workers)

        assert await eventually(is_known)
        (worker,) = (await jobs.inspector.overview()).workers
        assert worker.pid != process.pid
        with serving(tmp_path, processes=1, lease=LEASE) as service:
            service.ready(1)
            assert not until((tmp_path / "started-2").exists, 1.5)
            (tmp_path / "gate").touch()
            assert await handle.result(PATIENCE) == 1
