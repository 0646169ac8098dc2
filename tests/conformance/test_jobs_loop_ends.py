"""The end of an event loop, which cancels all of its tasks: a worker in it gives back what runs, in every mode."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from queue_core import JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.worker.options import _plain
from tests.conformance.working import PATIENCE

PROGRAM = """
import asyncio, os, sys
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

async def main():
    global begun
    begun = asyncio.Event()
    handles = await work.enqueue_many([{}] * 2)
    main.running = asyncio.create_task(Worker(jobs, concurrency=1).run())
    await begun.wait()
    print(*(handle.id for handle in handles))

asyncio.run(main())
"""


@pytest.mark.parametrize("takes", ["0", "0.2"])
async def test_the_end_of_an_event_loop_gives_back_what_runs(mode_settings: JobsSettings, takes: str) -> None:
    """Without using an attempt, and without waiting for the lease."""
    if mode_settings.mode == "memory":
        pytest.skip("a store in memory has one process")
    environment = os.environ | {"PROGRAM_SETTINGS": json.dumps(_plain(mode_settings.model_dump()))}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, takes, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        said, _ = await asyncio.wait_for(program.communicate(), PATIENCE)
    finally:
        if program.returncode is None:
            program.kill()
    async with JobQueue(settings=mode_settings) as jobs:
        found = [await jobs.inspector.get(job_id) for job_id in said.decode().split()]
        assert (await jobs.inspector.overview()).workers == ()
    assert [(job.status, job.retry_count, job.losses, job.error) for job in found] == [("queued", 0, 0, None)] * 2
