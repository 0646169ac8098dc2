"""The file's schema: made when the file is new, migrated forward on demand, refused when it is not ours or newer."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from queue_core.errors import ConfigurationError, SchemaError, SchemaForeign, SchemaMissing, SchemaNewer
from queue_core.stores.sqlite.failures import primary_code
from queue_core.stores.sqlite.sql import load, statements

APPLICATION = 1246708307
"""SQLite's mark of whose file it is: "JOBS" as a number; see migrate/claim_file.sql."""
OLDEST = (3, 37, 0)
"""The first SQLite with strict tables."""


class Migration(NamedTuple):
    """One file."""

    version: int
    name: str
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in order.

    Raises:
        SchemaError: the files are not numbered from 1 on without a gap.
    """
    found = sorted(
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in (files("queue_core.stores.sqlite") / "migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    )
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise SchemaError("the migration files of this installation are not complete")
    return tuple(found)


KNOWN = len(migrations())
"""The newest schema version that this program knows."""


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Make sure that this program and the file fit, and make the schema in a file that holds nothing.

    Raises:
        ConfigurationError: the SQLite of this Python is too old, or the file system cannot carry a write-ahead log.
        SchemaMissing, SchemaNewer: the schema does not fit.
        SchemaForeign: the file belongs to another program.
    """
    if sqlite3.sqlite_version_info < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise ConfigurationError(f"this Python brings SQLite {sqlite3.sqlite_version}; mode sqlite needs {needed}")
    found = version(connection, path)
    if found is not None:
        require(found)
    # Not before the file is known to be ours or empty: this writes into it.
    if connection.execute(load("link/wal")).fetchone()[0] != "wal":
        raise ConfigurationError(
            f"the file system of {path} cannot carry SQLite's write-ahead log; choose another folder"
        )
    if found is None:
        connection.execute(load("link/durable"))
        make(connection, path)
        require(version(connection, path) or 0)


def version(connection: sqlite3.Connection, path: str) -> int | None:
    """Return the schema's version; None for a file with nothing in it.

    Raises:
        SchemaForeign: the file belongs to another program.
    """
    application, found, objects = connection.execute(load("migrate/identity")).fetchone()
    if application == APPLICATION:
        return int(found)
    if application or found or objects:
        raise SchemaForeign(f"{path} is the database of another program; choose another file")
    return None


def require(found: int) -> None:
    """Make sure that this program can work with a schema of this version.

    Raises:
        SchemaMissing, SchemaNewer: it cannot.
    """
    if found < KNOWN:
        raise SchemaMissing(found, KNOWN)
    if found > KNOWN:
        raise SchemaNewer(found, KNOWN)


def make(connection: sqlite3.Connection, path: str) -> None:
    """Make the schema in a file that holds nothing, in one transaction: others see nothing of it, or all.

    Raises:
        SchemaForeign: see `advance`.
    """
    connection.execute(load("link/begin_write"))
    try:
        # Another process may have made it meanwhile.
        if version(connection, path) is None:
            for migration in migrations():
                _apply(connection, migration)
        connection.execute(load("link/commit"))
    except BaseException:
        if connection.in_transaction:
            connection.execute(load("link/rollback"))
        raise


def advance(connection: sqlite3.Connection, path: str) -> Iterator[int]:
    """Apply what is missing, each file in its own transaction, and yield its version once it is there.

    The write lock lets one process at a time do it.

    Raises:
        SchemaNewer: a newer version of this program has migrated the file.
        SchemaError: a migration failed; it was rolled back, those before it stay.
    """
    for migration in migrations():
        connection.execute(load("link/begin_write"))
        try:
            found = version(connection, path) or 0
            if found > KNOWN:
                raise SchemaNewer(found, KNOWN)
            if found < migration.version:
                _apply(connection, migration)
            connection.execute(load("link/commit"))
        except BaseException:
            if connection.in_transaction:
                connection.execute(load("link/rollback"))
            raise
        if found < migration.version:
            yield migration.version


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    try:
        for statement in statements(migration.sql):
            connection.execute(statement)
    except sqlite3.Error as error:
        if primary_code(error) != sqlite3.SQLITE_ERROR:
            raise
        said = f"migration {migration.version} ({migration.name}) failed and was rolled back: {error}"
        raise SchemaError(said) from error
    connection.execute(load("migrate/claim_file"))
    connection.execute(load("migrate/set_version").format(version=migration.version))
