"""The connection opens late, notices loss and return, and remembers since when."""

from __future__ import annotations

import asyncio

import pytest

from jobconsole.core.connection import Connection
from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue
from queue_core.stores.postgres.migrate import migrate


async def test_nothing_is_made_before_it_is_opened() -> None:
    made: list[JobQueue] = []

    def make() -> JobQueue:
        made.append(JobQueue(memory=True))
        return made[0]

    connection = Connection(make)
    assert (made, connection.store.state, connection.usable) == ([], "connecting", False)
    with pytest.raises(RuntimeError):
        _ = connection.jobs
    await connection.check()
    assert (len(made), connection.store.name, connection.store.state, connection.usable) == (1, "memory", "up", True)
    assert connection.delivery is None
    await connection.close()
    await connection.close()


async def test_a_queue_that_was_given_is_left_open(jobs: JobQueue) -> None:
    connection = Connection(jobs)
    await connection.check()
    await connection.close()
    await jobs.enqueue("task", {})


async def test_a_database_without_schema_is_said_in_its_own_words(
    empty_postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    connection = Connection(lambda: JobQueue(postgres=empty_postgres_url, redis=redis_url, prefix=redis_prefix))
    await connection.check()
    assert "jobconsole migrate" in connection.store.error
    await asyncio.to_thread(migrate, empty_postgres_url)
    await connection.check()
    assert connection.usable
    await connection.close()


async def test_servers_are_lost_and_come_back(own_servers: EmbeddedServers) -> None:
    await asyncio.to_thread(migrate, own_servers.postgres_url)
    connection = Connection(lambda: JobQueue(postgres=own_servers.postgres_url, redis=own_servers.redis_url))
    await connection.check()
    assert [server.state for server in connection.servers] == ["up", "up"]

    await asyncio.to_thread(own_servers.redis.kill)
    await connection.check()
    assert connection.delivery is not None
    assert (connection.store.state, connection.delivery.state, connection.usable) == ("up", "lost", True)

    await asyncio.to_thread(own_servers.postgres.kill)
    await connection.check()
    since = connection.store.since
    assert (connection.store.state, connection.usable) == ("lost", False)
    await connection.check()
    assert connection.store.since == since, "the loss goes on, it does not begin anew"

    await asyncio.to_thread(own_servers.redis.start)
    await asyncio.to_thread(own_servers.postgres.start)
    async with asyncio.timeout(30):
        while not connection.usable:
            await connection.check()
    assert connection.store.latency is not None
    await connection.close()
