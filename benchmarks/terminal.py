"""A program in a real pseudo-terminal: what it writes is counted and read, keys are timed until their answer."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SIZES = ((80, 24), (200, 50))
PATIENCE_SECONDS = 60.0
ESCAPES = re.compile(rb"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[\[\]][0-9;?<>=]*[ -/]*[@-~]|[()][A-Z0-9]|[=>78])")
_TICKS = os.sysconf("SC_CLK_TCK")


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, command: list[str], size: tuple[int, int], environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**environment, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
        )  # fmt: skip
        os.close(slave)
        # bytes that came out over all
        self.total = 0

    def press(self, keys: str) -> None:
        """Write keys; what is timed from now on is their effect."""
        self.began = time.perf_counter()
        os.write(self._master, keys.encode())

    def until(self, pattern: str) -> float:
        """Return the seconds until a text has come out, escape sequences left out.

        Raises:
            TimeoutError: it did not.
        """
        wanted = re.compile(pattern.encode())
        return self._await(lambda output: wanted.search(ESCAPES.sub(b"", output)) is not None, repr(pattern))

    def until_cursor(self, place: tuple[int, int]) -> float:
        """Return the seconds until the glyph of the cursor was drawn at a row and column, from 1.

        Raises:
            TimeoutError: it was not.
        """
        return self._await(lambda output: place in drawn_at(output, CURSOR), f"the cursor at {place}")

    def quiet(self, seconds: float = 0.5) -> None:
        """Wait until nothing comes for some seconds, at most ten times as long: clocks go on, and let go of it."""
        end = time.perf_counter() + 10 * seconds
        while self._read(seconds) and time.perf_counter() < end:
            pass

    def listen(self, seconds: float) -> bytes:
        """Return what comes out within some seconds."""
        output, end = b"", time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            output += self._read(left)
        return output

    def cpu_seconds(self) -> float:
        """Return the processor time that the program has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory(self) -> int:
        """Return the bytes of memory that the program holds."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """End the program."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    def _await(self, met: Callable[[bytes], bool], what: str) -> float:
        output = b""
        while time.perf_counter() - self.began < PATIENCE_SECONDS:
            output += self._read(0.5)
            if met(output):
                return time.perf_counter() - self.began
        raise TimeoutError(f"{what} did not come; the last was {ESCAPES.sub(b'', output)[-2000:]!r}")

    def _read(self, seconds: float) -> bytes:
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        part = os.read(self._master, 65_536)
        self.total += len(part)
        return part


CURSOR = "❯"
"""What the console draws before the row that the cursor is on."""
_MOVES = re.compile(r"\x1b\[(\d+);(\d+)H")


def drawn_at(output: bytes, glyph: str) -> list[tuple[int, int]]:
    """Return the rows and columns, from 1, at which a glyph was drawn."""
    found: list[tuple[int, int]] = []
    pieces = _MOVES.split(output.decode(errors="replace"))
    for row, column, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        line = ESCAPES.sub(b"", text.encode()).decode(errors="replace").partition("\n")[0]
        found += [(int(row), int(column) + at) for at, char in enumerate(line) if char == glyph]
    return found


@contextmanager
def opened(size: tuple[int, int], environment: dict[str, str]) -> Iterator[Terminal]:
    """A console in a terminal of its own."""
    terminal = Terminal([sys.executable, "-m", "jobconsole"], size, environment)
    try:
        yield terminal
    finally:
        terminal.close()
