"""What an idle fleet costs Redis where PostgreSQL is the store: a wait a worker, and next to nothing besides."""

from __future__ import annotations

import asyncio
import time

from redis.asyncio import Redis

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.queue import JobQueue
from queue_core.stores.postgres.migrate import migrate
from queue_core.worker.worker import Worker

WORKERS, SECONDS = 4, 6.0
EACH, FLEET = 1.0, 2.0
"""Commands a second of each worker, and of all together besides: 18 for 16 of them."""
PATIENCE = 60.0


async def commands(client: Redis) -> int:
    return int((await client.info("stats"))["total_commands_processed"])


def queue_of(servers: EmbeddedServers) -> JobQueue:
    """Return the queue object of one worker process."""
    jobs = JobQueue(postgres=servers.postgres_url, redis=servers.redis_url)

    @jobs.task
    async def work() -> str:
        return "done"

    return jobs


async def test_an_idle_fleet_asks_redis_for_little(own_servers: EmbeddedServers) -> None:
    migrate(own_servers.postgres_url)
    fleet = [queue_of(own_servers) for _ in range(WORKERS)]
    workers = [Worker(jobs) for jobs in fleet]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    for jobs in fleet:
        assert await (await jobs.enqueue("work")).result(timeout=PATIENCE) == "done"
    async with Redis.from_url(own_servers.redis_url, decode_responses=True) as client:
        await asyncio.sleep(2.0)  # what the jobs were audited for is over
        start, before = time.monotonic(), await commands(client)
        await asyncio.sleep(SECONDS)
        spent = await commands(client) - before
        assert spent <= (time.monotonic() - start) * (WORKERS * EACH + FLEET), spent
    for worker in workers:
        worker.stop()
    await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
    for jobs in fleet:
        await jobs.close()
