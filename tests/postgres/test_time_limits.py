"""The time limit of a call: it begins with the call, whatever else waits for the same server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue, StoreUnavailable
from queue_core.model.settings import JobsSettings
from queue_core.stores.postgres.migrate import migrate
from tests.conftest import StartServers

LIMIT = 1.0
BOUND = 8 * LIMIT
"""On a machine under load; 20 calls one after the other took 22 s."""


@pytest.fixture
def servers(start_servers: StartServers) -> EmbeddedServers:
    """Servers of this test alone, with a schema."""
    servers = start_servers()
    migrate(servers.postgres_url)
    return servers


@pytest.fixture
async def jobs(servers: EmbeddedServers) -> AsyncIterator[JobQueue]:
    """A queue object with one job, whose server hangs."""
    postgres = {"url": servers.postgres_url, "timeout": LIMIT}
    jobs = JobQueue(settings=JobsSettings.model_validate({"queue_backend": "postgres", "postgres": postgres}))
    async with jobs:
        await jobs.enqueue("anything")
        servers.postgres.pause()
        yield jobs


async def test_an_enqueue_does_not_wait_for_those_who_ask_for_a_status(
    jobs: JobQueue, servers: EmbeddedServers
) -> None:
    ends: dict[str, float] = {}
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def call(name: str, asked: object) -> None:
        with pytest.raises(StoreUnavailable):
            await asked  # type: ignore[misc]
        ends[name] = loop.time() - began

    unknown = "01980000-0000-7000-8000-000000000000"
    calls = [call(f"status {n}", jobs.status_of(unknown)) for n in range(20)]
    enqueues = [call(f"enqueue {n}", jobs.enqueue("anything", {"n": n})) for n in range(3)]
    try:
        await asyncio.gather(*calls, *enqueues)
    finally:
        servers.postgres.resume()
    assert max(ends.values()) < BOUND, ends
