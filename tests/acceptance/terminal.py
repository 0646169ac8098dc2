"""A program in a terminal of its own."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence

ROWS, COLUMNS = 40, 120


def in_a_terminal(command: Sequence[str]) -> tuple[int, str]:
    """Run a program in a terminal that nobody types into, and return its exit code with everything it has drawn."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JOBCONSOLE_")}
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=environment | {"TERM": "xterm-256color"},
    ) as process:
        os.close(theirs)
        try:
            drawn = b"".join(iter(lambda: _read(ours), b""))
        finally:
            os.close(ours)
            process.kill()
    return process.returncode, drawn.decode(errors="replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has closed its side
        return b""
