"""Mode redis on a server that is full for a while: it reads, and refuses to write."""

from __future__ import annotations

import asyncio

import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.errors import StoreRefused
from queue_core.queue import JobQueue
from tests.conformance.working import until_status, working
from tests.redis_topology.clients import plain_client


async def test_work_goes_on_when_there_is_room_again(own_servers: EmbeddedServers) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    async with JobQueue(redis=own_servers.redis_url) as jobs:

        @jobs.task
        async def hold() -> None:
            began.set()
            await go_on.wait()

        with plain_client(own_servers.redis_url) as client:
            async with working(jobs):
                running = await jobs.enqueue("hold")
                await began.wait()
                client.config_set("maxmemory", 1)
                go_on.set()
                with pytest.raises(StoreRefused, match="memory") as refused:
                    await jobs.enqueue("hold")
                assert refused.value.passing
                health = await jobs.health()
                assert (health.healthy, health.pending is not None) == (False, True)
                assert "memory" in health.reason
                client.config_set("maxmemory", 0)
                await until_status(jobs, running.id, "completed")
                assert (await jobs.health()).healthy
                await until_status(jobs, (await jobs.enqueue("hold")).id, "completed")
