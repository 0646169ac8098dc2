"""What the tests of the guard look at: processes of this machine, and applications to kill."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jobconsole.embedded.processes import command_line, parents

# Far more than it takes: the machine may be slow and busy. What is asserted is that it happens by itself.
DEADLINE_SECONDS = 60.0

APPLICATION = """
import json, os, sys, threading
from jobconsole.embedded.servers import EmbeddedServers
options = json.loads(sys.argv[1])
servers = EmbeddedServers.start(**options)
if sys.argv[2] == "frozen":
    servers.postgres.pause()
    servers.redis.pause()
child = None
if sys.argv[2] == "forked":
    child = os.fork()
    if child == 0:
        # Holds a copy of the line to the guard until the test ends it.
        os.read(int(sys.argv[3]), 1)
        os._exit(0)
os.write(int(sys.argv[4]), json.dumps({
    "pid": os.getpid(), "guard": servers.guard_pid, "folder": str(servers.folder), "child": child,
    "postgres": servers.postgres.pid, "redis": servers.redis.pid,
    "postgres_url": servers.postgres_url, "redis_url": servers.redis_url,
}).encode())
os.read(int(sys.argv[3]), 1)
servers.close()
"""


class Application(NamedTuple):
    """A process that has started servers and waits."""

    process: subprocess.Popen[bytes]
    # What it told: process ids, the folder, the addresses.
    told: dict[str, Any]
    # Writing here, or closing, lets it close its servers and end.
    leash: int

    @property
    def folder(self) -> Path:
        return Path(self.told["folder"])

    def family(self) -> set[int]:
        """Every process that must be gone with the application."""
        return {self.told["guard"], *processes_on(self.folder)}

    def end(self) -> None:
        """Let it end by itself if it still runs."""
        if self.process.poll() is None:
            os.write(self.leash, b"..")
        self.process.wait(timeout=DEADLINE_SECONDS)


def start_application(
    options: Mapping[str, Any], kind: str = "plain", environment: Mapping[str, str] | None = None, closed: bool = False
) -> Application:
    """Start a process that starts servers; `closed` starts it without standard streams."""
    leash_out, leash = os.pipe()
    told, told_in = os.pipe()
    for descriptor in (leash_out, told_in):
        os.set_inheritable(descriptor, True)
    command = [sys.executable, "-c", APPLICATION, json.dumps(dict(options)), kind, str(leash_out), str(told_in)]
    if closed:
        command = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    process = subprocess.Popen(command, pass_fds=(leash_out, told_in), env={**os.environ, **(environment or {})})
    os.close(leash_out)
    os.close(told_in)
    with os.fdopen(told, "rb") as answer:
        # One write of less than a page arrives whole; an empty one: the application failed, and said why on stderr.
        text = os.read(answer.fileno(), 65536)
    if not text:
        raise AssertionError(f"the application ended with code {process.wait(timeout=DEADLINE_SECONDS)}")
    return Application(process, json.loads(text), leash)


def processes_on(folder: Path) -> set[int]:
    """Answer the processes whose command line names a folder, and their descendants."""
    tree = parents()
    found = {pid for pid in tree if pid != os.getpid() and str(folder) in command_line(pid)}
    while more := {pid for pid, parent in tree.items() if parent in found} - found:
        found |= more
    return found


def wait_until(condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> float:
    """Wait until something that sends no signal holds, and answer how long that took."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise AssertionError(f"did not happen within {seconds} s")
        time.sleep(0.01)
    return time.monotonic() - begun


def shared_memory_of(data: Path) -> tuple[str, str]:
    """Answer key and number of the System V segment that a PostgreSQL has made."""
    key, number = (data / "postmaster.pid").read_text().splitlines()[6].split()[:2]
    return key, number


def shared_memory() -> set[tuple[str, str]]:
    """Answer key and number of every System V segment of this machine (Linux)."""
    rows = (line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:])
    return {(row[0], row[1]) for row in rows}
