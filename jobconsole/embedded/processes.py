"""Processes of embedded servers: starting, watching and ending them, and what an earlier run left behind.

The guard loads this, so nothing here imports more than the standard library.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NotRequired, TypedDict

LINUX = sys.platform == "linux"
PROC = Path("/proc")
IPC_RMID = 0
# Seconds that the killed processes of a server may take to detach from its memory.
DETACH_SECONDS = 1.0


def parents() -> dict[int, int]:
    """Return the parent of every process of this machine."""
    return _linux_parents() if LINUX else _posix_parents()


def _linux_parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The name is in parentheses and may itself contain any of these characters.
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2]
                found[int(entry.name)] = int(after_name.split()[1])
    return found


def _posix_parents() -> dict[int, int]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
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
    # A child may have forked before its own stop arrived: look again until there are no new ones.
    while new := [child for child in descendants(pid) if child not in frozen]:
        for child in new:
            send(child, signal.SIGSTOP)
        frozen.extend(new)
    return frozen


def thaw(pid: int) -> None:
    """Continue a stopped process and its descendants, the process last."""
    for each in (*descendants(pid), pid):
        send(each, signal.SIGCONT)


def kill_family(pid: int) -> list[int]:
    """Kill a process and all its descendants at once, and answer them."""
    family = freeze(pid)
    for each in reversed(family):
        send(each, signal.SIGKILL)
    return family


def command_line(pid: int) -> str:
    """Return the command line of a process, or nothing when it is gone."""
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
        # The number may belong to another process by now: only one whose command line has the folder is ours.
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
    """Return how many processes use a segment; None: there is none of this key and number, or this is not Linux."""
    try:
        segments = (PROC / "sysvipc" / "shm").read_text().splitlines()[1:]
    except OSError:
        return None
    for columns in (segment.split() for segment in segments):
        # Both, because the number alone may have been given out again since.
        if columns[:2] == [key, identifier]:
            return int(columns[6])
    return None


Message = dict[str, Any]


class ServerPlan(TypedDict):
    """How the guard starts one server; paths are absolute."""

    # The command line of the server.
    command: list[str]
    # What it prints goes here.
    log: str
    # Its data folder.
    data: str
    # Its unix socket.
    socket: str
    # The command that fills the data folder (PostgreSQL).
    initdb: NotRequired[list[str]]
    # A data folder to copy in place of running the command above; None: there is none.
    template: NotRequired[str | None]


class LaunchPlan(TypedDict):
    """The first message: everything the guard has to know."""

    # The folder of this instance, removed at the end.
    folder: str
    # uid and gid of the servers; None: those of the guard.
    run_as: tuple[int, int] | None
    # Pairs (from, to) to copy before the server can start, because its user cannot reach the original.
    copies: dict[str, list[tuple[str, str]]]
    postgres: ServerPlan
    redis: ServerPlan
    # The longest time a server may take to start, in seconds.
    patience: float


PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Settings of the user's own clients and service managers that must not reach these servers.
FOREIGN_VARIABLES = ("PG", "NOTIFY_", "LISTEN_")


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent was killed, so that they can be reaped here (Linux)."""
    if LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def environment() -> dict[str, str]:
    """Return the environment of the servers: neutral language and time zone, nothing of the user's own clients."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_VARIABLES)}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def spawn(
    command: Sequence[str],
    folder: Path,
    log: Path,
    run_as: tuple[int, int] | None,
    death_signal: signal.Signals,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session; the kernel sends it `death_signal` when this process ends (Linux)."""
    # Arguments left out keep the user: `extra_groups` alone would already need privileges.
    uid, gid = run_as or (None, None)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=uid,
            group=gid,
            extra_groups=None if run_as is None else [],
            umask=0o077,
            # After the change of user, which would clear the setting; safe because the guard has one thread.
            preexec_fn=_bound_to_guard(death_signal) if LINUX else None,  # noqa: PLW1509
        )


def _bound_to_guard(death_signal: signal.Signals) -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl
    guard = os.getpid()

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != guard:  # it ended before the line above
            os._exit(1)

    return bind


def last_lines(log: Path, count: int = 8) -> str:
    """Return the end of a log as one line of text."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "(no log)"
    return " | ".join(lines[-count:]) or "(empty log)"


# How long the guard may take to see that the application is gone when a child of it still holds the socket.
PERIOD_SECONDS = 0.1
# How often something that is about to happen is looked at.
STEP_SECONDS = 0.004


class Orphaned(Exception):
    """The application is gone, or this guard was asked to end."""


class Watch:
    """Knows the application by its socket and by its process id."""

    def __init__(self, connection: socket.socket, parent: int) -> None:
        self.connection = connection
        self._parent = parent
        self._asked_to_end = False

    def listen_to_signals(self) -> None:
        """Handle the usual ending signals as a request to clean up and end."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_end = True

    def check(self) -> None:
        """Raise `Orphaned` when the application is gone or the end was asked for."""
        if self._asked_to_end or os.getppid() != self._parent:
            raise Orphaned
        try:
            if self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                raise Orphaned
        except BlockingIOError:
            return
        except ConnectionError:
            raise Orphaned from None

    def next_bytes(self) -> bytes:
        """Wait for bytes from the application."""
        while True:
            self.check()
            if select.select([self.connection], [], [], PERIOD_SECONDS)[0]:
                self.check()
                return self.connection.recv(65536)

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, and answer whether it did in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                return False
            time.sleep(STEP_SECONDS)
        return True
