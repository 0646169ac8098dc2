"""What a worker process of the recycling tests runs; the environment says on which file."""

import asyncio
import os
import threading
import time

from queue_core import JobQueue, Retry

jobs = JobQueue.from_settings()
hoard: list[bytes] = []


@jobs.task
async def pid() -> int:
    return os.getpid()


@jobs.task
async def grow(mib: int) -> int:
    hoard.append(b"x" * (mib << 20))
    return os.getpid()


@jobs.task(timeout=0.2, retry=Retry(max_retries=0))
def stuck() -> None:
    threading.Event().wait()


@jobs.task(retry=Retry(max_retries=0))
async def block(seconds: float) -> int:
    await asyncio.sleep(0)
    time.sleep(seconds)  # noqa: ASYNC251  this is the point
    return os.getpid()
