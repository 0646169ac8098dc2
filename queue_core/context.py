"""What a handler is told about its job, and what it can tell about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from queue_core.claim_facts import ClaimFacts
from queue_core.job import Claim
from queue_core.joblogs import cut_line
from queue_core.text import storable

if TYPE_CHECKING:
    from psycopg import AsyncConnection


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
