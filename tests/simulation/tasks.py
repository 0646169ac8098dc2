"""The kinds of jobs of a schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from queue_core import JobContext, JobQueue, Retry

Handle = Callable[[JobContext, float], Awaitable[dict[str, int]]]

KINDS = ("work", "work", "work", "fails_first", "too_slow", "stubborn")
"""Types of jobs, as often as they are chosen."""
PATIENT = Retry(max_retries=5, delay=0.5)


def register(jobs: JobQueue, source: Random, handle: Handle) -> None:
    """Register a handler of each kind, which does its work with `handle`."""

    @jobs.task(retry=PATIENT, timeout=60)
    async def work(ctx: JobContext, seconds: float) -> dict[str, int]:
        return await handle(ctx, seconds)

    @jobs.task(retry=PATIENT, timeout=60)
    async def fails_first(ctx: JobContext, seconds: float, times: int) -> dict[str, int]:
        done = await handle(ctx, seconds)
        if ctx.attempt <= times:
            raise OSError("not yet")
        return done

    @jobs.task(retry=Retry(max_retries=1, delay=0.5), timeout=1)
    async def too_slow(ctx: JobContext, seconds: float) -> dict[str, int]:
        return await handle(ctx, 4.0 + seconds)

    @jobs.task(retry=PATIENT, timeout=60)
    async def stubborn(ctx: JobContext, seconds: float) -> dict[str, int]:
        """Goes on for a while where it is cancelled."""
        try:
            return await handle(ctx, seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(source.uniform(0.0, 8.0))
            raise
