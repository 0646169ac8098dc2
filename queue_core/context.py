"""What a handler is told about its job, and what it can tell about itself."""

from __future__ import annotations

from typing import Any, Protocol

from queue_core.job import Claim
from queue_core.text import storable


class ProgressSink(Protocol):
    """Takes the newest progress of an attempt; what is told in between is dropped."""

    def report(self, percent: int, message: str) -> None:
        """Note the newest progress, 0 to 100."""
        ...


class JobContext:
    """Given to a handler whose first parameter is annotated with it (or named `ctx`)."""

    __slots__ = ("_claim", "_sink", "payload", "worker")

    def __init__(self, claim: Claim, payload: dict[str, Any], worker: str, sink: ProgressSink) -> None:
        self._claim = claim
        self._sink = sink
        self.payload = payload
        self.worker = worker

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._claim.id

    @property
    def token(self) -> int:
        """The lease token of this attempt: higher than that of every attempt before."""
        return self._claim.token

    @property
    def type(self) -> str:
        """The task's name."""
        return self._claim.type

    @property
    def queue(self) -> str:
        """The queue that the job came from."""
        return self._claim.queue

    @property
    def priority(self) -> int:
        """The job's priority."""
        return self._claim.priority

    @property
    def tags(self) -> tuple[str, ...]:
        """The job's tags."""
        return self._claim.tags

    @property
    def attempt(self) -> int:
        """1 for the first attempt; crashes count, releases do not."""
        return self._claim.retry_count + self._claim.crashes + 1

    @property
    def max_retries(self) -> int:
        """How often the job may be retried."""
        return self._claim.max_retries

    async def progress(self, percent: float, message: str = "") -> None:
        """Tell how far the job is, 0 to 100. A tight loop of calls costs nothing: only the newest is sent on."""
        self.progress_now(percent, message)

    def progress_now(self, percent: float, message: str = "") -> None:
        """The same for handlers that are plain functions."""
        self._sink.report(max(0, min(100, int(percent))), storable(str(message)[:200]))
