"""Files that hold text of jobs: for their owner alone, never over another file, never through somebody's link."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO


def create(path: Path) -> TextIO:
    """Return a new file for UTF-8 text that nobody but its owner can read.

    Raises:
        FileExistsError: something has this name, be it a link that leads nowhere.
        OSError: it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", newline="")


def discard(path: Path) -> None:
    """Remove a file of this program, if it is there."""
    path.unlink(missing_ok=True)


def write_over(path: Path, text: str) -> None:
    """Put a text in place of what this program wrote there before; whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with create(fresh) as stream:
            stream.write(text)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def state_folder() -> Path:
    """Return where this user's programs keep what outlives them."""
    home = os.environ.get("XDG_STATE_HOME", "")
    # The specification: a relative path there is to be ignored.
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    return base / "jobconsole"
