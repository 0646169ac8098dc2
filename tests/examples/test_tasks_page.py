"""Blocks of docs/tasks.md."""

import asyncio

from queue_core import JobQueue, Worker
from tests.examples.blocks import blocks, run


async def test_from_plain_functions() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task(queue="images")
    async def thumbnail(path: str, width: int = 200) -> dict[str, str]:
        return {"made": f"{path}@{width}"}

    worker = Worker(jobs)
    running = asyncio.create_task(worker.run())
    (block,) = blocks("tasks.md", "## From plain functions")
    await asyncio.to_thread(asyncio.run, run(block, {"jobs": jobs, "thumbnail": thumbnail}))
    assert (await jobs.store.queues())["images"], "the block pauses it"
    worker.stop()
    await running
