"""Statements of one kind, one after the other, on a connection that comes back by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from queue_core.errors import (
    InvalidJob,
    QueueCoreError,
    SchemaError,
    SchemaMissing,
    StoreRefused,
    StoreUnavailable,
)
from queue_core.settings import PostgresSettings
from queue_core.stores.postgres.bounded import (
    FORGOTTEN,
    HELD,
    RETRIED,
    Connection,
    Try,
    is_broken,
    limits,
    run_bounded,
    silent_ms,
)
from queue_core.stores.postgres.connecting import cut, found_pooler, prepares
from queue_core.stores.postgres.plan import Plan, carry_out
from queue_core.stores.postgres.sessions import Session, Sessions
from queue_core.stores.postgres.sql import load

T = TypeVar("T")

Rows = list[tuple[Any, ...]]
Steps = list[tuple[str, Mapping[str, Any] | None]]
Work = Callable[[Connection, Try], Awaitable[T]]

AWAY = ("08", "25006", "25P", "28", "3D", "53", "57", "58")
"""How the codes of errors begin after which the server cannot be used now: connection, standby, idle for too long,
login, no such database, resources, shut down or out of time, disk."""

PLANS_SECONDS = 1.0
"""How long plans of prepared statements are kept. One made for a nearly empty table reads it as a whole, and the server
keeps it until the next ANALYZE: after a burst of 300,000 jobs a claim took 13 s instead of 10 ms."""

LIGHT = frozenset({"sweep/lead", "sweep/leaders", "sweep/look", "notify/send", "notify/send_each", "notify/probe"})
"""Statements that have one plan whatever the tables hold. An idle fleet asks hardly anything else, and to forget plans
is a statement, too."""


class QueuesLost(StoreUnavailable):
    """The database does not know a queue under the number that this process remembers; nothing was written."""


def translate(error: BaseException) -> QueueCoreError:
    """Return the error of this package's tree that a driver's error means."""
    if isinstance(error, pg.NotNullViolation) and error.diag.column_name == "queue_id":
        return QueuesLost("postgres", "it has lost the row of a queue, or numbers it otherwise")
    if isinstance(error, pg.UndefinedTable):
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
    """Tell whether the history has no room for today yet; its own constraints have names."""
    return isinstance(error, pg.CheckViolation) and error.diag.constraint_name is None


def answered(error: BaseException) -> bool:
    """Tell whether the server did no more than refuse a statement; else it is away, ends, is full, or a standby."""
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
        self._sessions = sessions or Sessions(settings)
        self._shares = sessions is not None
        # that it had last
        self._session: Session | None = None
        self._lock = asyncio.Lock()

    async def run(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
        """Run a query file by its name and return its rows.

        Raises:
            StoreUnavailable: no connection or no answer in time; the statement may or may not have been committed.
            SchemaMissing: a table is not there.
        """
        return await self._again(lambda connection, _: self._alone(connection, query, params), light=query in LIGHT)

    async def look(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
        """Run a query file that changes nothing; again at once where its idle connection turned out to be gone."""
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
        raise AssertionError("the last attempt returns or raises")

    async def _take_turn(self, ends: float) -> None:
        try:
            async with asyncio.timeout_at(ends):
                await self._lock.acquire()
        except TimeoutError:
            raise self._no_answer() from None

    def _no_answer(self) -> StoreUnavailable:
        return StoreUnavailable("postgres", f"no answer within {self._settings.timeout:g} s")

    async def _run_in_time(self, work: Work[T], one: Try) -> T:
        session = self._session = await self._sessions.take(self._session, one.ends)
        connection = session.connection
        watch = asyncio.get_running_loop().call_at(one.ends, cut, connection, one)
        try:
            aged = time.monotonic() - session.planned_at >= PLANS_SECONDS
            if aged and not one.light and prepares(self._settings):
                await connection.execute(load("lane/forget_plans"), prepare=False)
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
        return await run_bounded(connection, limits(self._settings.timeout), load(query), params, tuple_row)

    @staticmethod
    async def _step(connection: Connection, query: str, params: Mapping[str, Any] | None) -> Rows:
        cursor = await connection.execute(load(query), params, binary=True)
        return await cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        """Disconnect, unless others share the connections; doing it twice is safe."""
        self._session = None
        if not self._shares:
            await self._sessions.close()


def _is_whole(connection: Connection, error: BaseException) -> bool:
    """Tell whether a connection can be used after an error."""
    if isinstance(error, (asyncio.CancelledError, *FORGOTTEN)) or is_broken(error):
        return False
    return connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
