"""As whom the servers run: PostgreSQL refuses root."""

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jobconsole.embedded.errors import EmbeddedError


class Identity(NamedTuple):
    """Another user whom the servers run as."""

    uid: int
    gid: int
    name: str


def server_identity() -> Identity | None:
    """Answer the user to change to, or None when the servers run as the user of this process."""
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
    """Answer whether a user passes through a folder and all folders above it; None is the user of this process."""
    resolved = path.resolve()
    return all(_allows(folder, who, stat.S_IXOTH) for folder in (resolved, *resolved.parents))


def can_read(path: Path, who: Identity | None) -> bool:
    """Answer whether a user reaches a program file, can read it and can run it."""
    target = path.resolve()
    reached = can_enter(path.parent, who) and can_enter(target.parent, who)
    return reached and _allows(target, who, stat.S_IROTH | stat.S_IXOTH)


def _allows(path: Path, who: Identity | None, wanted: int) -> bool:
    """Answer whether permission bits (given as those of "others") are there for the user's class."""
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
