"""Statements that are prepared on a connection without the driver's cursors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.session import statements as module
from queue_core.stores.postgres.session.connection import connect, hot_options
from queue_core.stores.postgres.session.statements import PreparedStatements

pytestmark = pytest.mark.on_postgres

ECHO = b"SELECT %(a)s AS a, %(b)s::text, %(a)s::text, 100 %% 7"
NAMES = b"SELECT name FROM pg_prepared_statements WHERE statement LIKE '%%$1%%' ORDER BY name"


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    settings = PostgresSettings(url=postgres_url)
    connection = await connect(settings, hot_options(settings))
    yield connection
    await connection.close()


async def prepared(connection: psycopg.AsyncConnection) -> list[str]:
    return [name for (name,) in await (await connection.execute(NAMES, prepare=False)).fetchall()]


VALUES = (
    (1, "x"),
    (1 << 40, None),
    ("it's \\ 'quoted' %s", "%(a)s"),
    ([1, 2], "ü"),
    (UUID(int=7), ""),
    (b"\x00\xff", "y"),
    (datetime(2026, 1, 2, tzinfo=UTC), "z"),
    (None, None),
)


async def test_rows_are_those_of_a_cursor(connection: psycopg.AsyncConnection) -> None:
    """Whatever the types are, and however often it is run; the same text with other types is another statement."""
    statements = PreparedStatements(connection)
    for _ in range(3):
        for a, b in VALUES:
            cursor = await connection.execute(ECHO, {"a": a, "b": b}, binary=True)
            assert await statements.run(ECHO, {"a": a, "b": b}) == await cursor.fetchall()
    assert await statements.run(b"SELECT 1 WHERE false", None) == []
    assert await statements.run(b"SET LOCAL statement_timeout = 0", None) == []


async def test_what_comes_again_is_prepared_under_a_name_of_its_own(connection: psycopg.AsyncConnection) -> None:
    """A name that depends on the text and its types alone finds the same statement in whatever session it is."""
    statements = PreparedStatements(connection)
    await statements.run(ECHO, {"a": 1, "b": "x"})
    assert await prepared(connection) == []
    for _ in range(2):
        await statements.run(ECHO, {"a": 1, "b": "x"})
    first = await prepared(connection)
    for _ in range(2):
        await statements.run(ECHO, {"a": "1", "b": "x"})
    assert len(first) == 1
    assert len(set(await prepared(connection)) - set(first)) == 1
    await connection.execute("DEALLOCATE ALL")
    again = PreparedStatements(connection)
    for _ in range(2):
        await again.run(ECHO, {"a": 1, "b": "x"})
    assert await prepared(connection) == first


async def test_errors_are_those_of_the_driver(connection: psycopg.AsyncConnection) -> None:
    """With their class and details; the connection goes on."""
    statements = PreparedStatements(connection)
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero) as raised:
            await statements.run(b"SELECT 1 / %(a)s::int", {"a": 0})
        assert raised.value.diag.sqlstate == "22012"
    with pytest.raises(psycopg.errors.UndefinedTable):
        await statements.run(b"SELECT * FROM nothing_of_this_name", None)
    with pytest.raises(psycopg.errors.UndefinedTable):
        await statements.run(b"SELECT * FROM nothing_of_this_name", None)
    assert await statements.run(b"SELECT 1", None) == [(1,)]
    await connection.execute("DEALLOCATE ALL")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        await statements.run(b"SELECT 1 / %(a)s::int", {"a": 1})


async def test_so_many_are_prepared_and_others_run_all_the_same(
    connection: psycopg.AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server keeps memory for each of them."""
    monkeypatch.setattr(module, "MOST", 3)
    statements = PreparedStatements(connection)
    for _ in range(3):
        for number in range(5):
            assert await statements.run(b"SELECT %(a)s::int + " + str(number).encode(), {"a": 1}) == [(1 + number,)]
    assert len(await prepared(connection)) == 3
