"""The handle that enqueue returns: who the job is, and a way to its result."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, cast

from queue_core.states import Status

R = TypeVar("R")


class ResultSource(Protocol):
    """What a handle needs of its queue."""

    async def wait_for(self, queue: str, job_id: str, timeout: float | None) -> Any:
        """Return the job's result."""
        ...

    async def status_of(self, job_id: str) -> Status:
        """Return where the job is in its life."""
        ...


class JobHandle(Generic[R]):
    """One enqueued job."""

    __slots__ = ("_source", "created", "id", "queue", "type")

    def __init__(self, source: ResultSource, job_id: str, queue: str, type_: str, created: bool) -> None:
        self._source = source
        self.id = job_id
        self.queue = queue
        self.type = type_
        # False: an equal job was there already, and this handle is that job's
        self.created = created

    def __repr__(self) -> str:
        return f"<JobHandle {self.type} {self.id}>"

    async def result(self, timeout: float | None = None) -> R:
        """Wait until the job has completed and return what its handler returned; `timeout` in seconds, None for ever.

        Raises:
            JobFailed: the job is dead.
            JobCancelled: the job was cancelled.
            JobNotFound: the job is gone: purged, or over its retention.
            ResultExpired: the job has completed, and its result is over `retention.results`.
            ResultTimeout: not finished in time; it goes on.
        """
        return cast(R, await self._source.wait_for(self.queue, self.id, timeout))

    async def status(self) -> Status:
        """Return where the job is in its life.

        Raises:
            JobNotFound: the job is gone: purged, or over its retention.
        """
        return await self._source.status_of(self.id)
