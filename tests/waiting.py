"""Waiting for what sends no signal to a test."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

PATIENCE = 60.0
"""Seconds until something that has to happen counts as not happening; a machine under load is slow."""
STEP = 0.02


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
