"""The folder of one instance: short, private, locked as long as its guard lives, swept when it is not."""

import fcntl
import os
import pwd
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jobconsole.embedded.processes import kill_remaining, remove_shared_memory


class EmbeddedError(Exception):
    """The embedded servers could not do what was asked; the message is one sentence a person can act on."""


class Identity(NamedTuple):
    """Another user whom the servers run as."""

    uid: int
    gid: int
    name: str


def server_identity() -> Identity | None:
    """Return the user to change to, or None when the servers run as the user of this process."""
    if os.geteuid() != 0:
        return None
    for entry in _candidates():
        if entry.pw_uid != 0:
            return Identity(entry.pw_uid, entry.pw_gid, entry.pw_name)
    raise EmbeddedError(
        "PostgreSQL refuses to run as root, and neither $SUDO_UID nor the users 'postgres' and 'nobody' exist here: "
        "start as an ordinary user, or create one of these users."
    )


def _candidates() -> Iterator[pwd.struct_passwd]:
    behind_sudo = os.environ.get("SUDO_UID", "")
    if behind_sudo.isdigit():
        with suppress(KeyError, OverflowError):
            yield pwd.getpwuid(int(behind_sudo))
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            yield pwd.getpwnam(name)


def can_enter(path: Path, who: Identity | None) -> bool:
    """Return whether a user passes through a folder and all folders above it; None is the user of this process."""
    resolved = path.resolve()
    return all(_allows(folder, who, stat.S_IXOTH) for folder in (resolved, *resolved.parents))


def can_read(path: Path, who: Identity | None) -> bool:
    """Return whether a user reaches a program file, can read it and can run it."""
    target = path.resolve()
    reached = can_enter(path.parent, who) and can_enter(target.parent, who)
    return reached and _allows(target, who, stat.S_IROTH | stat.S_IXOTH)


def _allows(path: Path, who: Identity | None, wanted: int) -> bool:
    """Return whether permission bits (given as those of "others") are there for the user's class."""
    if who is None:
        return os.access(path, wanted)
    try:
        found = path.stat()
    except OSError:
        return False
    if found.st_uid == who.uid:
        wanted <<= 6
    elif found.st_gid == who.gid:
        wanted <<= 3
    return found.st_mode & wanted == wanted


PREFIX = "jobconsole-"
LOCK = "guard.lock"
SOCKETS = "s"
# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the last of them a NUL.
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103
LONGEST_SUFFIX = len(f"/{PREFIX}12345678/{SOCKETS}/.s.PGSQL.5432")


class InstanceFolder(NamedTuple):
    """A folder that belongs to this instance alone."""

    path: Path
    # An open file whose lock means "in use"; the guard inherits it, so the lock lives as long as the guard.
    lock: int

    @property
    def sockets(self) -> Path:
        """The folder of the unix sockets."""
        return self.path / SOCKETS

    @property
    def redis_socket(self) -> Path:
        """The socket of the Redis-protocol server."""
        return self.sockets / "r.sock"


def candidates() -> list[Path]:
    """Return the temporary folders to try; a long TMPDIR leaves no room for the name of a socket."""
    found = (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"))
    return [path for path in dict.fromkeys(each.resolve() for each in found) if path.is_dir()]


def create_folder(who: Identity | None) -> InstanceFolder:
    """Make and lock a new folder that the servers' user can enter."""
    for base in candidates():
        if len(os.fsencode(base)) + LONGEST_SUFFIX <= LONGEST_SOCKET_PATH and can_enter(base, who):
            with suppress(PermissionError):
                return _create_in(base, who)
    tried = ", ".join(str(path) for path in candidates())
    raise EmbeddedError(
        f"No temporary folder serves (tried {tried}): set TMPDIR to a folder with a path of at most "
        f"{LONGEST_SOCKET_PATH - LONGEST_SUFFIX} bytes in which {who.name if who else 'this user'} may write."
    )


def _create_in(base: Path, who: Identity | None) -> InstanceFolder:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        lock = above_standard(os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between open and lock a sweep may have taken the folder for a stale one.
            if (path / LOCK).stat().st_ino != os.fstat(lock).st_ino:
                raise FileNotFoundError
            for folder in (path / SOCKETS, path):
                folder.mkdir(mode=0o700, exist_ok=True)
                if who is not None:
                    os.chown(folder, who.uid, who.gid)
        except (BlockingIOError, FileNotFoundError):
            os.close(lock)
            continue
        except BaseException:
            os.close(lock)
            shutil.rmtree(path, ignore_errors=True)
            raise
        return InstanceFolder(path, lock)


def above_standard(descriptor: int) -> int:
    """Move a descriptor out of the way of stdin, stdout and stderr, which may be closed in this process."""
    if descriptor > 2:
        return descriptor
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return moved


def sweep(who: Identity | None) -> list[Path]:
    """Remove the folders whose guard is gone, and answer them; folders in use and those of other users stay."""
    owners = {os.geteuid()} | ({who.uid} if who else set())
    return [folder for folder in _ours(owners) if discard(folder)]


def _ours(owners: set[int]) -> Iterator[Path]:
    for base in candidates():
        for folder in base.glob(f"{PREFIX}*"):
            with suppress(OSError):
                if folder.lstat().st_uid in owners and folder.is_dir() and not folder.is_symlink():
                    yield folder


def discard(folder: Path) -> bool:
    """Remove a folder, and whatever still runs on it, unless its guard lives."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # not a folder of ours, or one that is being made or removed at this moment
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kill_remaining(folder)
        remove_shared_memory(folder / "postgres")
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except OSError:
        return False
    finally:
        os.close(lock)
