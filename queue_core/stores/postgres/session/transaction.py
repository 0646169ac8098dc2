"""Transactions of callers, in which jobs are enqueued and completed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from queue_core.errors import QueueCoreError, StoreUnavailable, TransactionError
from queue_core.model.job import Settled
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.dialect import Rows, load
from queue_core.stores.postgres.session.bounds import IDLE_IN_TRANSACTION_MS, Connection, Try, closed_by_server, cut
from queue_core.stores.postgres.session.connection import connect, connection_options
from queue_core.stores.postgres.session.failures import BROKEN, RETRIED, translate
from queue_core.stores.postgres.session.plans import Plan, run_plan
from queue_core.stores.sql import callers


async def driver_connection(given: Any) -> psycopg.AsyncConnection[Any] | psycopg.Connection[Any]:
    """Return the psycopg connection behind what a caller handed in; see queue_core.stores.sql.callers.

    Raises:
        InvalidJob: it leads to no psycopg connection.
    """
    found: psycopg.AsyncConnection[Any] | psycopg.Connection[Any] = await callers.driver_connection(
        given,
        (psycopg.AsyncConnection, psycopg.Connection),
        "a psycopg connection, or an SQLAlchemy session or connection or a Django connection over psycopg",
    )
    return found


async def run_on(
    connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any],
    schema: str,
    query: str,
    params: Mapping[str, Any],
) -> Rows:
    """Run a query file on a caller's connection and return its rows; a blocking connection blocks for one statement.

    Not with the cursors that the connection gives: Django's bind on the client's side, and have no binary results.
    """
    if isinstance(connection, psycopg.AsyncConnection):
        async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(load(query, schema), params, binary=True)
            try:
                return _as_text(connection, await cursor.fetchall()) if _may_have_rows(cursor) else []
            except psycopg.ProgrammingError as error:
                return _nothing(error)
    with psycopg.Cursor(connection, row_factory=tuple_row) as blocking:
        blocking.execute(load(query, schema), params, binary=True)
        try:
            return _as_text(connection, blocking.fetchall()) if _may_have_rows(blocking) else []
        except psycopg.ProgrammingError as error:
            return _nothing(error)


def _as_text(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any], rows: Rows) -> Rows:
    """Return rows with texts where the caller's encoding is SQL_ASCII, with which the driver gives bytes."""
    if connection.info.parameter_status("client_encoding") != "SQL_ASCII":
        return rows
    return [tuple(value.decode() if isinstance(value, bytes) else value for value in row) for row in rows]


@asynccontextmanager
async def in_one(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> AsyncIterator[None]:
    """Run the statements of the block in a caller's transaction; in autocommit, in one that ends with the block."""
    if not connection.autocommit or connection.info.transaction_status != _IDLE:
        yield
    elif isinstance(connection, psycopg.AsyncConnection):
        async with connection.transaction():
            yield
    else:
        with connection.transaction():
            yield


@asynccontextmanager
async def patient(
    connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any], schema: str, seconds: float
) -> AsyncIterator[None]:
    """Bound each wait for others' locks in the block, unless the caller's own bound is shorter; then put that back.

    Where a statement fails, the end of the transaction, or of the savepoint around it, puts it back.

    Raises:
        StoreUnavailable: a lock was not to be had in time; the transaction has failed.
    """
    run = partial(run_on, connection, schema)
    ((_, given),) = await run("transaction/patience", {"limit": max(1, round(seconds * 1000))})
    try:
        yield
    except pg.LockNotAvailable as error:
        raise translate(error) from error
    except (psycopg.Error, GeneratorExit):
        raise
    except BaseException:
        if connection.info.transaction_status in (_OPEN, psycopg.pq.TransactionStatus.ACTIVE):
            with suppress(psycopg.Error):
                await run("transaction/patience_given", {"given": given})
        raise
    await run("transaction/patience_given", {"given": given})


def _may_have_rows(cursor: psycopg.AsyncCursor[Any] | psycopg.Cursor[Any]) -> bool:
    """Return whether a statement may have rows; in the driver's pipeline mode only fetching them shows it."""
    pipelined = cursor.connection.pgconn.pipeline_status != psycopg.pq.PipelineStatus.OFF
    return pipelined or cursor.description is not None


def _nothing(error: psycopg.ProgrammingError) -> Rows:
    """Return the rows of a statement that has none, of which the driver makes an error."""
    if error.sqlstate is not None:
        raise error
    return []


KEEPALIVES = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
"""The server's look after a worker's machine: one that died would leave its handlers' locks behind for two hours."""

_IDLE = psycopg.pq.TransactionStatus.IDLE
_OPEN = psycopg.pq.TransactionStatus.INTRANS
_FAILED = psycopg.pq.TransactionStatus.INERROR


class Transactions:
    """A bounded pool. Who finds it empty waits: how long a handler keeps its connection is the handler's affair."""

    def __init__(self, settings: PostgresSettings, make_days: Callable[[], Awaitable[None]]) -> None:
        """`make_days`: makes the days that the history lacks, in a transaction of its own."""
        self._settings = settings
        self._make_days = make_days
        self._slots = asyncio.Semaphore(settings.pool)
        self._idle: list[Connection] = []
        # how often `close` was called: a connection that was in use then is not kept
        self._closes = 0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Connection]:
        """Give a connection in a transaction, which the normal end of the block commits and an exception rolls back.

        Raises:
            StoreUnavailable: no connection; or, at the end of the block, no answer to whether it was committed.
        """
        async with self._slots:
            connection, closes = await self._take(), self._closes
            try:
                async with self._in_time(connection):
                    # Within this object of the driver's, a handler's own commit() or rollback() is an error.
                    transaction = connection.transaction()
                    await transaction.__aenter__()
                try:
                    yield connection
                except BaseException as error:
                    async with self._in_time(connection):
                        await transaction.__aexit__(type(error), error, error.__traceback__)
                    raise
                async with self._in_time(connection):
                    if connection.closed:  # which the driver does not report here
                        raise psycopg.OperationalError("the connection is lost")
                    await transaction.__aexit__(None, None, None)
                await self._clean(connection)
            except BaseException:
                await connection.close()
                raise
            if closes == self._closes and not connection.closed:
                self._idle.append(connection)
            else:
                await connection.close()

    async def settle(self, connection: Connection, plan: Plan[Settled], awaited: bool) -> Settled:
        """Complete an attempt in such a transaction; the answer holds once that has been committed.

        `awaited`: others wait for what it locks, as for an ordering key, and may not wait for long.

        Raises:
            TransactionError: the handler has ended or broken its transaction, or it is no place for this plan.
            StoreUnavailable: the connection is lost, and nothing was written.
        """
        status = connection.info.transaction_status
        if status == _FAILED:
            raise TransactionError(
                "a statement in the handler's transaction failed, and the handler went on: it cannot be committed"
            )
        if status != _OPEN and not connection.closed:
            raise TransactionError("the handler has ended its transaction itself; that is for its return to do")
        async with self._in_time(connection):
            limit = round(self._settings.timeout * 1000)
            params = {"silent": min(IDLE_IN_TRANSACTION_MS, limit) if awaited else limit, "limit": limit}
            run = partial(run_on, connection, self._settings.schema)
            ((*_, has_today),) = await run("transaction/ending", params)
            if not has_today:  # after a failure, all that the handler did would be rolled back
                with suppress(QueueCoreError):
                    await self._make_days()
            return await run_plan(plan, run)

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not closed_by_server(connection):
                return connection
            await connection.close()
        # A handler's statements run with the server's own settings: none of the options of the hot path, but for the
        # isolation. Above this one the end of a job conflicts with each heartbeat that has renewed its lease.
        options = connection_options(self._settings, KEEPALIVES, expected="") | {"prepare_threshold": None}
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await connect(self._settings, options, psycopg.IsolationLevel.READ_COMMITTED, ours=False)
        except BROKEN as error:
            raise translate(error) from error

    async def _clean(self, connection: Connection) -> None:
        """Leave nothing of one handler's session to the next one."""
        connection.row_factory = tuple_row
        # What was to be committed is: a connection that is lost now is simply not used again.
        with suppress(StoreUnavailable, psycopg.Error):
            async with self._in_time(connection):
                await connection.execute(load("transaction/discard"))
            # A pooler's session then has the encoding of its role, and not the one that was asked for.
            if connection.info.encoding != "utf-8":
                await connection.close()

    @asynccontextmanager
    async def _in_time(self, connection: Connection) -> AsyncIterator[None]:
        """Bound what is done in the block; a server that does not answer comes out as this package's error."""
        one = Try(asyncio.get_running_loop().time() + self._settings.timeout, self._settings.timeout)
        watch = asyncio.get_running_loop().call_at(one.ends, cut, connection, one)
        try:
            yield
        except (*RETRIED, pg.QueryCanceled):
            raise  # not the connection's end, but a conflict of two transactions
        except BROKEN as error:
            raise translate(error) from error
        except psycopg.InternalError as error:
            if error.sqlstate is not None:
                raise
            # The driver's error for the message of a pooler that has lost the server.
            raise StoreUnavailable("postgres", str(error)) from error
        finally:
            watch.cancel()

    async def close(self) -> None:
        """Disconnect what is idle now, and what is in use as soon as it is not; doing it twice is safe."""
        self._closes += 1
        while self._idle:
            await self._idle.pop().close()
