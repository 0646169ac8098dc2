"""Servers that answer and take no writes: the picture goes on, and the header names it, as `health` does."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobconsole.core.connection import Connection, RefusedWrites
from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base import refresher
from queue_core import JobQueue
from queue_core.errors import StoreReadOnly
from queue_core.model.settings import settings_from
from queue_core.stores.postgres.migrate import migrate
from tests.redis_topology.clients import plain_client
from tests.tui.seat import seated
from tests.tui.still import ago, show, still_app
from tests.tui.test_losing import SIZES


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresher, "WRITES_SECONDS", 0.2)
    monkeypatch.setattr(refresher, "REFUSED_SECONDS", 0.2)


@SIZES
async def test_a_full_redis_as_the_store(own_servers: EmbeddedServers, size: tuple[int, int]) -> None:
    app = ConsoleApp(Connection(lambda: JobQueue(redis=own_servers.redis_url)))
    async with seated(app, size) as seat:
        await seat.until("LIVE")
        with plain_client(own_servers.redis_url) as client:
            await asyncio.to_thread(client.config_set, "maxmemory", 1)
            await seat.until("REDIS TAKES NO WRITES since")
            assert "its memory is full" in seat.text()
            assert not seat.app.palette.faded, "it is read as ever"
            await asyncio.to_thread(client.config_set, "maxmemory", 0)
            await seat.until("LIVE", but="TAKES NO WRITES")


async def test_a_full_redis_that_only_delivers(own_servers: EmbeddedServers) -> None:
    await asyncio.to_thread(migrate, own_servers.postgres_url)
    source = lambda: JobQueue(postgres=own_servers.postgres_url, redis=own_servers.redis_url)  # noqa: E731
    async with seated(ConsoleApp(Connection(source)), (200, 50)) as seat:
        await seat.until("LIVE")
        with plain_client(own_servers.redis_url) as client:
            await asyncio.to_thread(client.config_set, "maxmemory", 1)
            await seat.until("its memory is full; workers look into the store instead")
            await asyncio.to_thread(client.config_set, "maxmemory", 0)
            await seat.until("LIVE", but="TAKES NO WRITES")


async def test_a_file_that_another_process_keeps_locked(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    settings = settings_from(sqlite=path)
    settings = settings.model_copy(update={"sqlite": settings.sqlite.model_copy(update={"timeout": 0.3})})
    async with seated(ConsoleApp(Connection(lambda: JobQueue(settings=settings)))) as seat:
        await seat.until("LIVE")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            await seat.until("SQLITE TAKES NO WRITES since")
            assert "another process keeps its lock" in seat.text()
            other.execute("rollback")
            await seat.until("LIVE", but="TAKES NO WRITES")


@SIZES
async def test_a_full_disk_is_named_at_every_width(size: tuple[int, int]) -> None:
    app = still_app()
    async with seated(app, size) as seat:
        reason = "the disk that holds /var/lib/somewhere/far/away/from/here/jobs.db is full"
        app.connection.refusal = RefusedWrites("sqlite", ago(12), reason)
        await show(seat)
        assert "SQLITE TAKES NO WRITES since 03:07:29" in seat.text()
        assert "its disk is full" in seat.text()


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_server_that_is_only_read_is_no_trouble_to_a_console_that_only_reads(read_only: bool) -> None:
    async with JobQueue(memory=True) as jobs:

        async def refused() -> None:
            raise StoreReadOnly("postgres", "the session is read-only")

        jobs._backend = jobs._backend._replace(check_writes=refused)
        connection = Connection(jobs, read_only)
        await connection.check()
        await connection.check_writes()
        assert (connection.refusal is None) == read_only
