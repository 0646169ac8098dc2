"""What a person can put right while the demo runs, so that a retry from the DLQ succeeds."""

from __future__ import annotations

import random
import shlex
import socket
from pathlib import Path

from jobconsole.demo.errors import DemoError
from jobconsole.demo.folder import Folder

PORTS = range(20_000, 30_000)
"""Below the ports that systems give to outgoing connections: one of those could connect to itself."""


def closed_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on.

    Raises:
        DemoError: none was found.
    """
    # Two demos at once must not find the same one; nothing else depends on the number.
    for port in random.sample(PORTS, 50):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DemoError("No free port was found on 127.0.0.1 between 20000 and 30000.")


def repair_hints(folder: Folder, port: int) -> list[str]:
    """Return one line for each kind of failure that can be repaired: what to run in another terminal, what to retry."""
    hints = [
        f"read_document: {_copy(folder.good / folder.document.name, folder.document)}",
        f"notify: python3 -m http.server {port} --bind 127.0.0.1 --directory {_quoted(folder.good)}",
    ]
    if folder.picture.exists():
        hints.append(f"thumbnail: {_copy(folder.good / folder.picture.name, folder.picture)}")
    return [f"repair {hint}" for hint in hints]


def _copy(good: Path, broken: Path) -> str:
    return f"cp {_quoted(good)} {_quoted(broken)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
