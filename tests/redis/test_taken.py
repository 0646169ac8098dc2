"""What a lost leader had taken from Redis and not claimed waits for no more than the next leader's first audit."""

from __future__ import annotations

import asyncio

from queue_core.delivery import audit
from queue_core.queue import JobQueue
from queue_core.worker import leader
from queue_core.worker.worker import Worker


async def test_a_job_that_a_lost_leader_had_taken_runs_after_the_next_leaders_first_round(jobs: JobQueue) -> None:
    """The leader's time, a round of those who wait for it, and the second look: no more than two seconds and a bit."""
    assert leader.LEADERSHIP_SECONDS + leader.LEADER_TICK + audit.SETTLE_SECONDS <= 2.2

    @jobs.task(name="known")
    async def known() -> str:
        return "ran"

    assert jobs.dispatcher is not None
    await jobs.dispatcher.mark_current("default")
    handle = await jobs.enqueue("known", {})
    taken = await jobs.dispatcher.take(["default"], 10, 30.0)
    assert taken is not None
    assert taken.ids == [handle.id]
    assert await jobs.store.acquire_leadership("sweep", "lost", leader.LEADERSHIP_SECONDS)
    worker = Worker(jobs)
    task = asyncio.create_task(worker.run())
    assert await handle.result(timeout=60) == "ran"
    worker.stop()
    await task
