"""Why nothing can be read is told whole, also where the banner has no room for it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from jobconsole.tui.app import ConsoleApp
from queue_core import JobQueue
from tests.tui.seat import NARROW, seated


async def test_a_schema_that_is_older_says_what_to_run_at_80_columns(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    async with JobQueue(sqlite=path) as jobs:
        await jobs.store.queues()
    with closing(sqlite3.connect(path)) as file:
        ((version,),) = file.execute("pragma user_version").fetchall()
        file.execute(f"pragma user_version = {version - 1}")
    async with seated(ConsoleApp(JobQueue(sqlite=path)), NARROW) as seat:
        await seat.until("SQLITE unavailable")
        await seat.until("run 'jobconsole migrate'")
