"""The operations path's own few connections, so that a slow question of a console never waits in front of a worker."""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from queue_core.errors import QueueCoreError, StoreUnavailable
from queue_core.settings import PostgresSettings
from queue_core.stores.postgres.lane import ATTEMPTS, BROKEN, RETRIED, connection_options, translate
from queue_core.stores.postgres.migrate import require
from queue_core.stores.postgres.sql import load

CONNECTIONS = 4
"""A console asks two or three things at a time, an exporter as many; more would be taken from the workers."""
IDLE_SECONDS = 60.0
CLOSE_SECONDS = 1.0

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Query = bytes | sql.Composed
Row = tuple[Any, ...]

# A schema or rights that are not there. Other errors of this kind are mistakes of this package and stay visible.
_NOT_OURS = (pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedObject, pg.UndefinedFunction, pg.InsufficientPrivilege)

# The pool's warnings would be printed across the console's screen; what they tell comes out as StoreUnavailable.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class Pool:
    """Opened when it is first needed, dropped when a server fails or turns out to be read-only."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._schema = 0
        self._opening = asyncio.Lock()

    async def rows(self, query: str | Query, params: Mapping[str, Any] | None = None) -> list[Row]:
        """Run a query file by its name, or a composed query, in a transaction of its own and return its rows.

        Raises:
            StoreUnavailable: no connection or no answer in time.
            SchemaMissing, SchemaNewer: the schema does not fit.
        """
        async with self.connection() as connection:
            return await fetch(connection, query, params)

    async def records(self, query: Query, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a composed query like `rows`, and return each row by the names of its columns."""
        async with self.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query, params, prepare=False)
            return await cursor.fetchall()

    async def change(self, *steps: str, params: Mapping[str, Any]) -> list[Row]:
        """Run query files in one transaction and return the rows of the last; again when others got in its way."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self.connection() as connection, connection.transaction():
                    for step in steps[:-1]:
                        await connection.execute(load(step), params)
                    return await fetch(connection, steps[-1], params)
            except _InTheWay as error:
                if attempt == ATTEMPTS:
                    raise StoreUnavailable("postgres", "others keep changing the same jobs") from error
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Give a connection whose statements all see the store as of one moment and change nothing."""
        async with self.connection() as connection, connection.transaction():
            await connection.execute(load("inspect/snapshot"))
            yield connection

    @asynccontextmanager
    async def connection(self, any_schema: bool = False) -> AsyncIterator[Connection]:
        """Give a connection in autocommit mode; errors of the driver come out as errors of this package."""
        try:
            async with asyncio.timeout(self._settings.timeout):
                pool = await self._opened()
                if not any_schema:
                    require(self._schema)
                async with pool.connection() as connection:
                    yield connection
        except pg.QueryCanceled as error:
            raise self._late() from error
        except (*RETRIED, pg.UniqueViolation) as error:
            raise _InTheWay(str(error)) from error
        except BROKEN as error:
            await self._drop()
            raise (self._late() if isinstance(error, TimeoutError) else translate(error)) from error
        except _NOT_OURS as error:
            raise translate(error) from error

    def _late(self) -> StoreUnavailable:
        return StoreUnavailable("postgres", f"no answer within {self._settings.timeout:g} s")

    async def _opened(self) -> AsyncConnectionPool[Connection]:
        async with self._opening:
            if self._pool is None:
                options = connection_options(self._settings)
                if self._settings.prepare:
                    # Through a pooler in transaction mode neither this option nor a SET reaches the right session.
                    options["options"] = f"-c statement_timeout={int(self._settings.timeout * 900)}"
                address = options.pop("conninfo")
                # A pool reports a missing server only as time that has passed; one connection says at once why.
                async with await psycopg.AsyncConnection.connect(address, **options) as first:
                    self._schema = await _version(first)
                pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
                    address,
                    kwargs=options,
                    min_size=0,
                    max_size=min(CONNECTIONS, self._settings.pool),
                    max_idle=IDLE_SECONDS,
                    timeout=self._settings.timeout,
                    check=_check,
                    open=False,
                )
                await pool.open()
                self._pool = pool
            return self._pool

    async def schema(self) -> int:
        """Return the version of the schema, 0 when there is none."""
        async with self.connection(any_schema=True):
            return self._schema

    async def _drop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close(CLOSE_SECONDS)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._drop()


class _InTheWay(QueueCoreError):
    """A deadlock, or a row that another transaction has just written; nothing was changed."""


async def fetch(connection: Connection, query: str | Query, params: Mapping[str, Any] | None = None) -> list[Row]:
    """Run a query file by its name, or a composed query, and return its rows."""
    if isinstance(query, str):
        cursor = await connection.execute(load(query), params)
    else:
        # Each filter makes a text of its own, which would fill the session with prepared statements.
        cursor = await connection.execute(query, params, prepare=False)
    return await cursor.fetchall()


async def _version(connection: Connection) -> int:
    try:
        return int((await fetch(connection, "upkeep/version"))[0][0])
    except (pg.UndefinedTable, pg.UndefinedColumn):
        return 0


async def _check(connection: Connection) -> None:
    """Refuse a connection that the server has closed while it was idle, without a round trip."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    # First perhaps a notice, then the server's last words, then the end: reading that raises OperationalError.
    for _ in range(4):
        if not poll.poll(0):
            return
        connection.pgconn.consume_input()
