"""Stores with nothing in them: emptying a database takes a fiftieth of the time of making another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from queue_core.model.settings import SqliteSettings
from queue_core.stores.sqlite.migrate import migrate
from tests.servers import SessionServers, fresh_database

EMPTY = Path(__file__).with_name("empty.sql")

_connections: dict[str, psycopg.Connection] = {}
"""Kept open: a server process that knows the tables already needs a tenth of the time."""


def empty(url: str) -> None:
    """Leave nothing in the store of a database."""
    try:
        _run(url)
    except psycopg.OperationalError:
        # A test has cut all connections to its database.
        forget(url)
        _run(url)


def _run(url: str) -> None:
    if url not in _connections:
        _connections[url] = psycopg.connect(url, autocommit=True)
    _connections[url].execute(EMPTY.read_bytes())


def forget(url: str) -> None:
    """Close the connection that was kept for a database."""
    if url in _connections:
        _connections.pop(url).close()


@contextmanager
def shared_by_tests(servers: SessionServers, template: str) -> Iterator[str]:
    """Make a copy of a database for several tests, and answer its address."""
    with fresh_database(servers.postgres_url, template) as url:
        try:
            yield url
        finally:
            forget(url)


@contextmanager
def emptied(url: str) -> Iterator[str]:
    """Give the address of a database, and leave its store empty."""
    try:
        yield url
    finally:
        empty(url)


@cache
def _new_file() -> bytes:
    """Return what is in a file of the mode sqlite that has the newest schema and no jobs."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "jobs.db")
        migrate(SqliteSettings(path=str(path)))
        return path.read_bytes()


def new_file(path: Path) -> None:
    """Write a file with nothing but the schema: SQLite would make it in more than ten times the time."""
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    path.write_bytes(_new_file())
