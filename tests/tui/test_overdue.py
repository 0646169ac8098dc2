"""A server that goes silent: LIVE goes before the driver gives up, in every view and mode, and comes back by itself."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobconsole.core.connection import Connection
from jobconsole.embedded.servers import EmbeddedServers, ServerHandle
from jobconsole.tui.app import ConsoleApp
from queue_core import JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.stores.postgres.migrate import migrate
from tests.conformance.world import World
from tests.tui.scenes import night
from tests.tui.seat import NARROW, WIDE, Seat, seated

SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])

LOCKING = """
import fcntl, sys
with open(sys.argv[1], "r+b") as shared:
    fcntl.lockf(shared, fcntl.LOCK_EX, 8, 120)
    print("locked", flush=True)
    sys.stdin.read()
"""
"""Takes all locks of a write-ahead log, as a process does that repairs it and is stopped meanwhile."""


async def _nothing(seconds: float) -> None:
    raise NotImplementedError


def queue(servers: EmbeddedServers, mode: str) -> JobQueue:
    """Return a queue on these servers."""
    postgres = {"url": servers.postgres_url} if "postgres" in mode else {}
    redis = {"url": servers.redis_url, "prefix": "late:"} if "redis" in mode else {}
    backend = "redis" if redis else "postgres"
    settings = JobsSettings.model_validate({"queue_backend": backend, "postgres": postgres, "redis": redis})
    assert settings.mode == mode
    return JobQueue(settings=settings)


@pytest.fixture
async def servers(own_servers: EmbeddedServers) -> AsyncIterator[EmbeddedServers]:
    """Private servers, which go on at the end."""
    await asyncio.to_thread(migrate, own_servers.postgres_url)
    yield own_servers
    for handle in (own_servers.postgres, own_servers.redis):
        await asyncio.to_thread(handle.resume)


async def fill(jobs: JobQueue) -> None:
    """Let a night pass in the store."""
    async with jobs:
        await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
        world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
        await night(world)
        await world.close()


async def silent(seat: Seat, handle: ServerHandle, name: str) -> None:
    """Freeze a server and wait until the header says so."""
    await asyncio.to_thread(handle.pause)
    await seat.until(f"{name} LOST since", but="LIVE")
    await seat.until("(no answer for ")


@SIZES
async def test_a_frozen_store_is_not_live_before_its_driver_gives_up(
    servers: EmbeddedServers, size: tuple[int, int]
) -> None:
    await fill(queue(servers, "postgres+redis"))
    connection = Connection(lambda: queue(servers, "postgres+redis"))
    async with seated(ConsoleApp(connection), size) as seat:
        await seat.ready()
        for key in "123456":
            await seat.press(key)
            await seat.until("LIVE", but="LOST")
            await asyncio.to_thread(servers.postgres.pause)
            # It gives up at the time limit of the connection.
            driver = asyncio.ensure_future(connection.jobs.inspector.ping())
            await seat.until("POSTGRES LOST since", but="LIVE")
            assert not driver.done(), "said only when the driver gave up"
            await seat.until("(no answer for ")
            await asyncio.to_thread(servers.postgres.resume)
            await asyncio.gather(driver, return_exceptions=True)
        await seat.until("LIVE", but="LOST")
        await seat.press("1", "R", "enter")
        await seat.until("retried 5 jobs")


@pytest.mark.parametrize("mode", ["postgres", "postgres+redis", "redis"])
async def test_whoever_goes_silent_is_said_and_live_again_when_it_goes_on(servers: EmbeddedServers, mode: str) -> None:
    await fill(queue(servers, mode))
    async with seated(ConsoleApp(Connection(lambda: queue(servers, mode)))) as seat:
        await seat.ready()
        for handle, name in ((servers.postgres, "POSTGRES"), (servers.redis, "REDIS")):
            if name.lower() not in mode:
                continue
            await seat.until("LIVE", but="LOST")
            await silent(seat, handle, name)
            await asyncio.to_thread(handle.resume)
        await seat.until("LIVE", but="LOST")


async def test_a_locked_file_is_not_live(tmp_path: Path) -> None:
    settings = JobsSettings.model_validate({"queue_backend": "sqlite", "sqlite": {"path": str(tmp_path / "jobs.db")}})
    await fill(JobQueue(settings=settings))
    async with seated(ConsoleApp(Connection(lambda: JobQueue(settings=settings)))) as seat:
        await seat.ready()
        await seat.until("LIVE")
        command = [sys.executable, "-c", LOCKING, str(tmp_path / "jobs.db-shm")]
        holder = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        try:
            assert holder.stdout is not None
            assert await holder.stdout.readline() == b"locked\n"
            await seat.until("SQLITE LOST since", but="LIVE")
            await seat.press("R")
            await seat.until("retry is disabled: sqlite cannot be reached")
        finally:
            holder.kill()
            await holder.wait()
        await seat.until("LIVE", but="LOST")
        await seat.press("R", "enter")
        await seat.until("retried 5 jobs")


async def test_what_is_pressed_before_it_is_known_ends_with_one_sentence(servers: EmbeddedServers) -> None:
    await fill(queue(servers, "postgres+redis"))
    async with seated(ConsoleApp(Connection(lambda: queue(servers, "postgres+redis")))) as seat:
        await seat.ready()
        await seat.press("2")
        await seat.until("Queues")
        await seat.until("LIVE")
        await asyncio.to_thread(servers.postgres.pause)
        await seat.press("P")
        while not seat.app.connection.usable:
            # The header was quicker than the key.
            await asyncio.to_thread(servers.postgres.resume)
            await seat.until("LIVE", but="LOST")
            await asyncio.to_thread(servers.postgres.pause)
            await seat.press("P")
        await seat.press("j", "k", "3", "2")
        await seat.until("POSTGRES LOST since", but="LIVE")
        await seat.until("postgres cannot be reached: no answer within")
        # It waits for the change before it, and then gives the reason for which it does nothing.
        await seat.press("P")
        await seat.until("pause is disabled: postgres cannot be reached")
        await asyncio.to_thread(servers.postgres.resume)
        await seat.until("LIVE", but="LOST")
        await seat.press("P")
        # The server may have carried out the first one when it went on.
        await seat.until("u undoes it")
