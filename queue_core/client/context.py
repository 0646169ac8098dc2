"""The context of a handler: the facts of its job, and its progress and log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from queue_core.model.job import Claim, attempt_of, cut_line, headers_of
from queue_core.model.text import storable
from queue_core.model.validation import check_percent

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
    def headers(self) -> dict[str, str]:
        """What travels with the job beside its payload, as it was given at the enqueue or by a hook before it."""
        return headers_of(self._claim.headers)

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
    """Receives a handler's log lines and its newest progress; progress in between is dropped."""

    def report(self, percent: int, message: str) -> None:
        """Record the newest progress, 0 to 100."""
        ...

    def log(self, text: str) -> bool:
        """Record a log line; return True when lines come faster than they are written."""
        ...

    @property
    def stopping(self) -> str:
        """The reason why the attempt should end; empty while it may continue."""
        ...


class JobContext(ClaimFacts):
    """Given to a handler whose first parameter is annotated with it (or named `ctx`)."""

    __slots__ = ("_begin", "_sink", "payload", "state", "worker")

    def __init__(
        self,
        claim: Claim,
        payload: dict[str, Any],
        worker: str,
        sink: Sink,
        begin: Callable[[], AbstractAsyncContextManager[Any]],
        state: SimpleNamespace,
    ) -> None:
        super().__init__(claim)
        self._sink = sink
        self._begin = begin
        self.payload = payload
        self.worker = worker
        # what `@jobs.lifespan` has set up in this process
        self.state = state

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._claim.id

    @property
    def stopping(self) -> str:
        """Why the handler should end: soft_timeout, timeout, cancel, lost or release; empty while it may continue.

        For plain functions, which cannot be interrupted: check it between two steps. `lost`: the lease is lost, and
        another worker may run the job; `release`: its worker stops, and the job is released.
        """
        return self._sink.stopping

    async def progress(self, percent: float, message: str = "") -> None:
        """Report the job's progress, 0 to 100. Calls in a tight loop are cheap: only the newest is sent.

        Raises:
            InvalidArgument: no number.
        """
        self.progress_now(percent, message)

    def progress_now(self, percent: float, message: str = "") -> None:
        """Do the same for handlers that are plain functions."""
        self._sink.report(check_percent(percent), storable(str(message)[:200]))

    async def log(self, text: str) -> None:
        """Append a line to the job's log, where console and command line show it.

        It is cut at 4 KiB, and a job keeps its newest 1,000 lines. Lines reach the store soon, and before the attempt's
        end does; how much a loop of calls writes is bounded, and it lets other jobs run.
        """
        if self._sink.log(cut_line(str(text))):
            await asyncio.sleep(0)

    def log_now(self, text: str) -> None:
        """Do the same for handlers that are plain functions."""
        self._sink.log(cut_line(str(text)))

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """Yield a psycopg connection whose statements commit together with the completion of this job.

        They commit when the handler returns, not when the block ends. Any other end of the attempt rolls them back: an
        exception, a cancellation, a time limit, a lost lease (`StaleLease`). An exception that leaves the block
        rolls back its statements, also if the handler catches it. For async handlers on a store in PostgreSQL.

        Raises:
            TransactionError: this store, or this kind of handler, has no such transaction.
            StoreUnavailable: on entering the block: no connection in time. A handler that lets this through is not to
                blame: its job goes back to its place, without using an attempt.
        """
        return self._begin()
