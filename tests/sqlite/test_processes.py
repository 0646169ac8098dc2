"""Several processes on one file: producers and workers at once, one of them killed in the middle."""

from __future__ import annotations

import signal
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from queue_core.errors import StoreUnavailable
from queue_core.model.job import Job
from queue_core.model.report import Conservation
from queue_core.queue import JobQueue
from queue_core.worker.options import ServiceOptions
from tests.sqlite.processes import PATIENCE, Spawn, entries, number, wait_until

COUNT = 1500
OPTIONS = ServiceOptions(concurrency=4, lease=3.0, heartbeat=0.5, grace=10.0)


def worker(spawn: Spawn) -> subprocess.Popen[bytes]:
    return spawn("queue_core.worker.process", "tests.sqlite.app:jobs", OPTIONS.to_json())


def service(spawn: Spawn) -> subprocess.Popen[bytes]:
    return spawn(
        "jobconsole", "worker", "run", "tests.sqlite.app:jobs", "--processes", "1", "--concurrency", "4",
        "--lease", "3s", "--heartbeat", "0.5s",
    )  # fmt: skip


async def read(path: Path, ids: list[str]) -> tuple[Conservation, list[Job]]:
    async with JobQueue(sqlite=path) as jobs:
        return await jobs.inspector.conservation(), [await jobs.inspector.get(job_id) for job_id in ids]


def completed(path: Path) -> int:
    return number(path, "select count(*) from job_list where status = 'completed'")


def wait_for_two_workers(path: Path) -> None:
    wait_until(lambda: number(path, "select count(*) from workers") == 2, "the workers have not started")


def count(path: Path, event: str) -> int:
    return sum(entry["event"] == event for entry in entries(path))


async def test_two_worker_services_and_a_producer(path: Path, spawn: Spawn) -> None:
    services = [service(spawn), service(spawn)]
    wait_for_two_workers(path)
    producer = spawn("tests.sqlite.app", str(COUNT))
    assert producer.wait(PATIENCE) == 0
    wait_until(lambda: count(path, "end") >= COUNT, "not all jobs have run")
    for one in services:
        one.send_signal(signal.SIGTERM)
    assert [one.wait(PATIENCE) for one in services] == [0, 0]
    found = entries(path)
    ids = [entry["id"] for entry in found if entry["event"] == "enqueued"]
    where, jobs = await read(path, ids)
    assert (where.completed, where.dead, where.cancelled, where.unfinished) == (COUNT, 0, 0, 0)
    starts = [entry for entry in found if entry["event"] == "start"]
    assert sorted(entry["id"] for entry in starts) == sorted(ids)
    assert len({entry["token"] for entry in starts}) == COUNT
    # Both had their share.
    assert len({entry["pid"] for entry in starts}) == 2
    assert {job.status for job in jobs} == {"completed"}


async def test_a_worker_waits_for_a_file_that_was_taken_away(path: Path, spawn: Spawn, tmp_path: Path) -> None:
    running, away = worker(spawn), tmp_path / "away.db"
    wait_until(lambda: path.exists() and number(path, "select count(*) from workers") == 1, "no worker has started")
    async with JobQueue(sqlite=path) as jobs:
        path.rename(away)  # noqa: ASYNC240
        with pytest.raises(StoreUnavailable, match="there is no file"):
            await jobs.enqueue("step", {"n": 1}, queue="work")
        # What processes that have a file open share.
        shared, seen = f"{path}-shm", Path(f"/proc/{running.pid}/maps")
        wait_until(lambda: shared not in seen.read_text(encoding="utf-8"), "the worker has not noticed it")
        assert not path.exists()  # noqa: ASYNC240
        away.rename(path)
        handle = await jobs.enqueue("step", {"n": 2}, queue="work")
        assert await handle.result(timeout=PATIENCE) == 2
    assert running.poll() is None


async def test_a_worker_that_is_killed_loses_nothing(path: Path, spawn: Spawn) -> None:
    victim, other = worker(spawn), worker(spawn)
    wait_for_two_workers(path)
    producer = spawn("tests.sqlite.app", str(COUNT))
    wait_until(lambda: any(entry.get("pid") == victim.pid for entry in entries(path)), "the victim has not begun")
    victim.kill()
    victim.wait()
    assert producer.wait(PATIENCE) == 0
    ids = [entry["id"] for entry in entries(path) if entry["event"] == "enqueued"]
    assert len(ids) == COUNT
    # Not the ledger: jobs of the victim may have run to their end without being settled.
    wait_until(lambda: completed(path) >= COUNT, "not all jobs have completed")
    other.send_signal(signal.SIGTERM)
    assert other.wait(PATIENCE) == 0
    where, jobs = await read(path, ids)
    assert (where.completed, where.dead, where.cancelled, where.unfinished) == (COUNT, 0, 0, 0)
    tokens: dict[str, list[int]] = defaultdict(list)
    pids: dict[str, set[int]] = defaultdict(set)
    for entry in entries(path):
        if entry["event"] == "start":
            tokens[entry["id"]].append(entry["token"])
            pids[entry["id"]].add(entry["pid"])
    given = [token for one in tokens.values() for token in one]
    assert len(set(given)) == len(given)
    for job in jobs:
        # The highest token is the final one, and who ran twice had lost its first worker.
        assert job.token == max(tokens[job.id])
        assert len(tokens[job.id]) == 1 or (victim.pid in pids[job.id] and len(tokens[job.id]) == 2)
    # Those that ran, and those that had ended while their outcomes were being written.
    assert sum(len(one) > 1 for one in tokens.values()) < COUNT / 10


async def test_a_producer_that_is_killed_leaves_whole_jobs(path: Path, spawn: Spawn) -> None:
    producer = spawn("tests.sqlite.app", "100000")
    wait_until(lambda: count(path, "enqueued") >= 100, "the producer has not begun")
    producer.kill()
    producer.wait()
    noted = [entry["id"] for entry in entries(path) if entry["event"] == "enqueued"]
    async with JobQueue(sqlite=path) as jobs:
        where = await jobs.inspector.conservation()
        # What it had been told of is there; at most one group more was stored and not yet noted.
        assert len(noted) <= where.unfinished <= len(noted) + 5
        assert where.unfinished % 5 == 0
        found = [await jobs.inspector.get(job_id) for job_id in noted[-20:]]
        assert all(job.payload is not None and job.status == "queued" for job in found)
