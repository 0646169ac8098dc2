"""The end of an event loop, which cancels all of its tasks: a worker in it gives back what runs, in every mode."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from queue_core import Job, JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.worker.options import _plain
from tests.conformance.working import PATIENCE

PROGRAM = """
import asyncio, contextlib, os, sys
from queue_core import JobQueue, Worker
from queue_core.model.settings import JobsSettings

jobs = JobQueue(settings=JobsSettings.model_validate_json(os.environ["PROGRAM_SETTINGS"]))

@jobs.task(timeout=0)
async def work():
    begun.set()
    try:
        await asyncio.sleep(600)
    finally:
        if takes := float(sys.argv[1]):
            await asyncio.sleep(takes)

@jobs.task(timeout=0)
async def end(others: bool):
    await named.wait()
    for task in asyncio.all_tasks():
        if not (others and task is asyncio.current_task()):
            task.cancel()
    await asyncio.sleep(600)

async def ended_by_a_job():
    global begun, named
    begun, named = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(Worker(jobs, concurrency=2, grace=0).run())
    first = await work.enqueue()
    await begun.wait()
    culprit = await end.enqueue(others=sys.argv[2] == "others")
    print(first.id, culprit.id, (await work.options(delay=600).enqueue()).id)
    named.set()
    await asyncio.wait([running])

async def main():
    global begun
    begun = asyncio.Event()
    handles = await work.enqueue_many([{}] * 2)
    main.running = asyncio.create_task(Worker(jobs, concurrency=1).run())
    await begun.wait()
    print(*(handle.id for handle in handles))

with contextlib.suppress(asyncio.CancelledError):
    asyncio.run(ended_by_a_job() if sys.argv[2:] else main())
"""


async def ran(settings: JobsSettings, *arguments: str) -> list[Job]:
    """Run the program, and return the jobs that it named, which no worker has any more."""
    if settings.mode == "memory":
        pytest.skip("a store in memory has one process")
    environment = os.environ | {"PROGRAM_SETTINGS": json.dumps(_plain(settings.model_dump()))}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        said, _ = await asyncio.wait_for(program.communicate(), PATIENCE)
    finally:
        if program.returncode is None:
            program.kill()
    async with JobQueue(settings=settings) as jobs:
        assert (await jobs.inspector.overview()).workers == ()
        return [await jobs.inspector.get(job_id) for job_id in said.decode().split()]


AGAIN = """
import asyncio, gc, os
from queue_core import JobQueue
from queue_core.model.settings import JobsSettings

jobs = JobQueue(settings=JobsSettings.model_validate_json(os.environ["PROGRAM_SETTINGS"]))
print(*(asyncio.run(jobs.enqueue("work")).id for _ in range(3)))
asyncio.run(jobs.close())
del jobs
gc.collect()
"""


async def test_the_next_event_loop_connects_again_without_warnings_of_sessions(
    mode_settings: JobsSettings,
) -> None:
    """What the loop before has left open is nothing that a program could have closed."""
    if mode_settings.mode == "memory":
        pytest.skip("a store in memory has one process")
    environment = os.environ | {"PROGRAM_SETTINGS": json.dumps(_plain(mode_settings.model_dump()))}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "always", "-c", AGAIN),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, warned = await asyncio.wait_for(program.communicate(), PATIENCE)
    assert (program.returncode, "psycopg" in warned.decode()) == (0, False)
    async with JobQueue(settings=mode_settings) as jobs:
        assert [(await jobs.inspector.get(job_id)).status for job_id in said.decode().split()] == ["queued"] * 3


@pytest.mark.parametrize("takes", ["0", "0.2"])
async def test_the_end_of_an_event_loop_gives_back_what_runs(mode_settings: JobsSettings, takes: str) -> None:
    """Without using an attempt, and without waiting for the lease."""
    found = await ran(mode_settings, takes)
    assert [(job.status, job.retry_count, job.losses, job.error) for job in found] == [("queued", 0, 0, None)] * 2


@pytest.mark.parametrize("which", ["all", "others"])
async def test_a_job_that_cancels_all_tasks_costs_a_loss(mode_settings: JobsSettings, which: str) -> None:
    """Else it would end one worker after the other for ever. Those that were not running count nothing."""
    found = await ran(mode_settings, "0", which)
    assert [(str(job.status), job.retry_count, job.losses) for job in found] == [
        ("queued", 0, 1),
        ("queued", 0, 1),
        ("scheduled", 0, 0),
    ]
    assert "a worker was lost while it ran this job" in str(found[1].error)
