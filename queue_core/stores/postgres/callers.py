"""Callers' own connections: jobs that are written in somebody else's transaction commit or roll back with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from queue_core.errors import InvalidJob
from queue_core.stores.postgres.sql import load

Rows = list[tuple[Any, ...]]


async def driver_connection(given: Any) -> psycopg.AsyncConnection[Any] | psycopg.Connection[Any]:
    """Return the psycopg connection behind what a caller handed in: itself, or an SQLAlchemy session or connection.

    Raises:
        InvalidJob: it leads to no psycopg connection.
    """
    found = given
    if _of_sqlalchemy(given):
        found = await _behind_sqlalchemy(given)
    if isinstance(found, psycopg.AsyncConnection | psycopg.Connection):
        return found
    raise InvalidJob(
        "connection= takes a psycopg connection, or an SQLAlchemy session or connection over psycopg, "
        f"not {type(given).__module__}.{type(given).__qualname__}"
    )


def _of_sqlalchemy(given: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "sqlalchemy" for base in type(given).__mro__)


async def _behind_sqlalchemy(given: Any) -> Any:
    """Follow a session to its connection and that to the driver's; SQLAlchemy begins its transaction on the way."""
    connection = given
    if hasattr(given, "flush"):  # a session, async or not
        connection = given.connection()
        if hasattr(connection, "__await__"):
            connection = await connection
    if hasattr(connection, "get_raw_connection"):
        return (await connection.get_raw_connection()).driver_connection
    return connection.connection.driver_connection


async def run_on(
    connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any], query: str, params: Mapping[str, Any]
) -> Rows:
    """Run a query file on a caller's connection and return its rows; a blocking connection blocks for one statement."""
    if isinstance(connection, psycopg.AsyncConnection):
        async with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            await cursor.execute(load(query), params)
            return await cursor.fetchall() if cursor.description else []
    with connection.cursor(binary=True, row_factory=tuple_row) as blocking:
        blocking.execute(load(query), params)
        return blocking.fetchall() if blocking.description else []
