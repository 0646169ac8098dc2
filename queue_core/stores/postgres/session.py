"""Sessions with PostgreSQL that a process shares, and the lanes of writes on them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from queue_core.errors import InvalidJob, QueueCoreError, SchemaError, SchemaMissing, StoreRefused, StoreUnavailable
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.connection import (
    FORGOTTEN,
    HELD,
    RETRIED,
    Connection,
    Try,
    close_all,
    closed_by_server,
    connect,
    cut,
    found_pooler,
    hot_options,
    is_broken,
    limits,
    prepares,
    run_bounded,
    silent_ms,
)
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.plan import Plan, Rows, carry_out

T = TypeVar("T")


KEPT = 2
"""Connections that stay open: one claims while the other one settles. The heartbeat has its own, and so has LISTEN."""
PATIENCE = 0.1
"""Seconds that a statement waits for one of these before one more connection is opened: most statements take less, and
to connect takes some 10 ms of both sides. So no caller waits longer behind a statement that hangs."""
LINGER = 1.0
"""Seconds without use after which a connection beyond these is closed."""


class Session:
    """One connection, and when its plans were last forgotten."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
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
        session = await self._free(last)
        if session is None and len(self._open) + self._coming >= KEPT:
            session = await self._wait(ends)
        return session or await self._connect(ends)

    async def _free(self, last: Session | None) -> Session | None:
        kept = self._open[:KEPT]
        # What was prepared on a connection is prepared there still. One beyond those that stay is the last choice, for
        # it is closed when it is not used.
        for session in [last, *self._open] if last in kept else kept + self._open[KEPT:]:
            if session not in self._idle:
                continue
            self._idle.discard(session)
            if not closed_by_server(session.connection):
                return session
            await self.drop(session)
        return None

    async def _wait(self, ends: float) -> Session | None:
        """Wait for a moment for a connection that comes back."""
        loop = asyncio.get_running_loop()
        given: asyncio.Future[Session] = loop.create_future()
        self._waiting.append(given)
        try:
            await asyncio.wait([given], timeout=min(PATIENCE, ends - loop.time()))
        except asyncio.CancelledError:
            if given.done():
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
        if len(self._open) > KEPT and self._timer is None:
            self._timer = loop.call_later(LINGER, self._thin_out)

    def _thin_out(self) -> None:
        """Close what is beyond those that stay and has not been used lately."""
        loop = asyncio.get_running_loop()
        unused = [
            session
            for session in self._open[KEPT:]
            if session in self._idle and session.idle_since <= loop.time() - LINGER
        ]
        for session in unused:
            self._forget(session)
        self._closing = loop.create_task(close_all([session.connection for session in unused]))
        self._timer = loop.call_later(LINGER, self._thin_out) if len(self._open) > KEPT else None

    async def drop(self, session: Session) -> None:
        """Close a connection that is not used again, without asking the server."""
        self._forget(session)
        await session.connection.close()

    def _forget(self, session: Session) -> None:
        self._idle.discard(session)
        if session in self._open:
            self._open.remove(session)

    async def close(self) -> None:
        """Disconnect, those too that are still being made; doing it twice is safe."""
        self._closes += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closing is not None:
            await self._closing
        for session in list(self._open):
            await self.drop(session)


Steps = list[tuple[str, Mapping[str, Any] | None]]
Work = Callable[[Connection, Try], Awaitable[T]]

AWAY = ("08", "25006", "25P", "28", "3D", "53", "57", "58")
"""How the codes of errors begin after which the server cannot be used now: connection, standby, idle for too long,
login, no such database, resources, shut down or out of time, disk."""

PLANS_SECONDS = 1.0
"""How long plans of prepared statements are kept. One made for a nearly empty table reads it as a whole, and the server
keeps it until the next ANALYZE: after a burst of 300,000 jobs a claim took 13 s instead of 10 ms."""

LIGHT = frozenset(
    {"store/lead", "store/leaders", "store/look", "listening/send", "listening/send_each", "listening/probe"}
)
"""Statements that have one plan whatever the tables hold. An idle fleet asks hardly anything else, and to forget plans
is a statement, too."""


class QueuesLost(StoreUnavailable):
    """The database does not know a queue under the number that this process remembers; nothing was written."""


def translate(error: BaseException) -> QueueCoreError:
    """Return the error of this package's tree that a driver's error means."""
    if isinstance(error, pg.NotNullViolation) and error.diag.column_name == "queue_id":
        return QueuesLost("postgres", "it has lost the row of a queue, or numbers it otherwise")
    if isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName):
        return SchemaMissing(0, 1)
    if isinstance(error, pg.LockNotAvailable):
        return LockHeld()
    text = str(error).strip().splitlines()
    if isinstance(error, pg.SyntaxErrorOrAccessRuleViolation):
        return SchemaError(f"the database's schema does not fit this version: {text[0]}")
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError) and not _lacks_a_day(error):
        return InvalidJob(f"the database refused a value: {text[0] if text else type(error).__name__}")
    if answered(error):
        return refused(error)
    return StoreUnavailable("postgres", text[0] if text else f"no answer in time ({type(error).__name__})")


def _lacks_a_day(error: BaseException) -> bool:
    """Return whether the history has no partition for today yet; its own constraints have names."""
    return isinstance(error, pg.CheckViolation) and error.diag.constraint_name is None


def answered(error: BaseException) -> bool:
    """Return whether the server only refused a statement; else it is unreachable, ends, is full, or a standby."""
    state = getattr(error, "sqlstate", None)
    return state is not None and not state.startswith(AWAY)


def refused(error: psycopg.Error | BaseException) -> StoreRefused:
    """Return what is raised for a statement that the server refused."""
    text = str(error).strip().splitlines()
    passing = isinstance(error, (*RETRIED, pg.LockNotAvailable)) or _lacks_a_day(error)
    return StoreRefused("postgres", text[0] if text else type(error).__name__, passing)


class LockHeld(StoreRefused):
    """A lock was not to be had in time; nothing was written."""

    def __init__(self) -> None:
        super().__init__("postgres", HELD, passing=True)


class Lane:
    """Runs one statement at a time, each its own transaction, within a time limit.

    Lanes with the same `sessions` share connections; without, a lane has its own.
    """

    def __init__(self, settings: PostgresSettings, sessions: Sessions | None = None) -> None:
        self._settings = settings
        self.schema = settings.schema
        self._sessions = sessions or Sessions(settings)
        self._shares = sessions is not None
        # that it had last
        self._session: Session | None = None
        self._lock = asyncio.Lock()
        # callers that have the lock or wait for it
        self._callers = 0

    async def run(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
        """Run a query file by its name and return its rows.

        Raises:
            StoreUnavailable: no connection or no answer in time; the statement may or may not have been committed.
            SchemaMissing: a table is not there.
        """
        return await self._again(lambda connection, _: self._alone(connection, query, params), light=query in LIGHT)

    async def look(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
        """Run a query file that changes nothing; again at once if its idle connection was closed."""
        loop = asyncio.get_running_loop()
        soon = loop.time() + self._settings.timeout / 2
        try:
            return await self.run(query, params)
        except StoreUnavailable:
            if loop.time() >= soon:
                raise
        return await self.run(query, params)

    async def transaction(self, steps: Steps) -> list[Rows]:
        """Run several query files in one transaction and return the rows of each."""

        async def work(connection: Connection, one: Try) -> list[Rows]:
            async with one.transaction(connection, self._settings.timeout):
                return [await self._step(connection, *step) for step in steps]

        return await self._again(work)

    async def carry_out(self, begin: Callable[[], Plan[T]], times: int = 1, patient: bool = True, weight: int = 0) -> T:
        """Carry out a plan in one transaction, within so many time limits; it is begun again if others get in its way.

        `weight`: about how many bytes it sends.

        Raises:
            StoreUnavailable: no connection or no answer in time; the plan may or may not have been committed.
            LockHeld: nothing was written; at once when it is not `patient` and has a patience of its own.
        """

        async def work(connection: Connection, one: Try) -> T:
            async with one.transaction(connection, self._settings.timeout * times, silent_ms(weight)):
                return await carry_out(begin(), partial(self._step, connection))

        return await self._again(work, times, patient)

    async def _again(self, work: Work[T], times: int = 1, patient: bool = True, light: bool = False) -> T:
        # The time limit is the caller's: waiting for the lane counts, and so do all attempts.
        seconds = self._settings.timeout * times
        ends = asyncio.get_running_loop().time() + seconds
        await self._take_turn(ends)
        try:
            for attempt in count(1):
                one = Try(ends, seconds, light)
                try:
                    return await self._run_in_time(work, one)
                except (psycopg.Error, OSError, TimeoutError) as error:
                    if isinstance(error, pg.LockNotAvailable) and not patient:
                        raise LockHeld from error
                    if isinstance(error, FORGOTTEN):
                        found_pooler(self._settings, str(error))
                    if not one.again(error, attempt):
                        late = is_broken(error) and one.late.is_set()
                        raise (self._no_answer() if late else translate(error)) from error
                    ends = one.next_ends()
        finally:
            self._lock.release()
            self._callers -= 1
        raise AssertionError("the last attempt returns or raises")

    async def _take_turn(self, ends: float) -> None:
        self._callers += 1
        if self._callers == 1:
            await self._lock.acquire()  # at once: a time limit around it would take 4 µs
            return
        try:
            async with asyncio.timeout_at(ends):
                await self._lock.acquire()
        except BaseException as error:
            self._callers -= 1
            if isinstance(error, TimeoutError):
                raise self._no_answer() from None
            raise

    def _no_answer(self) -> StoreUnavailable:
        return StoreUnavailable("postgres", f"no answer within {self._settings.timeout:g} s")

    async def _run_in_time(self, work: Work[T], one: Try) -> T:
        session = self._session = await self._sessions.take(self._session, one.ends)
        connection = session.connection
        watch = asyncio.get_running_loop().call_at(one.ends, cut, connection, one)
        try:
            aged = time.monotonic() - session.planned_at >= PLANS_SECONDS
            if aged and not one.light and prepares(self._settings):
                await connection.execute(load("session/forget_plans"), prepare=False)
                session.planned_at = time.monotonic()
            done = await work(connection, one)
        except BaseException as error:
            # Of a session in doubt nothing is wanted: closing the socket is enough, the server ends its part.
            if _is_whole(connection, error):
                self._sessions.put_back(session)
            else:
                await self._sessions.drop(session)
            raise
        finally:
            watch.cancel()
        self._sessions.put_back(session)
        return done

    async def _alone(self, connection: Connection, query: str, params: Mapping[str, Any] | None) -> Rows:
        if prepares(self._settings):
            return await self._step(connection, query, params)
        return await run_bounded(
            connection, limits(self._settings.timeout), load(query, self.schema), params, tuple_row
        )

    async def _step(self, connection: Connection, query: str, params: Mapping[str, Any] | None) -> Rows:
        cursor = await connection.execute(load(query, self.schema), params, binary=True)
        return await cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        """Disconnect, unless others share the connections; doing it twice is safe."""
        self._session = None
        if not self._shares:
            await self._sessions.close()


def _is_whole(connection: Connection, error: BaseException) -> bool:
    """Return whether a connection can be used after an error."""
    if isinstance(error, (asyncio.CancelledError, *FORGOTTEN)) or is_broken(error):
        return False
    return connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
