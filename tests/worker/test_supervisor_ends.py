"""The end of a service: it comes in time whatever its handlers do, and nobody who is left behind complains."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from queue_core import JobQueue
from queue_core.worker.supervisor import SILENCE_SECONDS
from tests.waiting import PATIENCE, eventually, is_running, until
from tests.worker.test_supervisor import serving

GRACE = 1.0
LEASE = 600.0
"""Seconds; what holds for a lease is not what ends these."""
IN_TIME = 30.0
"""Seconds, of which a quiet machine needs ten."""


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[JobQueue]:
    """A producer on the store of the service's processes."""
    async with JobQueue(sqlite=tmp_path / "jobs.db") as jobs:
        yield jobs


@pytest.mark.parametrize("name", ["swallows", "never_ends", "leaves_threads", "chatters"])
async def test_a_service_ends_in_time_beside_a_handler_that_does_not(tmp_path: Path, jobs: JobQueue, name: str) -> None:
    """Its job is given back without using an attempt."""
    with serving(tmp_path, processes=1, grace=GRACE, lease=LEASE) as service:
        handle = await jobs.enqueue(name)
        assert await eventually((tmp_path / "begun").exists), service.log
        service.send(signal.SIGTERM)
        assert service.process.wait(IN_TIME) == 0, service.log
    job = await jobs.inspector.get(handle.id)
    assert (job.status, job.retry_count, job.losses) == ("queued", 0, 0)
    assert "Traceback" not in service.log


@pytest.mark.parametrize("how", ["cancel", "cancel others", "stop", "exit"])
async def test_a_job_that_ends_its_event_loop_is_buried(tmp_path: Path, jobs: JobQueue, how: str) -> None:
    """Its service would start worker after worker for it; what ran beside it counts a loss, and goes on."""
    with serving(tmp_path, processes=1, grace=GRACE, lease=LEASE) as service:
        beside = await jobs.enqueue("waits")
        assert await eventually((tmp_path / "started-1").exists), service.log
        handle = await jobs.enqueue("ends_the_loop", {"how": how}, max_retries=0)
        assert await eventually((tmp_path / "begun").exists), service.log
        (tmp_path / "gate").touch()
        assert await eventually(lambda: "dead" in service.log), service.log
        assert await beside.result(PATIENCE) in {1, 2, 3}
        service.send(signal.SIGTERM)
        service.code()
    job = await jobs.inspector.get(handle.id)
    assert (job.status, job.failure_kind, job.losses) == ("dead", "poison", 2), job
    assert (await jobs.inspector.get(beside.id)).retry_count == 0


async def test_a_service_kills_a_worker_whose_loop_stands_still(tmp_path: Path, jobs: JobQueue) -> None:
    """It takes the jobs back before it ends."""
    with serving(tmp_path, processes=1, grace=GRACE, lease=LEASE) as service:
        handle = await jobs.enqueue("blocks")
        assert await eventually((tmp_path / "begun").exists), service.log
        (pid,) = service.pids
        service.send(signal.SIGTERM)
        assert service.process.wait(IN_TIME) == 1, service.log
        assert not is_running(pid)
    assert f"worker process {pid} does not end and is killed" in service.log
    job = await jobs.inspector.get(handle.id)
    assert (job.status, job.retry_count, job.losses) == ("queued", 0, 1)


async def test_a_worker_whose_outcomes_wait_for_the_store_is_not_killed(tmp_path: Path, jobs: JobQueue) -> None:
    """Its event loop goes on, and it ends by itself once they are stored."""
    with serving(tmp_path, processes=1, grace=GRACE, lease=LEASE) as service:
        handle = await jobs.enqueue("waits")
        assert await eventually((tmp_path / "started-1").exists)
        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (tmp_path / "gate").touch()
            service.send(signal.SIGTERM)
            assert not until(lambda: service.process.poll() is not None, GRACE + SILENCE_SECONDS + 3), service.log
            connection.execute("ROLLBACK")
        assert service.code() == 0, service.log
    assert str(await handle.status()) == "completed"


async def test_a_worker_that_drains_goes_on_when_its_service_is_killed(tmp_path: Path, jobs: JobQueue) -> None:
    """That is no second signal: what runs may finish in the grace period."""
    with serving(tmp_path, processes=1, grace=PATIENCE) as service:
        handle = await jobs.enqueue("waits")
        assert await eventually((tmp_path / "started-1").exists)
        (pid,) = service.pids
        os.kill(pid, signal.SIGTERM)
        later = await jobs.enqueue("which_process")
        service.process.kill()
        service.process.wait()
        assert not until(lambda: not is_running(pid), 1.0)
        (tmp_path / "gate").touch()
        assert await eventually(lambda: not is_running(pid))
    assert (str(await handle.status()), str(await later.status())) == ("completed", "queued")


@pytest.mark.parametrize("slow_import", ["", "1.5"])
async def test_children_of_a_killed_worker_end_without_a_word(tmp_path: Path, jobs: JobQueue, slow_import: str) -> None:
    """While they tell of progress, and while they import what the worker has."""
    with serving(tmp_path, environment={"SERVED_SLOW_IMPORT": slow_import}, processes=1) as service:
        (pid,) = service.ready(1)
        await jobs.enqueue("chatters")
        if slow_import:
            assert await eventually(lambda: len(children_of(pid)) == 1)
        else:
            assert await eventually((tmp_path / "begun").exists)
        (child,) = children_of(pid)
        os.kill(pid, signal.SIGKILL)
        service.send(signal.SIGTERM)
        service.code()
        assert await eventually(lambda: not is_running(child))
    assert "Traceback" not in service.log
    assert "Error" not in service.log


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
