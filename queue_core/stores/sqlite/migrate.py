"""Numbered forward migrations of a file: each once, in order, in its own transaction, one process at a time."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from queue_core.settings import SqliteSettings
from queue_core.stores.sqlite.failures import BUSY, primary_code, translate
from queue_core.stores.sqlite.places import check_place
from queue_core.stores.sqlite.schema import KNOWN, advance, version
from queue_core.stores.sqlite.sql import load

__all__ = ["KNOWN", "migrate", "schema_of"]

PAUSE = 0.05
"""Seconds between two tries while another process holds the lock."""


def migrate(settings: SqliteSettings) -> list[int]:
    """Bring the file to the newest schema, making it if need be; return the versions that were applied.

    Raises:
        StoreUnavailable: the file cannot be opened or written, or stayed locked.
        SchemaNewer: a newer version of this program has migrated it.
        SchemaError: it is no SQLite database, or that of another program.
        ConfigurationError: it is on a network file system.
    """
    path = str(Path(settings.path).expanduser().absolute())
    check_place(Path(path))
    deadline = time.monotonic() + settings.timeout
    applied: list[int] = []
    while True:
        try:
            _migrate(path, applied)
            return applied
        except sqlite3.Error as error:
            if primary_code(error) not in BUSY or time.monotonic() >= deadline:
                raise (translate(error, path) or error) from error
        time.sleep(PAUSE)


def schema_of(settings: SqliteSettings) -> int:
    """Return the version of the file's schema without changing the file; 0 when there is none.

    Raises:
        StoreUnavailable: the file cannot be read.
        SchemaNewer: a newer version of this program has migrated it.
        SchemaError: it is no SQLite database, or that of another program.
    """
    path = Path(settings.path).expanduser().absolute()
    if not path.exists():
        return 0
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=settings.timeout)
        try:
            return version(connection, str(path)) or 0
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise (translate(error, str(path)) or error) from error


def _migrate(path: str, applied: list[int]) -> None:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        version(connection, path)
        for setting in ("link/wal", "link/durable"):
            connection.execute(load(setting))
        # Another process may take the lock between two of them, and then this goes on where it was.
        applied.extend(advance(connection, path))
    finally:
        connection.close()
