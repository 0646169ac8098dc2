"""The file: where it may be, and what its errors mean."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from queue_core.errors import (
    ConfigurationError,
    InvalidJob,
    QueueCoreError,
    SchemaError,
    SchemaForeign,
    StoreUnavailable,
)
from queue_core.model.addresses import path_of

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""Another process holds the lock; nothing was written, and trying again may work."""

BROKEN = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
"""Errors after which a connection is not used again: the next call opens the file again."""

REFUSED = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""Errors of values, not of the file."""

ROOM_BYTES = 1 << 16
"""Bytes that a few jobs take, with what SQLite writes about them."""

_CONSTRAINTS = {
    "queues_name_check": "a queue's name has 1 to 200 characters",
    "jobs_priority_check": "priority must be a whole number from -128 to 127",
}


def primary_code(error: sqlite3.Error) -> int:
    """Return the error's code without its details; 0 for an error of the driver itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def translate(error: sqlite3.Error, path: str) -> QueueCoreError | None:
    """Return the error of this package's tree that a driver's error means; None for a mistake of this package."""
    code, text = primary_code(error), str(error)
    if isinstance(error, REFUSED):
        return InvalidJob(next((text for name, text in _CONSTRAINTS.items() if name in text), _refused(text)))
    if code == sqlite3.SQLITE_NOTADB:
        return SchemaForeign(f"{path} is not an SQLite database")
    if code == sqlite3.SQLITE_ERROR:
        return SchemaError(f"{path} was changed by somebody else: {text}") if text.startswith("no such") else None
    return StoreUnavailable("sqlite", _reason(code, text, path))


def _refused(text: str) -> str:
    return f"SQLite refused a value: {text}"


def _reason(code: int, text: str, path: str) -> str:
    if code in BUSY:
        return f"{path} is locked by another process"
    if code == sqlite3.SQLITE_CANTOPEN:
        return _why_not_open(path, text)
    reasons = {
        sqlite3.SQLITE_READONLY: f"{path} or its folder is read-only for this user, and SQLite writes into both",
        sqlite3.SQLITE_FULL: _full(path),
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged ({text}); restore it from a backup",
        sqlite3.SQLITE_INTERRUPT: f"{path} gave no answer in time",
    }
    return reasons.get(code, f"{path}: {text}")


def _full(path: str | Path) -> str:
    return f"the disk that holds {path} is full"


def check_room(path: Path) -> None:
    """Make sure that the disk takes a few bytes more; nothing of them stays.

    Raises:
        StoreUnavailable: it is full.
    """
    try:
        # A file without a name: what the system counts as free is not what this user may write.
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as file:
            full = file.write(bytes(ROOM_BYTES)) < ROOM_BYTES
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full:
        raise StoreUnavailable("sqlite", _full(path))


class StorePath:
    """Where the file of a queue object is: made by its first connection if it is not there, and by none after that.

    A file that was taken away while processes run comes back as a rule. A new one made in its place would be shown as
    an empty store, and SQLite would take its log of changes for that of the old file.
    """

    def __init__(self, path: str) -> None:
        # absolute, so that a later change of the working folder changes nothing
        self.path = str(path_of(path).absolute())
        # whether a store was found there, or made
        self.had_store = False

    def connect(self, **options: Any) -> sqlite3.Connection:
        """Open the file, in autocommit. It is made if no store was there yet.

        `options`: those of `sqlite3.connect`.

        Raises:
            StoreUnavailable: it is missing or empty although a store was there, or its log is.
            ConfigurationError: it is on a network file system.
            sqlite3.Error: it cannot be opened.
        """
        check_place(Path(self.path))
        # In this order: who makes a store writes the file first, and then its log.
        log = _size(f"{self.path}-wal")
        if _size(self.path) == 0 and (self.had_store or log):
            missing = f"{self.path} is empty" if Path(self.path).exists() else f"there is no file {self.path}"
            # A new file would make SQLite remove the log, or apply it.
            raise StoreUnavailable("sqlite", f"{missing}, but {self.path}-wal, which belongs to it" if log else missing)
        mode = "rw" if self.had_store else "rwc"
        address = f"{Path(self.path).as_uri()}?mode={mode}"
        connection: sqlite3.Connection = sqlite3.connect(address, uri=True, isolation_level=None, **options)
        return connection


def _size(path: str) -> int | None:
    """Return the bytes of a file, 0 if there is none; None if that cannot be found out."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def _why_not_open(path: str, text: str) -> str:
    try:
        return _obstacle(Path(path)) or f"{path}: {text}"
    except PermissionError:
        return f"{path} is in a folder that this user may not look into"


def _obstacle(place: Path) -> str:
    if place.is_dir():
        return f"{place} is a folder"
    if not place.parent.is_dir():
        return f"the folder of {place} does not exist"
    if not os.access(place.parent, os.W_OK) or (place.exists() and not os.access(place, os.W_OK)):
        return f"{place} or its folder is read-only for this user, and SQLite writes into both"
    return ""


MOUNTS = Path("/proc/self/mountinfo")
"""Linux's list of mounts; elsewhere none is known, and no path is refused."""

# fmt: off
_NETWORK = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "fuse.afp", "fuse.ceph", "fuse.ceph-fuse",
    "fuse.curlftpfs", "fuse.davfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
    "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs",
})


# fmt: on


def check_place(path: Path) -> None:
    """Make sure that SQLite can work where the file is.

    Raises:
        ConfigurationError: it is on a network file system.
    """
    kind = file_system(path, mounts())
    if kind in _NETWORK:
        raise ConfigurationError(
            f"{path} is on a network file system ({kind}), where SQLite loses data; choose a folder of this machine"
        )


def mounts() -> list[str]:
    """Return the system's list of mounts, by lines; empty where there is none."""
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def file_system(path: Path, lines: Iterable[str]) -> str:
    """Return the kind of file system that a path is on, from the lines of mountinfo; empty if unknown."""
    folder = path.resolve().parent
    found, depth = "", -1
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        # Of two mounts on one point the later one is seen.
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = after.split(" ")[0], len(point.parts)
    return found
