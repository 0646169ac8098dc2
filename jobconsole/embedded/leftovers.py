"""Processes and shared memory that a server may leave behind; light, because the guard loads it."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"
PROC = Path("/proc")
IPC_RMID = 0
# How long the killed processes of a server may take to let go of its memory.
DETACH_SECONDS = 1.0


def parents() -> dict[int, int]:
    """Answer the parent of every process of this machine."""
    return _linux_parents() if LINUX else _posix_parents()


def _linux_parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The name stands in parentheses and may itself contain any of these characters.
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2]
                found[int(entry.name)] = int(after_name.split()[1])
    return found


def _posix_parents() -> dict[int, int]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}


def descendants(pid: int) -> list[int]:
    """Answer the children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found.extend(mine)
        waiting.extend(mine)
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def freeze(pid: int) -> list[int]:
    """Stop a process and all its descendants, and answer all of them, the process first."""
    send(pid, signal.SIGSTOP)
    frozen = [pid]
    # A child may have forked before its own stop arrived: look again until nobody is new.
    while new := [child for child in descendants(pid) if child not in frozen]:
        for child in new:
            send(child, signal.SIGSTOP)
        frozen.extend(new)
    return frozen


def thaw(pid: int) -> None:
    """Let a stopped process and its descendants go on, the process last."""
    for each in (*descendants(pid), pid):
        send(each, signal.SIGCONT)


def kill_family(pid: int) -> list[int]:
    """Kill a process and all its descendants at once, and answer them."""
    family = freeze(pid)
    for each in reversed(family):
        send(each, signal.SIGKILL)
    return family


def command_line(pid: int) -> str:
    """Answer the command line of a process, or nothing when it is gone."""
    if LINUX:
        try:
            return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    answer = subprocess.run(
        ["ps", "-p", str(pid), "-ww", "-o", "command="], capture_output=True, text=True, check=False
    )
    return answer.stdout


def kill_remaining(folder: Path) -> None:
    """Kill the servers that still run on a folder whose guard is gone (it was killed together with the application)."""
    for record in (folder / "postgres" / "postmaster.pid", folder / "redis" / "redis.pid"):
        try:
            pid = int(record.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            continue
        # The number may have been given to somebody else since: only a process that names the folder is ours.
        if pid > 1 and str(folder) in command_line(pid):
            kill_family(pid)


def remove_shared_memory(data: Path) -> None:
    """Remove the little System V segment that a killed PostgreSQL leaves behind; one that ended well left none."""
    try:
        key, identifier = (data / "postmaster.pid").read_text().splitlines()[6].split()[:2]
    except (OSError, IndexError, ValueError):
        return
    deadline = time.monotonic() + DETACH_SECONDS
    while attached := _attached(key, identifier):  # killed processes are still on their way out
        if time.monotonic() > deadline:
            return
        time.sleep(0.005)
    if attached is not None:
        ctypes.CDLL(None).shmctl(int(identifier), IPC_RMID, None)


def _attached(key: str, identifier: str) -> int | None:
    """Answer how many processes use a segment; None: there is none of this key and number (or no Linux to tell)."""
    try:
        segments = (PROC / "sysvipc" / "shm").read_text().splitlines()[1:]
    except OSError:
        return None
    for columns in (segment.split() for segment in segments):
        # Both, because the number alone may have been given out again since.
        if columns[:2] == [key, identifier]:
            return int(columns[6])
    return None
