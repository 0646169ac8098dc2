"""Sessions with PostgreSQL that a process shares."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import psycopg

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.session.answers import WatchedConnection
from queue_core.stores.postgres.session.bounds import closed_by_server
from queue_core.stores.postgres.session.connection import close_all, connect, hot_options
from queue_core.stores.postgres.session.statements import PreparedStatements

KEPT_CONNECTIONS = 2
"""Connections that stay open: one claims while the other one settles. The heartbeat has its own, and so has LISTEN."""
CONNECTION_WAIT = 0.1
"""Seconds that a statement waits for one of these before one more connection is opened: most statements take less, and
to connect takes some 10 ms of both sides. So no caller waits longer behind a statement that hangs."""
IDLE_SECONDS = 1.0
"""Seconds without use after which a connection beyond these is closed."""


class Session:
    """One connection, what is prepared on it, and when its plans were last forgotten."""

    def __init__(self, connection: WatchedConnection) -> None:
        self.connection = connection
        self.statements = PreparedStatements(connection)
        # seconds of time.monotonic; a new one has no plans yet
        self.planned_at = time.monotonic()
        # seconds of the loop's clock
        self.idle_since = 0.0


class Sessions:
    """Lends connections. A caller runs one statement or transaction on one, then puts it back or drops it."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        # the oldest first; the first ones are those that stay
        self._open: list[Session] = []
        self._idle: set[Session] = set()
        # connections that are being made
        self._coming = 0
        self._waiting: deque[asyncio.Future[Session]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        # how often `close` was called
        self._closes = 0

    async def take(self, last: Session | None, ends: float) -> Session:
        """Return a connection for the caller alone, the one that it had last where that is free.

        `ends`: of the loop's clock.

        Raises:
            TimeoutError, psycopg.Error: there is none in time.
        """
        if last in self._idle and self._open.index(last) < KEPT_CONNECTIONS and not closed_by_server(last.connection):
            self._idle.discard(last)
            return last
        session = await self._free(last)
        if session is None and len(self._open) + self._coming >= KEPT_CONNECTIONS:
            session = await self._wait(ends)
        return session or await self._connect(ends)

    async def _free(self, last: Session | None) -> Session | None:
        kept = self._open[:KEPT_CONNECTIONS]
        # What was prepared on a connection is prepared there still. One beyond those that stay is the last choice, for
        # it is closed when it is not used.
        for session in [last, *self._open] if last in kept else kept + self._open[KEPT_CONNECTIONS:]:
            if session not in self._idle:
                continue
            self._idle.discard(session)
            if not closed_by_server(session.connection):
                return session
            await self.drop(session)
        return None

    async def _wait(self, ends: float) -> Session | None:
        """Wait for a moment for a connection that comes back.

        Raises:
            psycopg.Error: all are closed meanwhile.
        """
        loop = asyncio.get_running_loop()
        given: asyncio.Future[Session] = loop.create_future()
        self._waiting.append(given)
        try:
            await asyncio.wait([given], timeout=min(CONNECTION_WAIT, ends - loop.time()))
        except asyncio.CancelledError:
            if given.done() and given.exception() is None:
                self.put_back(given.result())
            raise
        finally:
            if not given.done():
                self._waiting.remove(given)
        return given.result() if given.done() else None

    async def _connect(self, ends: float) -> Session:
        self._coming += 1
        closes = self._closes
        try:
            async with asyncio.timeout_at(ends):
                level = psycopg.IsolationLevel.READ_COMMITTED
                connection = await connect(self._settings, hot_options(self._settings), level)
        finally:
            self._coming -= 1
        if self._closes != closes:
            await connection.close()
            raise psycopg.OperationalError("closed while the connection was made")
        session = Session(connection)
        self._open.append(session)
        return session

    def put_back(self, session: Session) -> None:
        """Let others have a connection on which nothing is under way."""
        if session not in self._open:
            return  # closed meanwhile
        if self._waiting:
            self._waiting.popleft().set_result(session)
            return
        loop = asyncio.get_running_loop()
        session.idle_since = loop.time()
        self._idle.add(session)
        if len(self._open) > KEPT_CONNECTIONS and self._timer is None:
            self._timer = loop.call_later(IDLE_SECONDS, self._thin_out)

    def _thin_out(self) -> None:
        """Close what is beyond those that stay and has not been used lately."""
        loop = asyncio.get_running_loop()
        unused = [
            session
            for session in self._open[KEPT_CONNECTIONS:]
            if session in self._idle and session.idle_since <= loop.time() - IDLE_SECONDS
        ]
        for session in unused:
            self._forget(session)
        self._closing = loop.create_task(close_all([session.connection for session in unused]))
        self._timer = loop.call_later(IDLE_SECONDS, self._thin_out) if len(self._open) > KEPT_CONNECTIONS else None

    async def drop(self, session: Session) -> None:
        """Close a connection that is not used again, without asking the server."""
        self._forget(session)
        await session.connection.close()

    def _forget(self, session: Session) -> None:
        self._idle.discard(session)
        if session in self._open:
            self._open.remove(session)

    async def close(self) -> None:
        """Disconnect, those too that are still being made; doing it twice is safe. Who waits for one gets none."""
        self._closes += 1
        while self._waiting:
            self._waiting.popleft().set_exception(psycopg.OperationalError("closed while a connection was waited for"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closing is not None:
            await self._closing
        for session in list(self._open):
            await self.drop(session)
