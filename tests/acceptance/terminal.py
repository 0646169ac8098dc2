"""A program in a terminal of its own, with somebody who looks and presses a key."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence

ROWS, COLUMNS = 40, 120


def in_a_terminal(command: Sequence[str], wait_for: str, key: str) -> tuple[int, str]:
    """Run a program, press a key once it has drawn something, and return its exit code with all that it has drawn."""
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
            drawn = _watch(ours, wait_for.encode(), key.encode())
        finally:
            os.close(ours)
            process.kill()
    return process.returncode, drawn.decode(errors="replace")


def _watch(terminal: int, wait_for: bytes, key: bytes) -> bytes:
    drawn, pressed = b"", False
    while part := _read(terminal):
        drawn += part
        if not pressed and wait_for in drawn:
            pressed = True
            os.write(terminal, key)
    return drawn


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has closed its side
        return b""
