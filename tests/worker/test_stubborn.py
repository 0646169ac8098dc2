"""Handlers that swallow their cancellation: their attempts end by the reason, their slots are free, the worker ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from queue_core import JobFailed, JobQueue, Retry, Worker
from queue_core.worker import runner, worker
from tests.conformance.working import PATIENCE, until, working

PROGRAM = """
import asyncio, sys, threading
from queue_core import JobQueue, Worker

jobs = JobQueue(memory=True)

@jobs.task(timeout=0)
async def swallows():
    print("begun", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@jobs.task(timeout=0)
def never_ends():
    print("begun", flush=True)
    threading.Event().wait()

async def main():
    await jobs.enqueue(sys.argv[1])
    await Worker(jobs, grace=0.1).run()
    print((await jobs.stats()).processing, "running", flush=True)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers are given up soon."""
    monkeypatch.setattr(runner, "STUBBORN_SECONDS", 0.2)
    monkeypatch.setattr(worker, "STUBBORN_SECONDS", 0.2)


async def swallow(released: asyncio.Event) -> None:
    while not released.is_set():
        try:
            await released.wait()
        except asyncio.CancelledError:
            continue


async def test_a_time_limit_ends_the_attempt_of_a_handler_that_swallows_it() -> None:
    async with JobQueue(memory=True) as jobs:
        released = asyncio.Event()

        @jobs.task(timeout=0.1, retry=Retry(max_retries=0))
        async def stubborn() -> str:
            await swallow(released)
            return "too late"

        @jobs.task
        async def other() -> str:
            return "done"

        handle = await stubborn.enqueue()
        async with working(jobs, concurrency=1) as worker:
            with pytest.raises(JobFailed, match="time limit"):
                await handle.result(PATIENCE)
            assert (await jobs.inspector.get(handle.id)).failure_kind == "timeout"
            assert worker.stuck == 1

            async def shown() -> bool:
                (info,) = (await jobs.inspector.overview()).workers
                return info.stuck == 1

            await until(shown)
            health = await jobs.health()
            assert (health.healthy, health.stuck) == (True, 1)
            assert health.reason == "handlers that their workers gave up still run: 1"
            assert await (await other.enqueue()).result(PATIENCE) == "done"
            released.set()

            async def freed() -> bool:
                return worker.stuck == 0 and (await jobs.health()).stuck == 0

            await until(freed)
        assert str((await jobs.inspector.get(handle.id)).status) == "dead"


async def test_a_stop_gives_back_the_job_of_a_handler_that_swallows_it() -> None:
    async with JobQueue(memory=True) as jobs:
        begun, released = asyncio.Event(), asyncio.Event()

        @jobs.task
        async def stubborn() -> None:
            begun.set()
            await swallow(released)

        handle = await stubborn.enqueue()
        async with working(jobs, grace="0.1s") as worker:
            await asyncio.wait_for(begun.wait(), PATIENCE)
        job = await jobs.inspector.get(handle.id)
        assert (str(job.status), job.retry_count, worker.stuck) == ("queued", 0, 1)
        released.set()


async def test_cancelling_a_worker_drains_it() -> None:
    async with JobQueue(memory=True) as jobs:
        begun, go_on = asyncio.Event(), asyncio.Event()

        @jobs.task
        async def work() -> str:
            begun.set()
            await go_on.wait()
            return "done"

        handle = await work.enqueue()
        running = asyncio.create_task(Worker(jobs, grace="60s").run())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        running.cancel()
        await asyncio.sleep(0.1)
        assert not running.done()
        later = await work.enqueue()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE)
        assert await handle.result(PATIENCE) == "done"
        assert await later.status() == "queued"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"])
@pytest.mark.parametrize("handler", ["swallows", "never_ends"])
def test_a_program_ends_beside_a_handler_that_does_not(tmp_path: Path, name: str, handler: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program), handler], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(getattr(signal, name))
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "0 running\n"), err
    assert "Traceback" not in err
