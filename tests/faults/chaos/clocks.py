"""The clock of a process, which a file that is shared with it can set; steady clocks go on."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

SECONDS = struct.Struct("d")


class SharedClock:
    """By how many seconds the clocks of some processes are wrong; a change is seen by all at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(SECONDS.pack(0.0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SECONDS.size)

    def set(self, seconds: float) -> None:
        """Let all clocks be wrong by so much."""
        SECONDS.pack_into(self._memory, 0, seconds)

    def install(self) -> None:
        """Let `time.time` of this process be wrong."""
        real, memory = time.time, self._memory

        def now() -> float:
            return real() + float(SECONDS.unpack_from(memory)[0])

        time.time = now
        time.time_ns = lambda: int(now() * 1e9)
