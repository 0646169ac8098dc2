"""Which process this is, and whether another one on this machine is still there; pure questions to the system."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

PROC = Path("/proc")
GONE = frozenset({"Z", "X", "x"})
"""States of a process that has ended, and for which only its parent still has to ask."""


@cache
def place() -> str:
    """Return where this process runs: host, start of the machine, process and time namespace; empty if nobody can say.

    Only who runs at the same place sees the same processes under the same numbers.
    """
    try:
        # Mounted for another namespace, it names other processes.
        if int((PROC / "self/stat").read_text(encoding="ascii", errors="replace").split(" ", 1)[0]) != os.getpid():
            return ""
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        spaces = [str((PROC / "self/ns" / name).stat().st_ino) for name in ("pid", "time") if _has(name)]
    except (OSError, ValueError):
        return ""
    return " ".join([socket.gethostname(), boot, *spaces])


def _has(namespace: str) -> bool:
    return namespace == "pid" or (PROC / "self/ns" / namespace).exists()


def process() -> str:
    """Return which process this is at its place: its number and the time of its start; empty if nobody can say."""
    start = _start(os.getpid()) if place() else None
    return "" if start is None else f"{os.getpid()} {start}"


def is_gone(process: str) -> bool:
    """Tell whether a process at this place has surely ended; another one may have its number by now."""
    number, _, start = process.partition(" ")
    if not number.isdecimal() or not start:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False  # that of another user, whom it may be hidden from us
    found = _start(int(number))
    return found is not None and found != start


def _start(number: int) -> str | None:
    """Return the ticks from the machine's start to a process's; "" when it has ended, None when that is hidden."""
    try:
        stat = (PROC / str(number) / "stat").read_text(encoding="ascii", errors="replace")
        # The name may hold anything, brackets and spaces included.
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in GONE else fields[19]
    except (OSError, IndexError):
        return None
