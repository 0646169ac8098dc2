"""Serial runners: each runs one call at a time, a statement or a plan of several in one transaction."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from queue_core.errors import StoreUnavailable
from queue_core.model.settings import PostgresSettings
from queue_core.ports.locks import LockHeld
from queue_core.stores.postgres.dialect import Rows, load
from queue_core.stores.postgres.session.bounds import (
    IDLE_IN_TRANSACTION_MS,
    LOCK_TIMEOUT_MS,
    Connection,
    Try,
    cut,
    limits,
    run_bounded,
    silent_ms,
)
from queue_core.stores.postgres.session.connection import found_pooler, prepares
from queue_core.stores.postgres.session.failures import FORGOTTEN, is_broken, lacks_a_day, translate
from queue_core.stores.postgres.session.plans import Ahead, Messages, Plan, Step, make_days, run_plan, run_steps
from queue_core.stores.postgres.session.sessions import Session, Sessions

T = TypeVar("T")

logger = logging.getLogger("queue_core.worker")


Steps = list[tuple[str, Mapping[str, Any] | None]]
Work = Callable[[Session, Try], Awaitable[T]]

PLANS_SECONDS = 1.0
"""How long plans of prepared statements are kept. One made for a nearly empty table reads it as a whole, and the server
keeps it until the next ANALYZE: after a burst of 300,000 jobs a claim took 13 s instead of 10 ms."""


class SerialRunner:
    """Runs one statement at a time, each its own transaction, within a time limit.

    Runners with the same `sessions` share connections; without, a runner has its own.
    """

    def __init__(self, settings: PostgresSettings, sessions: Sessions | None = None) -> None:
        self._settings = settings
        self.schema = settings.schema
        # seconds
        self.timeout = settings.timeout
        self._sessions = sessions or Sessions(settings)
        self._shares = sessions is not None
        # that it had last
        self._session: Session | None = None
        self._lock = asyncio.Lock()
        # callers that have the lock or wait for it
        self._callers = 0

    async def run(self, query: str, params: Mapping[str, Any] | None = None, *, light: bool = False) -> Rows:
        """Run a statement by its name and return its rows.

        `light`: it has one plan whatever the tables hold. An idle fleet asks hardly anything else, and to forget plans
        is a statement, too.

        Raises:
            StoreUnavailable: no connection or no answer in time; the statement may or may not have been committed.
            SchemaMissing: a table is not there.
        """
        return await self._again(lambda session, _: self._alone(session, query, params), light=light)

    async def read(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
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

        def plan() -> Plan[list[Rows]]:
            answers: list[Rows] = []
            for query, params in steps:
                answers.append((yield Ahead(query, params or {})))
            return answers

        return await self.run_plan(plan)

    async def run_plan(
        self,
        begin: Callable[[], Plan[T]],
        times: int = 1,
        patient: bool = True,
        weight: int = 0,
        patience: float | None = None,
    ) -> T:
        """Run a plan in one transaction, within so many time limits; again if other transactions conflict with it.

        `weight`: about how many bytes it sends; `patience`: for how many seconds it waits for a lock.

        Raises:
            StoreUnavailable: no connection or no answer in time; the plan may or may not have been committed.
            LockHeld: nothing was written; the first time when it is not `patient`.
        """

        seconds, silent = self._settings.timeout * times, silent_ms(weight)
        patience_ms = LOCK_TIMEOUT_MS if patience is None else max(1, round(patience * 1000))
        return await self._again(self._planned(begin, seconds, silent, patience_ms), times, patient)

    async def run_steps(self, begin: Callable[[], Iterator[Step]], times: int = 1) -> list[Rows]:
        """Run statements in one transaction, each of which is made while the server runs the one before.

        Those that `begin` yields are run again if other transactions conflict with them; see `run_plan`.

        Raises:
            StoreUnavailable: no connection or no answer in time; they may or may not have been committed.
        """
        seconds = self._settings.timeout * times

        async def work(session: Session, one: Try) -> list[Rows]:
            if prepares(self._settings):
                return await run_steps(session, one, self.schema, begin(), seconds)
            async with one.transaction(session.connection, seconds):
                return [await self._step(session, *step) for step in begin()]

        return await self._again(work, times)

    def _planned(
        self,
        begin: Callable[[], Plan[T]],
        seconds: float,
        silent: int = IDLE_IN_TRANSACTION_MS,
        patience_ms: int = LOCK_TIMEOUT_MS,
    ) -> Work[T]:
        async def work(session: Session, one: Try) -> T:
            if prepares(self._settings):
                return await Messages(session, one, self.schema, seconds, silent, patience_ms).run(begin())
            async with one.transaction(session.connection, seconds, silent, patience=patience_ms):
                return await run_plan(begin(), partial(self._step, session))

        return work

    async def _again(self, work: Work[T], times: int = 1, patient: bool = True, light: bool = False) -> T:
        # The time limit is the caller's: waiting for earlier calls counts, and so do all attempts.
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
                        raise LockHeld("postgres") from error
                    if isinstance(error, FORGOTTEN):
                        found_pooler(self._settings, str(error))
                    if lacks_a_day(error) and attempt == 1:
                        await self._make_days(ends)
                        continue
                    if not one.again(error, attempt):
                        late = is_broken(error) and one.late
                        raise (self._no_answer() if late else translate(error)) from error
                    ends = one.next_ends()
        finally:
            self._lock.release()
            self._callers -= 1
        raise AssertionError("the last attempt returns or raises")

    async def _make_days(self, ends: float) -> None:
        """Make the days that the history lacks, for what failed without them and is about to be tried again.

        They are made a week ahead, so they are missing only where no worker ran for longer, or in a restored database.
        """
        seconds = self._settings.timeout
        try:
            await self._run_in_time(self._planned(make_days, seconds), Try(ends, seconds))
            logger.warning("the history had no place for what ends today, and has one now")
        except (psycopg.Error, OSError, TimeoutError) as error:
            logger.warning("the history has no place for what ends today, and none could be made: %s", error)

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
                await connection.execute(load("runner/forget_plans"), prepare=False)
                session.planned_at = time.monotonic()
            done = await work(session, one)
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

    def _alone(self, session: Session, query: str, params: Mapping[str, Any] | None) -> Awaitable[Rows]:
        if prepares(self._settings):
            return self._step(session, query, params)
        text, bounded = load(query, self.schema), limits(self._settings.timeout)
        return run_bounded(session.connection, bounded, text, params, tuple_row)

    async def _step(self, session: Session, query: str, params: Mapping[str, Any] | None) -> Rows:
        if prepares(self._settings):
            return await session.statements.run(load(query, self.schema), params)
        cursor = await session.connection.execute(load(query, self.schema), params, binary=True)
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
