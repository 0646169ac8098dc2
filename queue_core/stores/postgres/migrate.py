"""Numbered forward migrations: each file once, in order, in its own transaction, one process at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg

from queue_core.errors import (
    ConfigurationError,
    SchemaError,
    SchemaMissing,
    SchemaNewer,
    StoreRefused,
    StoreUnavailable,
)
from queue_core.stores.postgres.queries import load

CONNECT_SECONDS = 10
LOCK_ATTEMPTS = 5
"""How often a migration is tried whose tables are busy; 3 s each time, so that other work goes on between."""

Connection = psycopg.Connection[tuple[Any, ...]]


class Migration(NamedTuple):
    """One file."""

    version: int
    name: str
    sql: bytes


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in order.

    Raises:
        SchemaError: the files are not numbered from 1 on without a gap.
    """
    found = sorted(
        Migration(int(match[1]), match[2], file.read_bytes())
        for file in files("queue_core.stores.postgres").joinpath("migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    )
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise SchemaError("the migration files of this installation are not complete")
    return tuple(found)


KNOWN = len(migrations())
"""The newest schema version that this program knows."""


def migrate(url: str) -> list[int]:
    """Bring the database to the newest schema and return the versions that were applied, none when it had it.

    Also makes the history's partitions for the days ahead. Any number of processes may do it at once: one works, the
    others wait for it and then find nothing to do.

    Raises:
        ConfigurationError: the URL cannot be read.
        StoreUnavailable: no connection, or the tables stayed locked.
        SchemaNewer: a newer version of this program has migrated the database.
        SchemaError: a migration failed; it was rolled back, those before it stay.
    """
    applied: list[int] = []
    with _connect(url) as connection:
        _exclusively(connection, "preparing", lambda: _prepare(connection))
        for migration in migrations():
            doing = f"migration {migration.version} ({migration.name})"
            if _exclusively(connection, doing, partial(_apply, connection, migration)):
                applied.append(migration.version)
        _exclusively(connection, "making partitions", lambda: _make_partitions(connection))
    return applied


@contextmanager
def _connect(url: str) -> Iterator[Connection]:
    try:
        with psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            target_session_attrs="read-write",
            application_name="queue_core migrate",
        ) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise StoreUnavailable("postgres", _sentence(error)) from error
    except psycopg.ProgrammingError as error:
        # What the driver says contains the address, and that may contain a password.
        raise ConfigurationError("this is no address that PostgreSQL's client understands") from error


def _exclusively(connection: Connection, doing: str, work: Callable[[], bool]) -> bool:
    """Run one step in its own transaction, alone among all processes that migrate this database."""
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            with connection.transaction():
                # A lock of the transaction, not of the session: it works through a pooler and cannot be left behind.
                connection.execute(load("migrate/patience"))
                connection.execute(load("migrate/lock"))
                connection.execute(load("migrate/impatience"))
                return work()
        except pg.LockNotAvailable as error:
            if attempt == LOCK_ATTEMPTS:
                raise StoreRefused("postgres", f"{doing}: the tables are locked by others", passing=True) from error
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            raise SchemaError(f"{doing} failed and was rolled back: {_sentence(error)}") from error
    raise AssertionError("the last attempt returns or raises")


def _prepare(connection: Connection) -> bool:
    connection.execute(load("migrate/versions"))
    found = schema_version(connection)
    if found > KNOWN:
        raise SchemaNewer(found, KNOWN)
    return True


def _apply(connection: Connection, migration: Migration) -> bool:
    if schema_version(connection) >= migration.version:
        return False
    connection.execute(migration.sql)
    connection.execute(load("migrate/record"), {"version": migration.version, "name": migration.name})
    return True


def _make_partitions(connection: Connection) -> bool:
    connection.execute(load("upkeep/partitions"))
    return True


def _sentence(error: psycopg.Error) -> str:
    """Return the first line of what the server or the driver said."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def schema_version(connection: Connection) -> int:
    """Return the schema version of a database, 0 when it has no schema."""
    try:
        with connection.transaction():
            row = connection.execute(load("migrate/version")).fetchone()
    except (pg.UndefinedTable, pg.UndefinedColumn):
        return 0
    return int(row[0]) if row else 0


def check(connection: Connection) -> None:
    """Make sure that this program and the database's schema fit.

    Raises:
        SchemaMissing, SchemaNewer: they do not.
    """
    require(schema_version(connection))


def require(found: int) -> None:
    """Make sure that this program can work with a schema of this version.

    Raises:
        SchemaMissing, SchemaNewer: it cannot.
    """
    if found < KNOWN:
        raise SchemaMissing(found, KNOWN)
    if found > KNOWN:
        raise SchemaNewer(found, KNOWN)
