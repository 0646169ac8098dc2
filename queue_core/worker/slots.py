"""How many child processes a worker has at a time; the jobs beyond wait, and their time limits do not run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from queue_core.tasks import Definition
from queue_core.worker.attempt import Attempt

START_SECONDS = 30.0
"""What a new child may take to import the queue object before the job's time limit begins."""


class Slots:
    """So many places for children, given as they were asked for; None: one for each processor, but at least some."""

    def __init__(self, most: int | None, least: int) -> None:
        self._free = asyncio.Semaphore(max(least, os.cpu_count() or 1) if most is None else most)
        # attempts that no child has taken yet
        self._waiting: set[Attempt] = set()

    @asynccontextmanager
    async def taken(self, attempt: Attempt) -> AsyncIterator[None]:
        """Wait for a place and hold it.

        Raises:
            CancelledError: the attempt was stopped.
        """
        self._waiting.add(attempt)
        try:
            async with self._free:
                self._waiting.discard(attempt)
                yield
        finally:
            self._waiting.discard(attempt)

    def hold_back(self) -> None:
        """Begin nothing more: give back the jobs that wait."""
        for attempt in list(self._waiting):
            attempt.stop("release")


def begin(attempt: Attempt, definition: Definition, seconds: float = 0.0) -> None:
    """Count the attempt's run time from now on, and its time limit from so many seconds later."""
    attempt.started = time.perf_counter()
    if definition.timeout:
        attempt.deadline = time.monotonic() + seconds + definition.timeout
