"""A small file system of its own, which can be filled."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

MEBIBYTE = 1 << 20


class Disk:
    """A file system in memory; only root may have one."""

    def __init__(self, mebibytes: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="disk-", dir="/tmp"))
        command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=1777", "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.why_not = "" if done.returncode == 0 else " ".join(done.stderr.split()) or "mount failed"
        # without it, what is kept here is on the disk of the machine
        self.can_be_filled = not self.why_not
        self.folder.chmod(0o1777)

    def fill(self) -> None:
        """Leave no room for one more byte."""
        with suppress(OSError), (self.folder / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(MEBIBYTE))
        with suppress(OSError), (self.folder / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(1024))

    def free(self) -> None:
        """Give the room back."""
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Take the file system away; a process that still uses it keeps it until its end."""
        if self.can_be_filled:
            subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True, check=False)
        with suppress(OSError):
            self.folder.rmdir()
