"""A small program of its own that outlives the demo by a moment: it ends what the demo has started, however it died.

Its standard input is a pipe from the demo. `session N` entrusts it with a session, `gone N` takes that back, and the
pipe's end, which also comes when the demo is killed, makes it kill all sessions and remove the folder it was named.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

REMOVAL_SECONDS = 5.0
"""How long the removal is repeated while dying processes still write into the folder."""


def main(folder: Path) -> None:
    """Wait for the pipe's end, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    sessions: set[int] = set()
    for line in sys.stdin:
        match line.split():
            case ["session", pid]:
                sessions.add(int(pid))
            case ["gone", pid]:
                sessions.discard(int(pid))
    kill_sessions(sessions)
    remove(folder)


def kill_sessions(sessions: set[int]) -> None:
    """Kill every process of these sessions, stopped ones too, whatever groups they have made for themselves."""
    killed: set[int] = set()
    # Again until there are no new ones: a process may have been forking at that moment.
    while new := {pid for pid in _all_pids() if pid not in killed and _session(pid) in sessions}:
        for pid in new:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= new


def _all_pids() -> list[int]:
    try:
        names = [entry.name for entry in Path("/proc").iterdir()]
    except OSError:
        names = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=False).stdout.split()
    return [int(name) for name in names if name.isdigit()]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def remove(folder: Path) -> None:
    """Remove a folder, again and again until nothing is left."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.005)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
