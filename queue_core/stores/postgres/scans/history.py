"""Drops days of the history that are over their retention, beside everything else and on a connection of its own.

A day is emptied first, a few pages at a time, each step counted in the totals: so lists, results and sums are right
at every moment, also after interruptions. The empty table is then detached and dropped. Readers such as a
dump hold that up for as long as they like: it is given up after seconds, tried again minutes later, and no other
transaction waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from queue_core.errors import QueueCoreError
from queue_core.model.settings import PostgresSettings
from queue_core.runtime import end_tasks
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.session.bounds import Connection
from queue_core.stores.postgres.session.connection import BY_INDEX, connect, connection_options

logger = logging.getLogger("queue_core.worker")

EVERY_SECONDS = 60.0
"""Seconds between two searches for expired days."""
RETRY_SECONDS = 300.0
"""Seconds between two tries to drop a day that is being read."""
PATIENCE_SECONDS = 3.0
"""How long a day's readers are waited for."""
FIRST_PAGES, MAX_PAGES = 100, 1000
STEP_SECONDS = 0.1
"""How long a step may take; the number of pages follows from it. Between two steps nothing is done for as long."""


class _Day(NamedTuple):
    name: str
    pages: int
    # attached, half or detached
    state: str
    ends: Any


class History:
    """One walk at a time, in a task of its own."""

    def __init__(self, settings: PostgresSettings, seconds: float | None) -> None:
        self._settings = settings
        # None: jobs are kept for ever
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        # seconds of time.monotonic
        self._next_at = float("-inf")
        self._pages = FIRST_PAGES
        # jobs that were removed and not yet asked for
        self._gone = 0

    def begin(self) -> None:
        """Look for days that are over, unless that is being done or was done a moment ago."""
        idle = self._task is None or self._task.done()
        if self._seconds is not None and idle and time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + EVERY_SECONDS
            self._task = asyncio.create_task(self._run(self._seconds))

    def taken(self) -> int:
        """Return how many jobs were removed since this was asked last."""
        gone, self._gone = self._gone, 0
        return gone

    async def idle(self) -> None:
        """Wait until nothing is being dropped."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop; doing it twice is safe. What is left is for the next leader."""
        task, self._task = self._task, None
        await end_tasks(task)

    async def _run(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(self._settings.timeout):
                connection = await connect(self._settings, self._options())
            async with connection:
                rows = await self._do(connection, "history/old", seconds=seconds)
                for day in [_Day(*row) for row in rows]:
                    await self._remove(connection, day)
        except (psycopg.Error, QueueCoreError, OSError, TimeoutError) as error:
            logger.info("a day of the history is left for later: %s", str(error).strip() or "no answer in time")
            self._pages = max(1, self._pages // 2)
            self._next_at = time.monotonic() + RETRY_SECONDS

    def _options(self) -> dict[str, Any]:
        # Should this process be frozen or killed, the server gives up by itself. Behind a pooler it is asked to.
        limits = {"lock_timeout": PATIENCE_SECONDS, "statement_timeout": self._settings.timeout}
        ours = "".join(f" -c {name}={value * 1000:.0f}" for name, value in limits.items())
        return connection_options(self._settings, BY_INDEX + ours)

    async def _remove(self, connection: Connection, day: _Day) -> None:
        if day.state == "attached":
            await self._empty(connection, day)
        if day.state == "half":
            await self._do(connection, "history/finalize", day)
        ((left,),) = await self._do(connection, "history/left", day)
        if left:  # not this package's: it detaches empty days only
            return
        if day.state == "attached":
            await self._do(connection, "history/detach", day)
        await self._do(connection, "history/drop", day)

    async def _empty(self, connection: Connection, day: _Day) -> None:
        first = 0
        while first < day.pages:
            began = time.monotonic()
            last = first + self._pages
            rows = await self._do(connection, "history/empty", day, first=f"({first},0)", last=f"({last},0)")
            self._gone += rows[0][0]
            first, took = last, time.monotonic() - began
            if took > 2 * STEP_SECONDS:
                self._pages = max(1, self._pages // 2)
            elif took < STEP_SECONDS / 2:
                self._pages = min(MAX_PAGES, self._pages * 2)
            await asyncio.sleep(took)

    async def _do(self, connection: Connection, query: str, day: _Day | None = None, **params: Any) -> list[Any]:
        text = sql.SQL(load(query, self._settings.schema).decode())
        composed = text if day is None else text.format(day=sql.Identifier(self._settings.schema, day.name))
        # Cancelled, the driver asks the server to end the statement.
        patience = self._settings.timeout if query in ("history/old", "history/empty") else PATIENCE_SECONDS + 1
        async with asyncio.timeout(patience):
            cursor = await connection.execute(composed, params or None, prepare=False)
            return await cursor.fetchall() if cursor.description else []
