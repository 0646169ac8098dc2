"""A server is lost and comes back: the picture stays, the banner says what and since when, nothing ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jobconsole.core.connection import Connection
from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.format.words import IMMEDIATE
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.sheets.change import ChangeSheet
from jobconsole.tui.sheets.confirm import Offer
from jobconsole.tui.sheets.drain import DrainSheet
from jobconsole.tui.sheets.move import MoveSheet
from jobconsole.tui.sheets.sheet import PlanSheet, Sheet
from jobconsole.tui.widgets.fields import Push
from queue_core import JobQueue
from queue_core.stores.postgres.migrate import migrate
from tests.conformance.world import World
from tests.tui.plans import NIGHTLY, announce
from tests.tui.scenes import dead, night, smtp
from tests.tui.seat import NARROW, WIDE, Seat, seated

SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


async def _nothing(seconds: float) -> None:
    raise NotImplementedError


def queue(servers: EmbeddedServers) -> JobQueue:
    """Return a queue on these servers."""
    return JobQueue(postgres=servers.postgres_url, redis=servers.redis_url, prefix="lost:")


@pytest.fixture
async def servers(own_servers: EmbeddedServers) -> EmbeddedServers:
    """Private servers on which a night has passed."""
    await asyncio.to_thread(migrate, own_servers.postgres_url)
    async with queue(own_servers) as jobs:
        await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
        world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
        await night(world)
        await world.close()
    return own_servers


def console(servers: EmbeddedServers) -> ConsoleApp:
    """Return a console over these servers that opens its own connection."""
    return ConsoleApp(Connection(lambda: queue(servers)))


async def look(seat: Seat) -> None:
    """Wait for the first whole picture."""
    await seat.ready()
    await seat.until("3 signatures · 10 jobs")


@SIZES
async def test_postgres_goes_and_comes_back(servers: EmbeddedServers, size: tuple[int, int]) -> None:
    async with seated(console(servers), size) as seat:
        await look(seat)
        await asyncio.to_thread(servers.postgres.kill)
        await seat.until("POSTGRES LOST since")
        await seat.until("changes are disabled")
        assert "TimeoutError" in seat.text(), "the last picture stays"
        assert seat.app.palette.faded
        await seat.press("R")
        await seat.until("retry is disabled: postgres cannot be reached")
        await seat.press("j", "2", "3", "1")
        assert seat.app.is_running
        await seat.press("R")
        await seat.until("retry is disabled: postgres cannot be reached")
        await asyncio.to_thread(servers.postgres.start)
        await seat.until("LIVE", but="LOST")
        assert not seat.app.palette.faded
        await seat.until("LIVE", but="retry is disabled")
        await seat.press("R")
        await seat.until("Retry dead jobs")


SCREENS = (
    ("1", "Dead letters", "retry", "R"),
    ("2", "Queues", "pause", "P"),
    ("3", "Jobs  ", "delete", "D"),
    ("5", "Schedules  ", "trigger", "T"),
    ("6", "Events  ", "", ""),
)
"""Each view with what it shows, and a key that changes something there."""


@SIZES
async def test_both_servers_go_and_come_back_whatever_is_shown(servers: EmbeddedServers, size: tuple[int, int]) -> None:
    async with queue(servers) as jobs:
        await announce(jobs, NIGHTLY, 3_600)
    async with seated(console(servers), size) as seat:
        await look(seat)
        for key, title, label, changing in SCREENS:
            await seat.press(key)
            await seat.until(title)
            await asyncio.to_thread(servers.redis.kill)
            await seat.until("REDIS LOST since")
            await seat.until(title)
            await asyncio.to_thread(servers.postgres.kill)
            await seat.until("POSTGRES LOST since")
            assert title in seat.text(), "the last picture stays"
            await seat.press("j", "k", "w", "r")
            if changing:
                await seat.press(changing)
                await seat.until(f"{label} is disabled: postgres cannot be reached")
            await asyncio.to_thread(servers.postgres.start)
            await asyncio.to_thread(servers.redis.start)
            await seat.until("LIVE", but="LOST")
            await seat.until(title)
        await seat.press("5")
        await seat.until("nightly")
        await seat.press("P")
        await seat.until("nightly is paused")
        assert seat.app.is_running


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_file_goes_and_comes_back(tmp_path: Path, read_only: bool) -> None:
    path, away = tmp_path / "jobs.db", tmp_path / "away.db"
    async with JobQueue(sqlite=path) as jobs:
        await jobs.enqueue_many("mail", [{}, {}, {}])
    app = ConsoleApp(Connection(lambda: JobQueue(sqlite=path), read_only))
    async with seated(app, WIDE) as seat:
        await seat.until("QUEUED 3")
        path.rename(away)
        await seat.until("SQLITE LOST since")
        assert "QUEUED 3" in seat.text(), "the last picture stays"
        assert seat.app.palette.faded
        assert not path.exists()
        away.rename(path)
        await seat.until("✓ sqlite", but="LOST")
        await seat.until("QUEUED 3")
        assert not seat.app.palette.faded


async def test_redis_goes_and_the_picture_goes_on(servers: EmbeddedServers) -> None:
    async with queue(servers) as jobs, seated(console(servers)) as seat:
        await look(seat)
        await asyncio.to_thread(servers.redis.kill)
        await seat.until("REDIS LOST since")
        assert "postgres is read each second instead" in seat.text()
        world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
        await dead(world, 2, smtp(), type="send_email", queue="mail")
        await seat.until("3 signatures · 12 jobs")
        await seat.press("R", "enter")
        await seat.until("retried 7 jobs")
        await asyncio.to_thread(servers.redis.start)
        await seat.until("LIVE", but="LOST")
        await world.close()


async def test_a_server_that_hangs_is_lost_too(servers: EmbeddedServers) -> None:
    async with seated(console(servers)) as seat:
        await look(seat)
        await asyncio.to_thread(servers.postgres.pause)
        await seat.until("POSTGRES LOST since")
        await seat.press("j", "k")
        assert seat.app.palette.faded
        await asyncio.to_thread(servers.postgres.resume)
        await seat.until("LIVE", but="LOST")
        assert not seat.app.palette.faded


async def test_a_console_may_start_before_its_servers(servers: EmbeddedServers) -> None:
    await asyncio.to_thread(servers.postgres.stop)
    app = ConsoleApp(Connection(lambda: queue(servers)), context="prod")
    async with seated(app) as seat:
        # the context stays: what is in trouble is the first question
        await seat.until(" PROD  ▲ POSTGRES unavailable, retrying each second")
        await seat.press("R")
        await seat.until("retry is disabled: postgres cannot be reached")
        await asyncio.to_thread(servers.postgres.start)
        await seat.until("3 signatures · 10 jobs")


HELD = "nothing was changed: postgres cannot be reached"
CHANGING: tuple[tuple[tuple[str, ...], type[Sheet[Any]], str, str], ...] = (
    (("R", "up", *"mended"), ChangeSheet, "mended", "retried 5 jobs"),
    (("D", "up", *"junk"), ChangeSheet, "junk", "deleted 3 jobs"),
    (("M", *"images"), MoveSheet, "images", "moved 2 jobs"),
    (("2", "O", "up", *"closes"), DrainSheet, "closes", "is closed"),
)
"""Keys that open a sheet and type into it, what it is and shows then, and what the console shows once it is done."""


def counted(seat: Seat) -> bool:
    """Whether the sheet on the screen has nothing to wait for."""
    sheet = seat.app.screen
    return not isinstance(sheet, PlanSheet) or sheet.plan is not None


@SIZES
async def test_a_sheet_that_is_confirmed_during_a_loss_stays_with_what_was_typed(
    servers: EmbeddedServers, size: tuple[int, int]
) -> None:
    """Once the store is back, the same key does it."""
    async with seated(console(servers), size) as seat:
        await look(seat)
        for keys, kind, typed, done in CHANGING:
            await seat.press(*keys)
            await seat.until(typed)
            sheet = seat.app.screen
            assert isinstance(sheet, kind)
            await seat.until(lambda: counted(seat))
            sheet.query_one("#go", Push).focus()
            await asyncio.to_thread(servers.postgres.kill)
            await seat.until(lambda: not seat.app.connection.usable)
            await seat.press("enter")
            await seat.until(HELD)
            assert seat.app.screen is sheet
            assert typed in seat.text()
            await asyncio.to_thread(servers.postgres.start)
            await seat.until(lambda: seat.app.connection.usable)
            await seat.press("enter")
            await seat.until(done)


async def test_a_question_stays_during_a_loss_and_text_can_be_thrown_away(servers: EmbeddedServers) -> None:
    """What changes nothing needs no store."""
    async with seated(console(servers)) as seat:
        await look(seat)
        await seat.press("E")
        await seat.until("nothing is changed")
        editor = seat.app.screen
        await seat.press("x")
        await asyncio.to_thread(servers.postgres.kill)
        await seat.until(lambda: not seat.app.connection.usable)
        editor.query_one("#go", Push).focus()
        await seat.press("enter")
        await seat.until(HELD)
        assert seat.app.screen is editor
        await seat.press("escape", "tab", "enter")
        await seat.until(lambda: seat.app.screen is not editor)
        words = IMMEDIATE["worker", "stop"]
        agreed: list[bool | None] = []
        await seat.app.push_screen(Offer(words, "web-1:4711"), agreed.append)
        await seat.press("enter")
        await seat.until(HELD)
        assert not agreed
        await asyncio.to_thread(servers.postgres.start)
        await seat.until(lambda: seat.app.connection.usable)
        await seat.press("enter")
        await seat.until(lambda: agreed == [True])
