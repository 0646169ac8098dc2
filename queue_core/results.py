"""Waiting for a job's end: its own channel says it at once, looks into the store say it surely."""

from __future__ import annotations

import time
from typing import Any, cast

from queue_core.codec import decode_result
from queue_core.errors import JobCancelled, JobFailed, JobNotFound, ResultExpired, ResultTimeout
from queue_core.job import Final
from queue_core.opening import Parts
from queue_core.states import FINAL, Status

READ_BACK_FIRST, READ_BACK_MOST = 1.0, 5.0
"""Seconds between two looks at a job that somebody waits for, growing."""


class Results:
    """Reads the ends of jobs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def wait(self, queue: str, job_id: str, timeout: float | None) -> Any:
        """Return a job's result once it has completed; see JobHandle.result for what it raises."""
        start = time.monotonic()
        pause = READ_BACK_FIRST
        async with self._parts.bus.watch(queue, job_id) as wait:
            while True:
                final = await self.final(job_id)
                if final.status in FINAL:
                    return _given(final)
                left = float("inf") if timeout is None else timeout - (time.monotonic() - start)
                if left <= 0:
                    raise ResultTimeout(job_id, cast(float, timeout))
                await wait(min(pause, left))
                pause = min(READ_BACK_MOST, pause * 1.5)

    async def final(self, job_id: str) -> Final:
        """Return what the store knows about a job.

        Raises:
            JobNotFound: no job has this id.
        """
        finals = await self._parts.store.finals([job_id])
        if not finals:
            raise JobNotFound(job_id)
        return finals[0]


def _given(final: Final) -> Any:
    if final.status is Status.DEAD:
        raise JobFailed(final.id, final.error or "no error was kept")
    if final.status is Status.CANCELLED:
        raise JobCancelled(final.id)
    if final.expired:
        raise ResultExpired(final.id)
    return decode_result(final.result)
