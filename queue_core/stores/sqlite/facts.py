"""What `doctor` checks about the file."""

from __future__ import annotations

import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.places import file_system, mounts
from queue_core.stores.sqlite.schema import KNOWN


class Facts:
    """See queue_core.inspection.Inspector for what each method does."""

    _file: SqliteFile

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        began = time.perf_counter()
        await self._file.look(lambda transaction: transaction.rows("inspect/ping"))
        return time.perf_counter() - began

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks, in bytes and pages.

        backend, version (of SQLite), schema and schema_known, path, file_system (empty: the system does not tell),
        journal_mode, bytes, wal_bytes, disk_free_bytes, page_bytes, pages and free_pages (used before the file grows).
        """
        return await self._file.look(lambda transaction: _facts(transaction, self._file.settings.path))


def _facts(transaction: Transaction, name: str) -> dict[str, Any]:
    path = Path(name).expanduser().absolute()
    ((schema, mode, size, pages, free),) = transaction.rows("inspect/facts")
    return {
        "backend": "sqlite",
        "version": sqlite3.sqlite_version,
        "schema": schema,
        "schema_known": KNOWN,
        "path": str(path),
        "file_system": file_system(path, mounts()),
        "journal_mode": mode,
        "bytes": _size(path),
        "wal_bytes": _size(path.with_name(f"{path.name}-wal")),
        "disk_free_bytes": shutil.disk_usage(path.parent).free,
        "page_bytes": size,
        "pages": pages,
        "free_pages": free,
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
