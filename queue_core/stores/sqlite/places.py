"""Whether a file may stand where it stands: a write-ahead log needs memory that all its processes share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from queue_core.errors import ConfigurationError

MOUNTS = Path("/proc/self/mountinfo")
"""Where Linux tells what is mounted; elsewhere nothing is known, and nothing is refused."""

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
    """Return the lines in which the system tells what is mounted; none where it does not."""
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def file_system(path: Path, lines: Iterable[str]) -> str:
    """Return the kind of file system that a path is on, from the lines of mountinfo; empty when they do not say."""
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
