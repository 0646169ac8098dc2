"""The service: it replaces dead processes, passes signals on once, says what is wrong, and leaves nobody behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.model.states import Status
from queue_core.worker.options import ServiceOptions
from tests.architecture.sources import ROOT
from tests.sqlite.test_earlier import make_1
from tests.waiting import PATIENCE, eventually, is_running, running, until

TARGET = "tests.worker.served_tasks:jobs"


class Service:
    """A running service and its processes."""

    def __init__(self, folder: Path, target: str, environment: dict[str, str], options: dict[str, Any]) -> None:
        self._folder = folder
        given = ServiceOptions(**{"processes": 2, "concurrency": 5, "lease": 5.0} | options)
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker.serving", target, given.to_json(), str(folder)],
                cwd=ROOT,
                env=os.environ | {"SERVED_FOLDER": str(folder)} | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pids(self) -> list[int]:
        """The processes that the service says it has."""
        try:
            return [int(pid) for pid in (self._folder / "pids").read_text().split()]
        except FileNotFoundError:
            return []

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def ready(self, count: int = 2) -> list[int]:
        """Wait until so many processes work, and return them."""
        assert until(
            lambda: len(self.pids) == count and all(f" {pid} INFO worker " in self.log for pid in self.pids)
        ), self.log
        return self.pids

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def code(self) -> int:
        """Wait for the end, and return the exit code."""
        return self.process.wait(PATIENCE)


@contextmanager
def serving(
    folder: Path, target: str = TARGET, environment: dict[str, str] | None = None, **options: Any
) -> Iterator[Service]:
    """Run a service, and leave nothing of it behind."""
    service = Service(folder, target, environment or {}, options)
    try:
        yield service
    finally:
        service.process.kill()
        service.process.wait()
        for pid in service.pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[JobQueue]:
    """A producer on the store of the service's processes."""
    async with JobQueue(sqlite=tmp_path / "jobs.db") as jobs:
        yield jobs


async def test_a_dead_process_is_replaced(tmp_path: Path, jobs: JobQueue) -> None:
    with serving(tmp_path) as service:
        before = service.ready()
        os.kill(before[0], signal.SIGKILL)
        assert await eventually(lambda: len(service.pids) == 2 and before[0] not in service.pids)
        after = service.ready()
        assert before[1] in after, "the other one goes on"
        handles = [await jobs.enqueue("which_process") for _ in range(20)]
        assert {await handle.result(PATIENCE) for handle in handles} <= set(after)
        assert f"worker process {before[0]} was killed by signal 9" in service.log
        service.send(signal.SIGTERM)
        assert service.code() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
async def test_a_signal_drains(tmp_path: Path, jobs: JobQueue, number: signal.Signals) -> None:
    """What runs finishes, what waits stays, and the exit code is 0."""
    with serving(tmp_path, processes=1, concurrency=1) as service:
        running = await jobs.enqueue("waits")
        assert await eventually((tmp_path / "started-1").exists)
        waiting = await jobs.enqueue("which_process")
        service.send(number)
        assert not until(lambda: service.process.poll() is not None, 0.5), "it waits for the job"
        (tmp_path / "gate").touch()
        assert service.code() == 0
        assert await running.status() is Status.COMPLETED
        assert await waiting.status() is Status.QUEUED
        assert (await jobs.inspector.get(running.id)).crashes == 0


async def test_a_second_signal_stops(tmp_path: Path, jobs: JobQueue) -> None:
    """The job is given back without using up an attempt, long before the grace period is over."""
    with serving(tmp_path, processes=1, grace=600.0) as service:
        handle = await jobs.enqueue("waits")
        assert await eventually((tmp_path / "started-1").exists)
        service.send(signal.SIGTERM)
        assert not until(lambda: service.process.poll() is not None, 0.5)
        service.send(signal.SIGTERM)
        assert service.code() == 0
    job = await jobs.inspector.get(handle.id)
    assert (job.status, job.crashes, job.retry_count) == (Status.QUEUED, 0, 0)


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.2, 0.4, 0.6])
def test_a_signal_while_processes_are_being_started(tmp_path: Path, moment: float) -> None:
    """Whenever it comes, it reaches all of them: nobody is left who was not told."""
    with serving(tmp_path, processes=4) as service:
        assert until(lambda: " " in (tmp_path / "log").read_text() or service.pids or time.sleep(0.001))
        time.sleep(moment)
        service.send(signal.SIGTERM)
        assert service.code() in {0, -signal.SIGTERM}
        assert until(lambda: not running(service.pids))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("no.such.module:jobs", "cannot import 'no.such.module': No module named 'no'"),
        ("tests.worker.served_tasks:nothing", "module 'tests.worker.served_tasks' has no object 'nothing'"),
        ("tests.worker.served_tasks:not_jobs", "has a int, not a JobQueue, as 'not_jobs'"),
        (":jobs", "':jobs' does not name a queue object; write package.module:jobs"),
        ("tests.worker.served_tasks:", "does not name a queue object; write package.module:jobs"),
        ("tests.conftest:jobs", "has no object 'jobs'"),
        ("../somewhere:jobs", "'../somewhere:jobs' does not name a queue object; write package.module:jobs"),
        ("tasks.py:jobs", "cannot import 'tasks.py'"),
    ],
)
def test_a_wrong_target_is_one_sentence(tmp_path: Path, target: str, said: str) -> None:
    """It does not become right by trying again."""
    with serving(tmp_path, target, processes=1) as service:
        assert service.code() == 2
        lines = service.log.splitlines()
        assert len(lines) == 1, service.log
        assert said in lines[0]


def test_a_wrong_target_ends_the_service_also_where_the_start_took_long(tmp_path: Path) -> None:
    with serving(tmp_path, "tests.conftest:jobs", {"SERVED_YOUNG": "0"}, processes=1) as service:
        assert service.code() == 2
        assert len(service.log.splitlines()) == 1, service.log


def test_a_process_that_dies_at_its_start_is_not_replaced_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, processes=1, environment={"SERVED_DIES": "1"}) as service:
        assert until(lambda: (tmp_path / "deaths").exists() and len((tmp_path / "deaths").read_text()) >= 2)
        started, deaths = time.monotonic(), len((tmp_path / "deaths").read_text())
        assert not until(lambda: False, 2.0)
        more = len((tmp_path / "deaths").read_text()) - deaths
        assert more <= 1 + (time.monotonic() - started) / 1.0, "each time it waits longer"
        service.send(signal.SIGTERM)
        assert service.code() == 0


@pytest.mark.parametrize("gone", ["its store", "its service"])
async def test_a_process_waits_for_its_store(tmp_path: Path, gone: str) -> None:
    """It starts when the store is there, and is not replaced by one that imports everything again."""
    (tmp_path / "jobs.db").mkdir()
    with serving(tmp_path, processes=1) as service:
        assert await eventually(lambda: "starts as soon as its store can be used: sqlite" in service.log), service.log
        (pid,) = service.pids
        if gone == "its service":
            service.process.kill()
            assert await eventually(lambda: not is_running(pid))
            return
        (tmp_path / "jobs.db").rmdir()
        async with JobQueue(sqlite=tmp_path / "jobs.db") as jobs:
            handle = await jobs.enqueue("which_process")
            assert await handle.result(PATIENCE) == pid
        service.send(signal.SIGTERM)
        assert service.code() == 0
    assert service.log.count("starts as soon as") == 1
    assert "wait for the store" not in service.log, "it has no jobs that would be taken back"


async def test_workers_end_when_their_service_is_killed(tmp_path: Path, jobs: JobQueue) -> None:
    """They drain: what runs may finish."""
    with serving(tmp_path) as service:
        pids = service.ready()
        handle = await jobs.enqueue("waits")
        assert await eventually((tmp_path / "started-1").exists)
        service.process.kill()
        service.process.wait()
        (tmp_path / "gate").touch()
        assert await handle.result(PATIENCE) == 1
        assert await eventually(lambda: not running(pids))


def test_workers_end_whose_service_was_killed_while_they_started(tmp_path: Path) -> None:
    """When they come to look for it, it is gone already."""
    with serving(tmp_path, environment={"SERVED_SLOW_IMPORT": "1"}) as service:
        assert until(lambda: len(service.pids) == 2)
        pids = service.pids
        service.process.kill()
        service.process.wait()
        assert until(lambda: not running(pids)), service.log


@pytest.mark.parametrize("processes", [1, 3])
def test_a_store_of_an_earlier_version_ends_the_service(tmp_path: Path, processes: int) -> None:
    """It is only taken over by a command; trying again would go on for ever."""
    make_1(tmp_path / "jobs.db")
    with serving(tmp_path, processes=processes) as service:
        assert service.code() == 5
        assert "an earlier version has made" in service.log
        assert "it is replaced" not in service.log
        assert processes > 1 or len(service.log.splitlines()) == 1, service.log
