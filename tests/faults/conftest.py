"""Plants on the session's servers, and on servers of the test's own that it may stop, kill and freeze."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.stores.postgres.migrate import migrate
from tests.conftest import StartServers
from tests.faults.plant import Plant

DURABLE = {"synchronous_commit": "on"}
"""What was committed is written to the file system, from where killing the server cannot take it away."""


@pytest.fixture
async def plant(tmp_path: Path, postgres_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Plant]:
    """A plant whose workers may be hit; the servers are everybody's."""
    plant = Plant(tmp_path, postgres_url, redis_url, redis_prefix)
    yield plant
    await plant.close()


@pytest.fixture
def hit_servers(start_servers: StartServers) -> EmbeddedServers:
    """Servers that may be hit, and keep what they have committed."""
    servers = start_servers(postgres_options=DURABLE)
    migrate(servers.postgres_url)
    return servers


@pytest.fixture
async def plant_of_its_own(tmp_path: Path, hit_servers: EmbeddedServers) -> AsyncIterator[Plant]:
    """A plant on servers that may be hit."""
    plant = Plant(tmp_path, hit_servers.postgres_url, hit_servers.redis_url, "faults:")
    yield plant
    await plant.close()
