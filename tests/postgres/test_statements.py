"""Statements that are prepared on a connection without the driver's cursors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.session import statements as module
from queue_core.stores.postgres.session.answers import WatchedConnection
from queue_core.stores.postgres.session.bounds import closed_by_server
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
    monkeypatch.setattr(module, "MAX_PREPARED", 3)
    statements = PreparedStatements(connection)
    for _ in range(3):
        for number in range(5):
            assert await statements.run(b"SELECT %(a)s::int + " + str(number).encode(), {"a": 1}) == [(1 + number,)]
    assert len(await prepared(connection)) == 3


async def test_the_socket_is_watched_from_one_statement_to_the_next(
    connection: psycopg.AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To have it watched anew takes a tenth of the time of a lone enqueue, and the driver may still wait itself."""
    loop, watched = asyncio.get_running_loop(), []
    add = loop.add_reader
    monkeypatch.setattr(loop, "add_reader", lambda fd, *args: (watched.append(fd), add(fd, *args)))
    statements = PreparedStatements(connection)
    for _ in range(5):
        assert await statements.run(b"SELECT 1", None) == [(1,)]
    assert watched == [connection.answers._descriptor]
    await connection.execute("SELECT 2")
    assert await statements.run(b"SELECT 1", None) == [(1,)]
    assert len(watched) == 3


async def cancel_while_it_runs(connection: psycopg.AsyncConnection, work: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.create_task(work)
    while connection.info.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:  # noqa: ASYNC110 - no signal says so
        await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(100):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_who_is_cancelled_leaves_no_statement_behind(connection: psycopg.AsyncConnection) -> None:
    """The server is asked to cancel it, and the connection is whole."""
    statements = PreparedStatements(connection)
    assert await statements.run(b"SELECT 1", None) == [(1,)]
    await cancel_while_it_runs(connection, statements.run(b"SELECT pg_sleep(300)", None))
    assert await statements.run(b"SELECT 2", None) == [(2,)]


async def test_a_session_that_ends_is_an_error_and_does_not_keep_the_loop_busy(
    connection: WatchedConnection, postgres_url: str
) -> None:
    """While a statement runs, and between two."""
    statements = PreparedStatements(connection)
    ((backend,),) = await statements.run(b"SELECT pg_backend_pid()", None)
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s, 100000)", (backend,))
    while not closed_by_server(connection):  # noqa: ASYNC110 - the server is asked
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert connection.answers._loop is None
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError):
            await statements.run(b"SELECT 1", None)


TOGETHER = (
    (1, "x"),
    (-(1 << 40), None),
    (1.5e300, "it's \\ 'quoted' %s; $1"),
    (float("-inf"), "ü\n\t\u2028"),
    (True, ""),
    (None, None),
)


async def test_statements_that_are_sent_together_have_their_rows_each(connection: WatchedConnection) -> None:
    """The same as alone, with rows or without, the first time and later."""
    statements = PreparedStatements(connection)
    await statements.run(b"CREATE TEMP TABLE kept (n serial, b text, several text[], yes bool, at float8)", None)
    insert = b"INSERT INTO kept (b, several, yes, at) VALUES (%(b)s::text, ARRAY[%(b)s], %(yes)s::bool, %(at)s::float8)"
    read = b"SELECT b, several, yes, at, n, NULL FROM kept ORDER BY n"
    for a, b in TOGETHER * 2:
        given = {"a": a, "b": b}
        at = a if isinstance(a, float) else None
        steps: list[tuple[bytes, dict[str, object] | None]] = [
            (insert, {"b": b, "yes": a is True, "at": at}),
            (ECHO, given),
            (read, None),
            (ECHO, given),
        ]
        nothing, echo, kept, again = await statements.run_together(steps)
        assert nothing == []
        assert echo == again == await statements.run(ECHO, given)
        assert kept == await statements.run(read, None)
        assert kept[-1][:4] == (b, [b], a is True, at)


async def test_what_no_text_may_hold_is_refused_before_anything_is_sent(connection: WatchedConnection) -> None:
    statements = PreparedStatements(connection)
    with pytest.raises(psycopg.DataError):
        await statements.run_together([(b"SELECT 1", None), (ECHO, {"a": 1, "b": "a\0b"})])
    assert await statements.run(b"SELECT 1", None) == [(1,)]


async def test_much_is_sent_together(connection: WatchedConnection) -> None:
    statements, text = PreparedStatements(connection), "x" * (4 << 20)
    async with asyncio.timeout(100):
        answers = await statements.run_together([(b"SELECT %(text)s::text", {"text": text})] * 5)
    assert answers == [[(text,)]] * 5


async def test_after_the_first_error_of_statements_sent_together_none_runs(connection: WatchedConnection) -> None:
    """The error is that one's, and the connection goes on."""
    statements = PreparedStatements(connection)
    await statements.run(b"CREATE TEMP TABLE kept (n int)", None)
    failing: list[tuple[bytes, dict[str, int] | None]] = [
        (b"BEGIN", None),
        (b"INSERT INTO kept VALUES (1)", None),
        (b"SELECT 1 / %(a)s::int", {"a": 0}),
        (b"COMMIT", None),
    ]
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await statements.run_together(failing)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        await statements.run(b"ROLLBACK", None)
    assert await statements.run(b"SELECT * FROM kept", None) == []


async def test_who_is_cancelled_leaves_none_of_several_behind(connection: WatchedConnection) -> None:
    statements = PreparedStatements(connection)
    sleeping = [(b"SELECT 1", None), (b"SELECT pg_sleep(300)", None), (b"SELECT 3", None)]
    await cancel_while_it_runs(connection, statements.run_together(sleeping))
    assert await statements.run(b"SELECT 2", None) == [(2,)]


async def test_an_answer_is_found_although_the_event_loop_calls_nobody(connection: WatchedConnection) -> None:
    """uvloop ends a watch at an error of the socket: a server that was killed with a statement unread."""
    statements = PreparedStatements(connection)
    await statements.run(b"SELECT 1", None)
    asking = asyncio.create_task(statements.run(b"SELECT 2 FROM pg_sleep(0.1)", None))
    await asyncio.sleep(0)
    asyncio.get_running_loop().remove_reader(connection.answers._descriptor)
    async with asyncio.timeout(60):
        assert await asking == [(2,)]


async def test_the_watch_of_a_connection_ends_with_it_alone(connection: WatchedConnection, postgres_url: str) -> None:
    """The driver closes the socket of a lost connection, and the next connection gets its number."""
    settings = PostgresSettings(url=postgres_url)
    await PreparedStatements(connection).run(b"SELECT 1", None)
    connection.pgconn.finish()
    other = await connect(settings, hot_options(settings))
    statements = PreparedStatements(other)
    await statements.run(b"SELECT 1", None)
    await connection.close()
    async with asyncio.timeout(60):
        assert await statements.run(b"SELECT 2 FROM pg_sleep(0.1)", None) == [(2,)]
    await other.close()
