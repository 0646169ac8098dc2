"""A queue object with rules for processes of tests; the file and the ledger beside it are those of `app`.

Run as a program it is a producer: `python -m tests.sqlite.ruled_app fill|unique|ordered|crowd NAME COUNT PRODUCERS`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from queue_core import JobContext, JobQueue, Retry
from queue_core.errors import QueueFull
from queue_core.model.rules import BandLimits, QueueRules
from queue_core.model.settings import JobsSettings, SqliteSettings
from tests.sqlite.app import FILE, ledger, note

LIMIT, HIGH_LIMIT = 200, 50
CONCURRENCY = 3
KEYS = ("a", "b", "c", "d", "e")

jobs = JobQueue(
    settings=JobsSettings(
        queue_backend="sqlite",
        sqlite=SqliteSettings(path=os.environ.get(FILE, "not-set.db")),
        queues={
            "narrow": QueueRules(limit=LIMIT, band_limits=BandLimits(high=HIGH_LIMIT)),
            "few": QueueRules(concurrency=CONCURRENCY),
        },
    )
)


@jobs.task(queue="work", retry=Retry(max_retries=5, delay=0.05))
def step(ctx: JobContext, key: str, n: int, producer: str) -> None:
    """Take a moment; every fifth fails the first time."""
    note(event="start", key=key, n=n, producer=producer, pid=os.getpid())
    time.sleep(0.002)
    if n % 5 == 3 and ctx.attempt == 1:
        note(event="failed", key=key, n=n, producer=producer)
        raise OSError("the first time it fails")
    note(event="end", key=key, n=n, producer=producer)


@jobs.task(queue="few")
def busy(ctx: JobContext) -> None:
    """Take a moment, and leave a trace before and after it."""
    note(event="start", id=ctx.job_id, pid=os.getpid())
    time.sleep(0.005)
    note(event="end", id=ctx.job_id)


async def fill(_name: str, count: int) -> None:
    """Enqueue lists of different sizes until the queue takes none of any size: first of one band, then of another."""
    for priority in (10, 5):
        refused: set[int] = set()
        while len(refused) < 3:
            for size in (7, 3, 1):
                try:
                    await jobs.enqueue_many("t", [{}] * size, queue="narrow", priority=priority)
                except QueueFull:
                    refused.add(size)
                else:
                    note(event="enqueued", size=size, priority=priority)
                    count -= size
                    assert count > 0, "it takes ever more"


async def unique(name: str, count: int) -> None:
    """Enqueue the jobs that every other producer enqueues as well."""
    for n in range(count):
        handle = await jobs.enqueue("t", {"by": name}, unique=f"key-{n}")
        note(event="enqueued", n=n, id=handle.id, created=handle.created)


async def ordered(name: str, count: int) -> None:
    """Enqueue jobs of each key in their order, with whatever priorities."""
    for n in range(count):
        for key in KEYS:
            await step.options(ordering_key=key, priority=n % 7).enqueue(key, n, name)


async def crowd(_name: str, count: int) -> None:
    """Enqueue more jobs than the queue lets run at a time."""
    await busy.enqueue_many([{}] * count)


def all_there(producers: int) -> None:
    """Wait until as many producers have started, so that they work at once."""
    note(event="ready")
    while ledger().read_text(encoding="utf-8").count('"ready"') < producers:
        time.sleep(0.001)


async def main(work: str, name: str, count: int) -> None:
    """Do one of these."""
    async with jobs:
        await {"fill": fill, "unique": unique, "ordered": ordered, "crowd": crowd}[work](name, count)


if __name__ == "__main__":
    all_there(int(sys.argv[4]))
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
