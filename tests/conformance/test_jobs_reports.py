"""Health and statistics, each as one record."""

import asyncio
import socket

import pytest

from queue_core.client.context import JobContext
from queue_core.model.retry import Retry
from queue_core.model.settings import PostgresSettings, RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.queue import JobQueue
from tests.conformance.making import worker_beat
from tests.conformance.working import until, until_status, working


async def test_statistics_by_band(jobs: JobQueue) -> None:
    for priority, count in ((20, 1), (10, 1), (9, 3), (5, 1), (4, 1), (-128, 1)):
        await jobs.enqueue_many("wait", [{}] * count, priority=priority)
    await jobs.enqueue("wait", priority="high", delay="1h")
    await jobs.enqueue("wait", priority="normal", delay="1h")
    await jobs.enqueue("wait", priority="low", delay="1h", queue="other")
    found = await jobs.stats()
    assert (found.pending_high, found.pending_normal, found.pending_low) == (3, 5, 3)
    assert (found.total_pending, found.processing, found.dlq, found.completed_24h) == (11, 0, 0, 0)
    assert {queue.name: queue.pending for queue in found.queues} == {"default": 10, "other": 1}


async def test_what_became_of_jobs(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=1, delay="1h"))
    async def end(ctx: JobContext, well: bool) -> None:
        if not well:
            raise OSError("no such file")

    async with working(jobs):
        good = [await end.enqueue(True) for _ in range(3)]
        bad = await end.options(max_retries=0).enqueue(False)
        again = await end.options(priority=20).enqueue(False)
        for handle in good:
            await until_status(jobs, handle.id, "completed")
        await until_status(jobs, bad.id, "dead")
        await until_status(jobs, again.id, "retrying")

        async def announced() -> bool:
            return (await jobs.health()).workers == 1

        await until(announced)

        async def counted() -> bool:
            found = await jobs.stats()
            return (found.completed_24h, found.dlq, found.pending_high, found.total_pending) == (3, 1, 1, 1)

        await until(counted)
        assert {queue.name: (queue.dead, queue.retrying) for queue in (await jobs.stats()).queues} == {
            "default": (1, 1)
        }


async def test_health(jobs: JobQueue) -> None:
    found = await jobs.health()
    assert (found.healthy, found.pending, found.running, found.workers) == (True, 0, 0, 0)
    assert (found.mode, found.degraded_since, found.reason) == (jobs.settings.mode, None, "")
    await jobs.enqueue_many("wait", [{}] * 3)
    found = await jobs.health()
    assert (found.healthy, found.pending, found.degraded_since) == (True, 3, None)
    assert found.reason == "no worker is alive: what is pending waits for one"
    claimed = await jobs.store.claim(ClaimRequest("default", "w", ("wait",), 1, 60.0))
    assert len(claimed) == (await jobs.health()).running


async def test_what_lost_workers_have_given_up_does_not_run(jobs: JobQueue) -> None:
    for worker, stuck, interval in (("lives", 2, 20.0), ("lost", 5, 0.001)):
        heart = jobs.store.open_heartbeat()
        await asyncio.to_thread(heart.renew, worker_beat(worker=worker, stuck=stuck, interval=interval))
        await asyncio.to_thread(heart.close)

    async def seen() -> bool:
        """A heartbeat is late after three intervals."""
        return (await jobs.health()).workers == 1

    await until(seen)
    await jobs.enqueue("wait")
    found = await jobs.health()
    assert (found.stuck, found.reason) == (2, "handlers that their workers gave up still run: 2")


async def test_jobs_that_wait_beside_lost_workers_are_reported(jobs: JobQueue) -> None:
    heart = jobs.store.open_heartbeat()
    await asyncio.to_thread(heart.renew, worker_beat(interval=0.001))
    await asyncio.to_thread(heart.close)

    async def seen() -> bool:
        return (await jobs.health()).workers == 0

    await until(seen)
    assert (await jobs.health()).reason == ""
    await jobs.enqueue("wait")
    found = await jobs.health()
    assert (found.healthy, found.reason) == (True, "no worker is alive (1 lost): what is pending waits for one")


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


async def test_without_redis(empty_store_url: str, nobody: str) -> None:
    settings = JobQueue(postgres=empty_store_url, redis=f"redis://{nobody}/0").settings
    async with JobQueue(settings=settings) as jobs:
        await jobs.enqueue("wait")
        found = await jobs.health()
        assert (found.healthy, found.pending, found.mode) == (True, 1, "postgres+redis")
        assert found.degraded_since is not None
        assert found.reason
        assert (await jobs.health()).degraded_since == found.degraded_since


async def test_without_a_store(nobody: str) -> None:
    settings = JobQueue(memory=True).settings.model_copy(
        update={
            "queue_backend": "postgres",
            "postgres": PostgresSettings.model_validate({"url": f"postgresql://app@{nobody}/app", "timeout": 2}),
            "redis": RedisSettings(),
        }
    )
    found = await JobQueue(settings=settings).health()
    assert (found.healthy, found.pending, found.mode) == (False, None, "postgres")
    assert found.reason
