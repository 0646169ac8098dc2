"""What a handler is told about its job, and what it can tell about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from queue_core.model.job import Claim, attempt_of, cut_line
from queue_core.model.text import storable

if TYPE_CHECKING:
    from psycopg import AsyncConnection


class ClaimFacts:
    """The facts of a claim, under the names that programs use."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    @property
    def token(self) -> int:
        """The lease token of this attempt: higher than that of every attempt before."""
        return self._claim.token

    @property
    def type(self) -> str:
        """The job's type, which is its task's name."""
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
        """1 for the first attempt; crashes and losses count, releases do not."""
        return attempt_of(self._claim)

    @property
    def max_retries(self) -> int:
        """How often the job may be retried."""
        return self._claim.max_retries

    @property
    def ordering_key(self) -> str | None:
        """The key under which jobs of this queue run one at a time and in order, if it has one."""
        return self._claim.ordering_key


class Sink(Protocol):
    """Takes what a handler tells: lines, and the newest progress; what was told in between is dropped."""

    def report(self, percent: int, message: str) -> None:
        """Note the newest progress, 0 to 100."""
        ...

    def log(self, text: str) -> bool:
        """Note a line; True when lines come faster than they are written."""
        ...

    @property
    def stopping(self) -> str:
        """Why the attempt shall end; empty while it may go on."""
        ...


class JobContext(ClaimFacts):
    """Given to a handler whose first parameter is annotated with it (or named `ctx`)."""

    __slots__ = ("_begin", "_sink", "payload", "worker")

    def __init__(
        self,
        claim: Claim,
        payload: dict[str, Any],
        worker: str,
        sink: Sink,
        begin: Callable[[], AbstractAsyncContextManager[Any]],
    ) -> None:
        super().__init__(claim)
        self._sink = sink
        self._begin = begin
        self.payload = payload
        self.worker = worker

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._claim.id

    @property
    def stopping(self) -> str:
        """Why the handler should end: soft_timeout, timeout, cancel, lost or release; empty while it may go on.

        For plain functions, which nothing can interrupt: look at it between two steps. `lost`: the lease is over, and
        another worker may run the job; `release`: its worker stops, and the job is given back.
        """
        return self._sink.stopping

    async def progress(self, percent: float, message: str = "") -> None:
        """Tell how far the job is, 0 to 100. A tight loop of calls costs nothing: only the newest is sent on."""
        self.progress_now(percent, message)

    def progress_now(self, percent: float, message: str = "") -> None:
        """The same for handlers that are plain functions."""
        self._sink.report(max(0, min(100, int(percent))), storable(str(message)[:200]))

    async def log(self, text: str) -> None:
        """Append a line to the job's log, where console and command line show it.

        It is cut at 4 KiB, and a job keeps its newest 1,000 lines. Lines reach the store soon, and before the attempt's
        end does; how much a loop of calls writes is bounded, and it lets other jobs run.
        """
        if self._sink.log(cut_line(str(text))):
            await asyncio.sleep(0)

    def log_now(self, text: str) -> None:
        """The same for handlers that are plain functions."""
        self._sink.log(cut_line(str(text)))

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """Give a psycopg connection whose statements commit together with the completion of this job.

        That is when the handler returns, not when the block ends. Whatever else ends the attempt rolls them back: an
        exception, a cancellation, a time limit, a lease that is over (`StaleLease`). An exception that leaves the block
        rolls back what was done in it, also if the handler catches it. For async handlers on a store in PostgreSQL.

        Raises:
            TransactionError: this store, or this kind of handler, has no such transaction.
            StoreUnavailable: on entering the block: no connection in time.
        """
        return self._begin()
