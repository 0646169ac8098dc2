"""The first two lines: whole at 80 columns, and never LIVE over a picture that is not."""

from __future__ import annotations

import asyncio
import itertools
import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobconsole.core.connection import Connection, ContextInfo, Server
from jobconsole.core.snapshot import SnapshotTotals
from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.widgets import header
from jobconsole.tui.widgets.header import Header
from queue_core import JobQueue
from queue_core.model.report import SeriesPoint
from queue_core.stores.postgres.migrate import migrate
from tests.tui.seat import NARROW, PATIENCE, Seat, seated
from tests.tui.still import show, still_app
from tests.tui.test_triage import SIZES

SETTINGS = tuple(itertools.product(("", "demo", "production", "a-very-long-name-of-it"), (False, True)))
HOUR = timedelta(hours=1, minutes=1)


def drawn(seat: Seat) -> list[str]:
    """The lines of the header, as wide as it is."""
    widget = seat.view.query_one(Header)
    return ["".join(text for text, _ in line) for line in widget.lines(*widget.size)]


def servers(store: str, delivery: str, silent: bool = False) -> dict[str, Server]:
    """Two servers, in these states for an hour."""
    since = datetime.now(UTC) - HOUR
    return {
        "store": Server("postgres", store, since, 0.002, "gone" if store == "lost" else "", silent),
        "delivery": Server("redis", delivery, since, 0.001, "", silent),
    }


@pytest.mark.parametrize(("word", "read_only"), SETTINGS)
async def test_nothing_is_cut_at_80_columns(word: str, read_only: bool) -> None:
    context = ContextInfo("it", word) if word else None
    async with (
        JobQueue(memory=True) as jobs,
        seated(ConsoleApp(jobs, context=context, read_only=read_only), NARROW) as seat,
    ):
        await seat.ready()
        for key, delivery in itertools.product("16", ("up", "connecting")):
            await seat.press(key)
            seat.app.connection._servers = servers("up", delivery)
            first = drawn(seat)[0]
            name = {"1": "1 Triage", "6": "6 Events"}[key]
            assert len(first) == NARROW[0]
            assert re.sub(r"… redis|[A-Z-]+… ", "", first).count("…") == 0, first
            assert all(f" {number}" in first for number in range(1, 7)), first
            assert name in first
            assert "LIVE" in first
        for gone, silent in itertools.product((("lost", "up"), ("up", "lost")), (False, True)):
            seat.app.connection._servers = servers(*gone, silent)
            seat.app.model._steady = lambda: time.monotonic() + HOUR.total_seconds()
            banner = drawn(seat)[0]
            assert "…" not in re.sub(r"^ [A-Z-]+… ", "", banner), banner
            assert banner.startswith(f" {word.upper()[:5]}")
            assert len(banner) == NARROW[0]
            assert "no answer for 1h" in drawn(seat)[0] or not silent


@pytest.mark.parametrize(("word", "read_only"), SETTINGS)
async def test_jobs_without_a_worker_are_an_alarm_in_the_first_line(word: str, read_only: bool) -> None:
    context = ContextInfo("it", word) if word else None
    async with (
        JobQueue(memory=True) as jobs,
        seated(ConsoleApp(jobs, context=context, read_only=read_only), NARROW) as seat,
    ):
        await seat.ready()
        snapshot = seat.app.model.snapshot
        assert snapshot is not None
        seat.app.connection._servers = servers("up", "up")
        for queued, running, workers, alarm in ((0, 0, 0, False), (1, 0, 0, True), (0, 1, 0, True), (1, 1, 1, False)):
            totals = replace(snapshot.totals, queued=queued, running=running, workers=workers)
            seat.app.model.snapshot = replace(snapshot, totals=totals)
            first = drawn(seat)[0]
            assert ("NO WORKER" in first, "LIVE" in first) == (alarm, not alarm), first
            assert len(first) == NARROW[0]


async def test_no_number_is_cut_at_80_columns() -> None:
    async with JobQueue(memory=True) as jobs, seated(ConsoleApp(jobs), NARROW) as seat:
        await seat.ready()
        snapshot = seat.app.model.snapshot
        assert snapshot is not None
        for count in (7, 999, 1_234, 99_999, 1_234_567):
            oldest = snapshot.now - timedelta(seconds=count)
            totals = SnapshotTotals(count, count, count, count, count, count, oldest, 9, 0, count)
            died = SeriesPoint(snapshot.now, 0, 0, 0, count)
            seat.app.model.snapshot = replace(snapshot, totals=totals, series=(died,))
            line = drawn(seat)[1]
            assert "…" not in line, line
            assert all(word in line for word in ("QUEUED", "RUN", "RETRY", "DEAD", "OLDEST"))


async def test_an_old_picture_is_not_called_live(monkeypatch: pytest.MonkeyPatch) -> None:
    async with JobQueue(memory=True) as jobs, seated(ConsoleApp(jobs), NARROW) as seat:
        await seat.ready()
        assert "LIVE" in drawn(seat)[0]
        monkeypatch.setattr(header, "OLD_SECONDS", -1.0)
        assert "LIVE" not in drawn(seat)[0]
        assert " OLD" in drawn(seat)[0]


@SIZES
async def test_a_server_that_hangs_from_the_start_is_said_before_its_driver_gives_up(
    own_servers: EmbeddedServers, size: tuple[int, int]
) -> None:
    await asyncio.to_thread(migrate, own_servers.postgres_url)
    await asyncio.to_thread(own_servers.postgres.pause)
    connection = Connection(lambda: JobQueue(postgres=own_servers.postgres_url, redis=own_servers.redis_url))
    try:
        async with seated(ConsoleApp(connection), size) as seat:
            await seat.until("CONNECTING")
            await seat.until(lambda: "LIVE" in seat.text() or "POSTGRES unavailable" in seat.text())
            assert "LIVE" not in seat.text()
            assert connection._opening is not None, "the driver still waits"
            await seat.press("R")
            await seat.until("retry is disabled: postgres cannot be reached")
            await asyncio.to_thread(own_servers.postgres.resume)
            await seat.until("LIVE", but="unavailable")
    finally:
        await asyncio.to_thread(own_servers.postgres.resume)


@pytest.mark.parametrize("program", ["ui", "demo"])
def test_what_is_said_on_stderr_may_go_into_a_file(program: str, tmp_path: Path) -> None:
    """The console draws on the other stream then."""
    leader, follower = pty.openpty()
    start = {
        "ui": "from queue_core.model.settings import JobsSettings\nfrom jobconsole.tui.run import run_console\n"
        "raise SystemExit(run_console(JobsSettings(queue_backend='memory')))",
        "demo": "from jobconsole.demo.run import has_terminal\nprint('terminal', has_terminal(), '\\x1b[?1049h')",
    }[program]
    said = tmp_path / "said"
    with said.open("wb") as errors:
        terminal = {"stdin": follower, "stdout": follower, "env": {**os.environ, "TERM": "xterm"}}
        running = subprocess.Popen([sys.executable, "-c", start], stderr=errors, **terminal)  # type: ignore[call-overload]
    os.close(follower)
    try:
        seen = _until(leader, b"\x1b[?1049h")
        assert b"\x1b[?1049h" in seen
        assert program == "ui" or b"terminal True" in seen
        assert b"\x1b" not in said.read_bytes()
    finally:
        running.kill()
        running.wait()
        os.close(leader)


def _until(leader: int, wanted: bytes) -> bytes:
    """Return what came to a terminal up to something, or all that came in the time there is."""
    seen, end = b"", time.monotonic() + PATIENCE
    while wanted not in seen and time.monotonic() < end:
        if select.select([leader], [], [], 1.0)[0]:
            try:
                seen += os.read(leader, 65_536)
            except OSError:
                break
    return seen


async def test_the_time_is_never_cut_to_its_zone() -> None:
    """At 100 columns 'UTC' was shown without the time, for the servers' latencies had its cells."""
    async with seated(still_app(), (100, 30)) as seat:
        await show(seat)
        for key in ("1", "4", "5"):
            await seat.press(key)
            assert "03:07:41" in drawn(seat)[0]
