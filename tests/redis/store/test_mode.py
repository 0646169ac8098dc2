"""Redis alone as a mode: chosen by its address, with shorter retention, and with delivery beside the store."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings, RetentionSettings
from queue_core.queue import JobQueue
from queue_core.worker.worker import Worker

PATIENCE = 60.0


def redis_alone(url: str, prefix: str) -> JobsSettings:
    return JobsSettings(queue_backend="redis", redis=RedisSettings(url=url, prefix=prefix))


async def test_an_address_alone_means_this_mode(redis_url: str, redis_prefix: str) -> None:
    async with JobQueue(redis=redis_url, prefix=redis_prefix) as jobs:
        assert (jobs.settings.mode, jobs.store.name) == ("redis", "redis")
        assert jobs.settings.retention.completed == 86400.0
        facts = await jobs.inspector.facts()
        assert (facts["backend"], facts["schema"], facts["schema_known"]) == ("redis", 2, 2)


def test_finished_jobs_go_after_a_day_unless_something_else_is_set(redis_url: str) -> None:
    redis = RedisSettings(url=redis_url)
    week = RetentionSettings(completed=7 * 86400.0)
    assert JobsSettings(queue_backend="redis", redis=redis, retention=week).retention.completed == 7 * 86400.0
    never = RetentionSettings.model_validate({"completed": "never"})
    assert JobsSettings(queue_backend="redis", redis=redis, retention=never).retention.completed is None
    both = PostgresSettings.model_validate({"url": "postgresql://localhost/app"})
    assert JobsSettings(queue_backend="redis", redis=redis, postgres=both).retention.completed == 7 * 86400.0
    assert JobsSettings(queue_backend="memory").retention.completed == 7 * 86400.0


async def test_resuming_offers_everything_again(redis_url: str, redis_prefix: str, client: Redis) -> None:
    """Workers have dropped what they were offered of the paused queue."""
    async with JobQueue(settings=redis_alone(redis_url, redis_prefix)) as jobs:
        assert jobs.dispatcher is not None

        @jobs.task
        async def task(n: int) -> int:
            return n

        handles = await task.enqueue_many([{"n": n} for n in range(1200)])
        await jobs.operations.pause_queue("default")
        worker = Worker(jobs, lease="10s")
        running = asyncio.create_task(worker.run())
        offered = f"{redis_prefix}{{default}}:offered"
        async with asyncio.timeout(PATIENCE):
            while await client.zcard(offered):  # noqa: ASYNC110  the state of a server is not an event
                await asyncio.sleep(0.02)
        await jobs.operations.resume_queue("default")
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(handle.result() for handle in handles))
        assert await client.zcard(f"{redis_prefix}{{default}}:completed") == 1200
        worker.stop()
        await running


async def test_a_popped_job_whose_worker_died_is_offered_again(redis_url: str, redis_prefix: str) -> None:
    async with JobQueue(settings=redis_alone(redis_url, redis_prefix)) as jobs:
        assert jobs.dispatcher is not None

        @jobs.task
        async def task() -> str:
            return "done"

        handle = await task.enqueue()
        taken = await jobs.dispatcher.take(["default"], 10, 5.0)
        assert taken is not None
        assert taken.ids == [handle.id]
        worker = Worker(jobs, lease="10s")
        running = asyncio.create_task(worker.run())
        assert await handle.result(PATIENCE) == "done"
        worker.stop()
        await running
