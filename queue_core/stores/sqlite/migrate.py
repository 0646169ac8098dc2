"""Numbered forward migrations of a file: each once, in order, in its own transaction, one process at a time."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator

from queue_core.errors import (
    ConfigurationError,
    SchemaEarlier,
    SchemaError,
    SchemaForeign,
    SchemaNewer,
    StoreUnavailable,
)
from queue_core.model.addresses import path_of
from queue_core.model.settings import SqliteSettings
from queue_core.stores.sql.migrations import (
    FIRST_VERSION,
    RENAMED_VERSION,
    Migration,
    Pending,
    migrations_of,
    pending_from,
    require_version,
)
from queue_core.stores.sqlite.dialect import PACKAGE, load
from queue_core.stores.sqlite.file import BUSY, StorePath, primary_code, translate

logger = logging.getLogger("queue_core.worker")

APPLICATION_ID = 1246708291
"""SQLite's mark of whose file it is: "JOBC" as a number; see claim_file in sql/migrate.sql."""
NUMBERED_APPLICATION_ID, LAST_NUMBERED = 1246708307, 7
"""The mark of files of the numbering before that, "JOBS", and its last version: its tables are those of version 1."""
MIN_SQLITE = (3, 37, 0)
"""The first SQLite with strict tables."""


BEGIN, COMMIT, ROLLBACK, DURABLE = "migrate/begin_write", "migrate/commit", "migrate/rollback", "migrate/durable"
"""Statements that every transaction needs."""

MIGRATIONS = migrations_of(PACKAGE)
"""All migrations in order."""
KNOWN = MIGRATIONS[-1].version
"""The newest schema version that this program knows."""


def prepare(connection: sqlite3.Connection, place: StorePath) -> None:
    """Make sure that this program and the file fit, and make the schema in a first file that holds nothing.

    Raises:
        ConfigurationError: the SQLite of this Python is too old, or the file system cannot carry a write-ahead log.
        SchemaMissing, SchemaNewer, SchemaEarlier: the schema does not fit.
        SchemaForeign: the file belongs to another program.
        StoreUnavailable: the file holds nothing, and there was another one before.
    """
    path = place.path
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        needed = ".".join(map(str, MIN_SQLITE))
        raise ConfigurationError(f"this Python brings SQLite {sqlite3.sqlite_version}; mode sqlite needs {needed}")
    try:
        found = version(connection, path)
    except SchemaEarlier:
        place.had_store = True
        raise
    if found is not None:
        place.had_store = True
        require_version(found, KNOWN)
    elif place.had_store:
        raise StoreUnavailable("sqlite", f"{path} holds nothing")
    # Not before the file is known to be ours or empty: this writes into it.
    if connection.execute(load("migrate/wal")).fetchone()[0] != "wal":
        raise ConfigurationError(
            f"the file system of {path} cannot carry SQLite's write-ahead log; choose another folder"
        )
    if found is None:
        connection.execute(load(DURABLE))
        if make(connection, path):
            # Else a worker that starts while its file is away goes on without its jobs, unnoticed.
            logger.info("there was no store at %s: a new one was made, with nothing in it", path)
        require_version(version(connection, path) or 0, KNOWN)
    place.had_store = True


def version(connection: sqlite3.Connection, path: str) -> int | None:
    """Return the schema's version; None for a file with nothing in it.

    Raises:
        SchemaEarlier: an earlier version has made it, which `migrate` takes over.
        SchemaForeign: the file belongs to another program.
    """
    application, found, objects = connection.execute(load("migrate/identity")).fetchone()
    if application == NUMBERED_APPLICATION_ID or (application, found) == (APPLICATION_ID, RENAMED_VERSION):
        raise SchemaEarlier(f"an earlier version has made {path}")
    if application == APPLICATION_ID:
        return int(found)
    if application or found or objects:
        raise SchemaForeign(f"{path} is the database of another program; choose another file")
    return None


def make(connection: sqlite3.Connection, path: str) -> bool:
    """Make the schema in a file that holds nothing, in one transaction; return False where another process has made it.

    Others see nothing of it, or all.

    Raises:
        SchemaForeign: see `advance`.
    """
    connection.execute(load(BEGIN))
    try:
        new = version(connection, path) is None
        for migration in MIGRATIONS if new else ():
            _apply(connection, migration)
        connection.execute(load(COMMIT))
    except BaseException:
        if connection.in_transaction:
            connection.execute(load(ROLLBACK))
        raise
    return new


def take_over(connection: sqlite3.Connection, path: str) -> bool:
    """Give the tables of a file that an earlier version has made their names of today; return whether it still was one.

    Raises:
        SchemaEarlier: it is not of the last version of that time.
    """
    connection.execute(load(BEGIN))
    try:
        application, found, _ = connection.execute(load("migrate/identity")).fetchone()
        if application == NUMBERED_APPLICATION_ID and found != LAST_NUMBERED:
            raise SchemaEarlier(
                f"{path} is of version {found} of an earlier numbering, and only its last one, {LAST_NUMBERED}, "
                "can be taken over",
                "migrate it with a program of that time first",
            )
        earlier = application == NUMBERED_APPLICATION_ID or (application, found) == (APPLICATION_ID, RENAMED_VERSION)
        if earlier:
            for statement in statements(load("migrate/rename")):
                connection.execute(statement)
            _mark(connection, FIRST_VERSION)
        connection.execute(load(COMMIT))
    except BaseException:
        if connection.in_transaction:
            connection.execute(load(ROLLBACK))
        raise
    return earlier


def advance(connection: sqlite3.Connection, path: str) -> Iterator[int]:
    """Apply what is missing, each file in its own transaction, and yield its version once it is there.

    The write lock lets one process at a time do it.

    Raises:
        SchemaNewer: a newer version of this program has migrated the file.
        SchemaError: a migration failed; it was rolled back, those before it stay.
    """
    for migration in MIGRATIONS:
        connection.execute(load(BEGIN))
        try:
            found = version(connection, path) or 0
            if found > KNOWN:
                raise SchemaNewer(found, KNOWN)
            if found < migration.version:
                _apply(connection, migration)
            connection.execute(load(COMMIT))
        except BaseException:
            if connection.in_transaction:
                connection.execute(load(ROLLBACK))
            raise
        if found < migration.version:
            yield migration.version


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a script one by one; the driver's own way to run one commits first."""
    statement = ""
    for line in text.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    try:
        for statement in statements(migration.sql):
            connection.execute(statement)
    except sqlite3.Error as error:
        if primary_code(error) != sqlite3.SQLITE_ERROR:
            raise
        text = f"migration {migration.version} ({migration.name}) failed and was rolled back: {error}"
        raise SchemaError(text) from error
    _mark(connection, migration.version)


def _mark(connection: sqlite3.Connection, version: int) -> None:
    connection.execute(load("migrate/claim_file"))
    connection.execute(load("migrate/set_version").format(version=version))


__all__ = ["KNOWN", "migrate", "pending", "schema_of"]

LOCK_RETRY_SECONDS = 0.05
"""Seconds between two tries while another process holds the lock."""


def migrate(settings: SqliteSettings) -> list[int]:
    """Bring the file to the newest schema, making it if need be; return the versions that were applied.

    Raises:
        StoreUnavailable: the file cannot be opened or written, or stayed locked.
        SchemaNewer: a newer version of this program has migrated it.
        SchemaError: it is no SQLite database, or that of another program.
        ConfigurationError: it is on a network file system.
    """
    place = StorePath(settings.path)
    path = place.path
    deadline = time.monotonic() + settings.timeout
    applied: list[int] = []
    while True:
        try:
            _migrate(place, applied)
            return applied
        except sqlite3.Error as error:
            if primary_code(error) not in BUSY or time.monotonic() >= deadline:
                raise (translate(error, path) or error) from error
        time.sleep(LOCK_RETRY_SECONDS)


def schema_of(settings: SqliteSettings) -> int:
    """Return the version of the file's schema without changing the file; 0 when there is none.

    Raises:
        StoreUnavailable: the file cannot be read.
        SchemaNewer: a newer version of this program has migrated it.
        SchemaError: it is no SQLite database, or that of another program.
    """
    return _read_version(settings)[0]


def _read_version(settings: SqliteSettings) -> tuple[int, str | None]:
    """Return the version of the file's schema, and the file where `migrate` would take it over."""
    path = path_of(settings.path).absolute()
    if not path.exists():
        return 0, None
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=settings.timeout)
        try:
            return version(connection, str(path)) or 0, None
        except SchemaEarlier:
            return 0, str(path)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise (translate(error, str(path)) or error) from error


def pending(settings: SqliteSettings) -> Pending:
    """Return what `migrate` would do, without changing the file.

    Raises:
        StoreUnavailable, SchemaError: see `schema_of`.
    """
    found, earlier = _read_version(settings)
    return pending_from(found, MIGRATIONS, earlier)


def _migrate(place: StorePath, applied: list[int]) -> None:
    path = place.path
    connection = place.connect(timeout=0)
    try:
        try:
            version(connection, path)
        except SchemaEarlier:
            if take_over(connection, path):
                applied.append(FIRST_VERSION)
        for setting in ("migrate/wal", DURABLE):
            connection.execute(load(setting))
        # Another process may take the lock between two of them, and then this continues where it was.
        applied.extend(advance(connection, path))
    finally:
        connection.close()
