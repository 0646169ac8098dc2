"""Waiting for what sends no signal to a test."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

PATIENCE = 60.0
"""Seconds until something that has to happen counts as not happening; a machine under load is slow."""
STEP = 0.02
ENDED = {"", "Z", "X"}
"""States of a process that is gone, or waits only for its parent to ask how it ended."""


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Look again and again until something holds, and answer whether it did in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(STEP)
    return True


async def eventually(condition: Callable[[], object | Awaitable[object]], seconds: float = PATIENCE) -> bool:
    """Do the same in an event loop; the condition may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(STEP)


async def least(measure: Callable[[], Awaitable[float]], enough: float, times: int = 3) -> float:
    """Measure until it is little enough, at most so many times; return the least.

    A neighbour that takes the processor for a second lets a worker miss its turn, and what follows is not idle.
    """
    found = [await measure()]
    while found[-1] > enough and len(found) < times:
        found.append(await measure())
    return min(found)


def running(pids: Iterable[int]) -> set[int]:
    """Return those of the processes that run; one that is dead but not yet reaped does not."""
    return {pid for pid in pids if is_running(pid)}


def is_running(pid: int) -> bool:
    """Answer whether a process runs, whoever started it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _state(pid) not in ENDED


def _state(pid: int) -> str:
    """Return the letter of a process's state; "" when it ended meanwhile, while its file was read too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        if Path("/proc/self/stat").exists():
            return ""
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listing.stdout.strip()[:1]
