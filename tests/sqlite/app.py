"""A queue object for worker processes of tests: the file and a ledger beside it come from the environment.

Run as a program it is a producer: `python -m tests.sqlite.app COUNT`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from queue_core import JobContext, JobQueue

FILE = "TEST_SQLITE_FILE"

jobs = JobQueue(sqlite=os.environ.get(FILE, "not-set.db"))


def ledger() -> Path:
    """Return the file that producer and handlers write beside the store."""
    return Path(os.environ[FILE]).with_suffix(".ledger")


def note(**entry: object) -> None:
    """Append a line to the ledger; short lines in append mode do not mix, whoever writes."""
    with ledger().open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


@jobs.task(queue="work")
def step(ctx: JobContext, n: int) -> int:
    """Take a moment, and leave a trace before and after it."""
    note(event="start", id=ctx.job_id, token=ctx.token, worker=ctx.worker, pid=os.getpid())
    time.sleep(0.002)
    note(event="end", id=ctx.job_id, token=ctx.token)
    return n


async def produce(count: int) -> None:
    """Enqueue jobs one by one and in small groups, noting each that is known to be stored."""
    async with jobs:
        for n in range(0, count, 5):
            group = min(5, count - n)
            handles = await step.enqueue_many([{"n": n + turn} for turn in range(group)])
            for handle in handles:
                note(event="enqueued", id=handle.id)


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[1])))
