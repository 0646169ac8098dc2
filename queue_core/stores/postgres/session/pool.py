"""The operations path's own few connections, so that a slow question of a console never waits in front of a worker.

psycopg_pool is not used: it detects a lost server only by a timeout, takes a second for each idle
connection that a restart has closed, and a query that a frozen server does not answer holds up its caller ten seconds
longer than its time limit (all measured with psycopg_pool 3.3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import errors as pg
from psycopg.rows import AsyncRowFactory, dict_row, tuple_row

from queue_core.errors import QueueCoreError, StoreRefused, StoreUnavailable
from queue_core.model.settings import PostgresSettings
from queue_core.ports.locks import LockHeld
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.migrate import EARLIER, OTHERS, VERSION, missing, require
from queue_core.stores.postgres.session.bounds import (
    LOCK_TIMEOUT_MS,
    TRANSACTION_ATTEMPTS,
    Connection,
    Try,
    closed_by_server,
    cut,
    limits,
    patient_ms,
    run_bounded,
)
from queue_core.stores.postgres.session.connection import (
    WRITABLE,
    any_server,
    close_all,
    connect,
    connection_options,
    found_pooler,
    prepares,
    wanted_server,
)
from queue_core.stores.postgres.session.failures import (
    BROKEN,
    FORGOTTEN,
    RETRIED,
    found_reader,
    is_full,
    lacks_a_day,
    refused,
    translate,
)
from queue_core.stores.postgres.session.plans import Plan, make_days, run_plan

T = TypeVar("T")
R = TypeVar("R")


MAX_CONNECTIONS = 4
"""A console asks two or three things at a time, an exporter as many; more would be taken from the workers."""
IDLE_SECONDS = 30.0
"""Seconds without use after which a connection is closed: consoles and exporters ask more often, workers ask at their
start, for schedules, and while an operation runs."""

PLANNED = "-c plan_cache_mode=force_custom_plan"
"""Each statement is planned for the tables as they are. A session of a console lasts for days: plans that it kept from
when tables had one page read them as a whole; writing 5,000 ids down beside 200,000 dead jobs took 54 s, not 0.2."""

Row = tuple[Any, ...]

# A schema or rights that are not there.
_NOT_OURS = (pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedObject, pg.UndefinedFunction, pg.InsufficientPrivilege)


# The driver's warnings would be printed across the console's screen; their content is raised as StoreUnavailable.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class ConnectionPool:
    """Connections made when they are needed, and dropped when a server fails or turns out to be read-only."""

    def __init__(self, settings: PostgresSettings) -> None:
        self.settings = self._settings = settings
        self._slots = asyncio.Semaphore(min(MAX_CONNECTIONS, settings.pool))
        # and when each was used last (of the loop's clock), the longest ago first
        self._idle: list[tuple[Connection, float]] = []
        # read-only by the role's choice
        self._by_choice: WeakSet[Connection] = WeakSet()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        # Raised by a drop: connections of an earlier generation are not used again.
        self._generation = 0
        self._schema = 0

    async def rows(self, query: str | bytes, params: Mapping[str, Any] | None = None) -> list[Row]:
        """Run a query file by its name, or a composed query, in a transaction of its own and return its rows.

        Raises:
            StoreUnavailable: no connection or no answer in time.
            SchemaMissing, SchemaNewer: the schema does not fit.
        """
        async with self.connection() as connection:
            if prepares(self._settings):
                return await self.fetch(connection, query, params)
            return await self._bounded(connection, self._text(query), params, tuple_row)

    async def records(self, query: bytes, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a composed query like `rows`, and return each row by the names of its columns."""
        async with self.connection() as connection:
            if not prepares(self._settings):
                return await self._bounded(connection, query, params, dict_row)
            async with connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(query, params, prepare=False)
                return await cursor.fetchall()

    async def fetch(
        self, connection: Connection, query: str | bytes, params: Mapping[str, Any] | None = None
    ) -> list[Row]:
        """Run a query file by its name, or a composed query, on a connection of this pool and return its rows."""
        # Each filter makes a text of its own, which would fill the session with prepared statements.
        prepare = None if isinstance(query, str) else False
        cursor = await connection.execute(self._text(query), params, prepare=prepare)
        return await cursor.fetchall()

    def _text(self, query: str | bytes) -> bytes:
        return load(query, self.settings.schema) if isinstance(query, str) else query

    async def _version(self, connection: Connection) -> int:
        try:
            return int((await self.fetch(connection, VERSION))[0][0])
        except (pg.UndefinedTable, pg.UndefinedColumn):
            return 0

    async def _bounded(
        self, connection: Connection, query: bytes, params: Mapping[str, Any] | None, rows: AsyncRowFactory[R]
    ) -> list[R]:
        return await run_bounded(connection, limits(self._settings.timeout * 0.9, patient=True), query, params, rows)

    async def change(self, *steps: str, params: Mapping[str, Any]) -> list[Row]:
        """Run query files in one transaction and return the rows of the last; again when others got in its way."""

        async def run(connection: Connection) -> list[Row]:
            for step in steps[:-1]:
                await connection.execute(load(step, self.settings.schema), params)
            return await self.fetch(connection, steps[-1], params)

        return await self.transact(run)

    async def run_plan(self, begin: Callable[[], Plan[T]]) -> T:
        """Carry out a plan in one transaction; it restarts after conflicts with other transactions."""

        async def work(connection: Connection) -> T:
            async def run(query: str, params: Mapping[str, Any]) -> list[Row]:
                cursor = await connection.execute(load(query, self.settings.schema), params)
                return await cursor.fetchall() if cursor.description else []

            return await run_plan(begin(), run)

        return await self.transact(work)

    async def transact(self, work: Callable[[Connection], Awaitable[T]], patience: float | None = None) -> T:
        """Do work in one transaction; again where it is certain that nothing was done, for locks as long as it may.

        `patience`: after so many seconds of waiting for a lock it fails.
        """
        ends, patience_ms = self._ends(), LOCK_TIMEOUT_MS if patience is None else round(patience * 1000)
        for attempt in count(1):
            one = Try(ends, self._settings.timeout)
            try:
                async with (
                    self._connected(one) as connection,
                    one.transaction(connection, self._settings.timeout * 0.9, patience=patience_ms),
                ):
                    return await work(connection)
            except _InTheWay as error:
                if attempt >= TRANSACTION_ATTEMPTS:
                    raise StoreRefused("postgres", "others keep changing the same rows", passing=True) from error
            except StoreUnavailable as error:
                if lacks_a_day(error.__cause__) and attempt == 1:
                    with suppress(QueueCoreError):  # what it failed with is what is raised then
                        await self.run_plan(make_days)
                elif (
                    error.__cause__ is None
                    or (patience is not None and isinstance(error, LockHeld))
                    or not one.again(error.__cause__, attempt)
                ):
                    raise
            ends = one.next_ends()
        raise AssertionError("the last attempt returns or raises")

    def _ends(self) -> float:
        return asyncio.get_running_loop().time() + self._settings.timeout

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Give a connection whose statements all see the store as of one moment and change nothing.

        Only a migration and the vacuum wait for readers: the server waits as long as this process.
        """
        one, seconds = Try(self._ends(), self._settings.timeout), self._settings.timeout
        async with (
            self._connected(one) as connection,
            one.transaction(connection, seconds * 0.9, round(seconds * 1000), "pool/snapshot"),
        ):
            yield connection

    async def schema(self) -> int:
        """Return the version of the schema, 0 when there is none."""
        async with self.connection(any_schema=True) as connection:
            return await self._version(connection)

    @asynccontextmanager
    async def connection(self, any_schema: bool = False) -> AsyncIterator[Connection]:
        """Give a connection in autocommit mode for as long as the time limit; errors come out as this package's."""
        async with self._connected(Try(self._ends(), self._settings.timeout), any_schema) as connection:
            yield connection

    @asynccontextmanager
    async def _connected(self, one: Try, any_schema: bool = False) -> AsyncIterator[Connection]:
        generation = self._generation
        try:
            async with self._lent(one) as connection:
                if not any_schema:
                    await self._check_schema(connection)
                yield connection
        except (*RETRIED, pg.UniqueViolation) as error:
            raise _InTheWay(str(error)) from error
        except pg.LockNotAvailable as error:
            raise LockHeld("postgres") from error
        except FORGOTTEN as error:
            found_pooler(self._settings, str(error))
            await self._drop(generation)
            raise _InTheWay(str(error)) from error
        except pg.QueryCanceled as error:
            raise self._no_answer() from error
        except BROKEN as error:
            raise await self._broken(error, one, generation) from error
        except _NOT_OURS as error:
            raise translate(error) from error
        except psycopg.DatabaseError as error:
            if error.sqlstate is None:
                raise  # the driver's: a mistake of this package
            raise refused(error) from error

    async def _broken(self, error: Exception, one: Try, generation: int) -> QueueCoreError:
        """Return what is raised for an error after which connections are left, unless the server lacks room alone."""
        if is_full(error):
            return refused(error)
        await self._drop(generation)
        return self._no_answer() if one.late or isinstance(error, TimeoutError) else translate(error)

    def _no_answer(self) -> StoreUnavailable:
        return StoreUnavailable("postgres", f"no answer within {self._settings.timeout:g} s")

    @asynccontextmanager
    async def _lent(self, one: Try) -> AsyncIterator[Connection]:
        """Take a connection, cut it off when the time is over, and put it back when it is still good."""
        async with asyncio.timeout_at(one.ends):
            await self._slots.acquire()
        generation = self._generation
        try:
            async with asyncio.timeout_at(one.ends):
                connection = await self._take()
            watch = asyncio.get_running_loop().call_at(one.ends, cut, connection, one)
            try:
                await self._learn(connection)
                yield connection
            finally:
                watch.cancel()
                await self._put_back(connection, generation)
        finally:
            self._slots.release()

    async def _take(self) -> Connection:
        while self._idle:
            connection, _ = self._idle.pop()
            if not closed_by_server(connection):
                return connection
            await connection.close()
        # Through a pooler in transaction mode neither these options nor a SET reach the right session: see `limits`.
        limit = max(1, int(self._settings.timeout * 900))
        bounds = {"statement_timeout": limit, "lock_timeout": patient_ms(limit), "tcp_user_timeout": limit}
        ours = PLANNED + "".join(f" -c {name}={value}" for name, value in bounds.items())
        level = psycopg.IsolationLevel.READ_COMMITTED
        options = connection_options(self._settings, ours)
        try:
            return await connect(self._settings, options, level)
        except psycopg.OperationalError as error:
            instead = any_server(self._settings, options) if self._schema and found_reader(error) else None
            if instead is None:
                raise
        # It could be written when this pool began, and what it has can be read still.
        return await connect(self._settings, instead, level)

    async def _put_back(self, connection: Connection, generation: int) -> None:
        idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if idle and generation == self._generation and not self._of_reader(connection):
            loop = asyncio.get_running_loop()
            self._idle.append((connection, loop.time()))
            if self._timer is None:
                self._timer = loop.call_later(IDLE_SECONDS, self._thin_out)
        else:
            await connection.close()

    async def _learn(self, connection: Connection) -> None:
        """Note that a connection is read-only by its role's choice, as the next would be: of what writes nothing."""
        if self._settings.reads_alone and connection not in self._by_choice and self._of_reader(connection):
            ((_, standby, chosen),) = await self.fetch(connection, "pool/reads_alone")
            if chosen and not standby:
                self._by_choice.add(connection)

    def _of_reader(self, connection: Connection) -> bool:
        """Return whether a connection can only read, and not only that was wanted: the next may be to a new primary."""
        if wanted_server(self._settings) != WRITABLE or connection in self._by_choice:
            return False
        return "on" in map(connection.info.parameter_status, ("default_transaction_read_only", "in_hot_standby"))

    def _thin_out(self) -> None:
        """Close what has not been used lately."""
        loop = asyncio.get_running_loop()
        self._timer = None
        unused = [connection for connection, since in self._idle if since <= loop.time() - IDLE_SECONDS]
        del self._idle[: len(unused)]
        self._closing = loop.create_task(close_all(unused))
        if self._idle:
            self._timer = loop.call_at(self._idle[0][1] + IDLE_SECONDS, self._thin_out)

    async def _check_schema(self, connection: Connection) -> None:
        try:
            require(self._schema)
        except QueueCoreError:
            # Not read yet; or it did not fit, and may have been migrated since.
            self._schema = await self._version(connection)
            if not self._schema:
                found = [await self.fetch(connection, query) for query in (EARLIER, OTHERS)]
                raise missing(self._settings.schema, *found) from None
            require(self._schema)

    async def _drop(self, generation: int) -> None:
        """Leave all connections that are as old as the one that failed."""
        if generation == self._generation:
            self._generation += 1
            while self._idle:
                await self._idle.pop()[0].close()

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closing is not None:
            await self._closing
        await self._drop(self._generation)


async def check_writes(pool: ConnectionPool) -> None:
    """Make sure that the server takes writes, and its disk 64 KiB more, which do not stay; rights are not looked at.

    A connection is made to a server that can be written, which may change while it is kept. Who asked for one that can
    only be read gets no error; nor does a program that writes nothing, where its role alone is read-only: of the server
    nothing is known by that.

    Raises:
        StoreUnavailable: no connection or no answer in time; as `StoreReadOnly`, transactions have become read-only; as
            `NoRoom`, the disk is full.
    """
    async with pool.snapshot() as connection:
        ((reads, standby, chosen),) = await pool.fetch(connection, "pool/reads_alone")
        if wanted_server(pool.settings) == WRITABLE:
            if standby:
                raise pg.ReadOnlySqlTransaction("the server is a standby, and so read-only")
            if reads and not (chosen and pool.settings.reads_alone):
                raise pg.ReadOnlySqlTransaction("sessions are read-only (default_transaction_read_only is on)")
        with suppress(pg.ConfigurationLimitExceeded):  # of such files, which is not the disk's
            await connection.execute(load("pool/room"), prepare=False)


class _InTheWay(StoreRefused):
    """A deadlock, or a row that another transaction has just written; nothing was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__("postgres", reason, passing=True)
