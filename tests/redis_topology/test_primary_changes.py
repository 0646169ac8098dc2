"""A primary that has a successor is left at once: until Sentinels make a replica of it, it takes what will be lost."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.settings import RedisSettings
from queue_core.redis.client import make_client
from tests.redis_topology.conftest import MakeSettings
from tests.redis_topology.rig import Server, Trio

PATIENCE = 5.0
"""Seconds; after a planned demotion the old primary takes commands for 10."""


def has(server: Server, prefix: str, job_id: str) -> bool:
    return bool(server.ask("EXISTS", f"{prefix}{{default}}:job:{job_id}"))


async def until_written(jobs: JobQueue, server: Server, prefix: str) -> None:
    """Enqueue until a job arrives at this server."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(StoreUnavailable):
                handle = await jobs.enqueue("task")
                if await asyncio.to_thread(has, server, prefix, handle.id):
                    return
            await asyncio.sleep(0.02)


async def test_a_planned_demotion_is_followed_while_the_old_primary_takes_commands(
    trio: Trio, make_settings: MakeSettings, redis_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with JobQueue(settings=make_settings("redis", trio.url())) as jobs:
        await jobs.enqueue("task")
        before = trio.primary()
        await asyncio.to_thread(trio.failover)
        await until_written(jobs, trio.primary(), redis_prefix)
        assert before.ask("ROLE")[0] == "master"
    assert caplog.text.count("redis lost") <= 1
    assert caplog.text.count("redis is back") <= 1


async def test_a_connection_that_was_closed_fails_no_command(trio: Trio) -> None:
    client = make_client(RedisSettings.model_validate({"url": trio.url()}))
    try:
        first = await client.client_id()
        await asyncio.to_thread(trio.primary().ask, "CLIENT", "KILL", "ID", first)
        await asyncio.sleep(0.01)  # its end arrives
        assert await client.client_id() > first
    finally:
        await client.connection_pool.disconnect()


async def test_listening_ends_with_the_connections(trio: Trio, make_settings: MakeSettings) -> None:
    before = asyncio.all_tasks()
    async with JobQueue(settings=make_settings("redis", trio.url())) as jobs:
        await jobs.enqueue("task")
        assert any("PrimaryChanges" in repr(task) for task in asyncio.all_tasks())
    await asyncio.sleep(0)
    assert not any("PrimaryChanges" in repr(task) for task in asyncio.all_tasks() - before)
