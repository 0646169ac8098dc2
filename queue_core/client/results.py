"""Waiting for a job's end: the job's channel reports it at once, reads of the store report it reliably."""

from __future__ import annotations

import time
from typing import Any, Generic, Protocol, TypeVar, cast

from queue_core.errors import JobCancelled, JobFailed, JobNotFound, ResultExpired, ResultTimeout
from queue_core.model.codec import decode_result
from queue_core.model.job import JobResult
from queue_core.model.states import FINAL, Status
from queue_core.ports.backend import Backend

R = TypeVar("R")


READ_BACK_FIRST, READ_BACK_MOST = 1.0, 5.0
"""Seconds between two reads of an awaited job, growing."""


class Results:
    """Reads the ends of jobs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def wait(self, queue: str, job_id: str, timeout: float | None) -> Any:
        """Wait for a job's completion and return its result; for the errors see JobHandle.result."""
        start = time.monotonic()
        pause = READ_BACK_FIRST
        async with self._backend.bus.watch(queue, job_id) as wait:
            while True:
                result = await self.result(job_id)
                if result.status in FINAL:
                    return _given(result)
                left = float("inf") if timeout is None else timeout - (time.monotonic() - start)
                if left <= 0:
                    raise ResultTimeout(job_id, cast(float, timeout))
                await wait(min(pause, left))
                pause = min(READ_BACK_MOST, pause * 1.5)

    async def result(self, job_id: str) -> JobResult:
        """Return a job's record.

        Raises:
            JobNotFound: no job has this id.
        """
        found = await self._backend.store.results([job_id])
        if not found:
            raise JobNotFound(job_id)
        return found[0]


def _given(result: JobResult) -> Any:
    if result.status is Status.DEAD:
        raise JobFailed(result.id, result.error or "no error was kept")
    if result.status is Status.CANCELLED:
        raise JobCancelled(result.id)
    if result.expired:
        raise ResultExpired(result.id)
    return decode_result(result.result)


class ResultSource(Protocol):
    """The methods of a queue that a handle needs."""

    async def wait_for(self, queue: str, job_id: str, timeout: float | None) -> Any:
        """Return the job's result."""
        ...

    async def status_of(self, job_id: str) -> Status:
        """Return the job's status."""
        ...


class JobHandle(Generic[R]):
    """One enqueued job."""

    __slots__ = ("_source", "created", "id", "queue", "type")

    def __init__(self, source: ResultSource, job_id: str, queue: str, type_: str, created: bool) -> None:
        self._source = source
        self.id = job_id
        self.queue = queue
        self.type = type_
        # False: an equal job already existed, and this is its handle
        self.created = created

    def __repr__(self) -> str:
        return f"<JobHandle {self.type} {self.id}>"

    async def result(self, timeout: float | None = None) -> R:
        """Wait until the job has completed and return what its handler returned; `timeout` in seconds, None for ever.

        Raises:
            JobFailed: the job is dead.
            JobCancelled: the job was cancelled.
            JobNotFound: the job was purged, or its retention has passed.
            ResultExpired: the job has completed, and its result has exceeded `retention.results`.
            ResultTimeout: not finished in time; the job continues.
        """
        return cast(R, await self._source.wait_for(self.queue, self.id, timeout))

    async def status(self) -> Status:
        """Return the job's status.

        Raises:
            JobNotFound: the job was purged, or its retention has passed.
        """
        return await self._source.status_of(self.id)
