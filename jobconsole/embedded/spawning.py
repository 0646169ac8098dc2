"""Starting a program so that it ends with the guard; light, because the guard loads it."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from jobconsole.embedded.leftovers import LINUX

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Settings of the user's own clients and service managers that must not reach these servers.
FOREIGN_VARIABLES = ("PG", "NOTIFY_", "LISTEN_")


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent was killed, so that they can be reaped here (Linux)."""
    if LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def environment() -> dict[str, str]:
    """Answer the environment of the servers: neutral language and time zone, nothing of the user's own clients."""
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
    """Answer the end of a log as one line of text."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "(no log)"
    return " | ".join(lines[-count:]) or "(empty log)"
