"""Waiting for other processes, which send no signal to a test."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PATIENCE_SECONDS = 60.0


def until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """Look again and again until something holds, and answer whether it did in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pids: Iterable[int]) -> set[int]:
    """Return those of the processes that exist; one that only waits to be reaped is gone."""
    return {pid for pid in pids if _state(pid) not in {"", "Z", "X"}}


def _state(pid: int) -> str:
    try:
        os.kill(pid, 0)
        text = (Path("/proc") / str(pid) / "stat").read_text()
    except ProcessLookupError:
        return ""
    except OSError:
        return "?"  # no /proc here: it exists, and nothing more is known
    return text.rpartition(")")[2].split()[0]
