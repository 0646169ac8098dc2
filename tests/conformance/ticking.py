"""A worker process with a schedule that ticks each second; it ends when its standard input does."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from queue_core import JobQueue, Worker

jobs = JobQueue(**json.loads(os.environ["TEST_CRON_STORE"]))


@jobs.cron("* * * * * *")
async def tick() -> None:
    """Do nothing, each second."""


async def main() -> None:
    """Work, and fire what is due besides, as if every worker led."""
    worker = Worker(jobs, lease="10s")
    working = asyncio.create_task(worker.run())
    sweeping = asyncio.create_task(_fire(worker))
    await asyncio.to_thread(sys.stdin.read)
    sweeping.cancel()
    worker.stop()
    await working
    await jobs.close()


async def _fire(worker: Worker) -> None:
    while True:
        await asyncio.sleep(0.01)
        await worker._sweeper.schedule()


asyncio.run(main())
