"""One held job of a worker: from its claim until its outcome is stored or its lease is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, Literal, Protocol

from queue_core.job import Claim, Outcome, Settled, attempt_of

StopReason = Literal["timeout", "cancel", "lost", "release"]


class LineKeeper(Protocol):
    """What takes the lines of an attempt."""

    def note(self, attempt: Attempt, text: str, line: int = 0) -> bool:
        """Note a line, numbered already or not; True when lines come faster than they are written."""
        ...

    async def write_first(self, attempts: Iterable[Attempt]) -> None:
        """Write the lines of attempts that are about to end."""
        ...


class OwnTransaction(Protocol):
    """In which a handler's attempt ends; see queue_core.worker.completion."""

    def block(self) -> AbstractAsyncContextManager[Any]:
        """Give its connection to the handler."""
        ...

    async def undo(self) -> None:
        """Roll back what the handler did."""
        ...

    async def end(self, attempt: Attempt, outcome: Outcome, failed: Callable[[Exception], Outcome]) -> Outcome:
        """Commit a completed attempt, or roll back, and return how it ended."""
        ...


class Attempt:
    """Mutable on purpose: the runner, the settler and the heartbeat each keep their part here."""

    __slots__ = (
        "abandoned",
        "ahead",
        "claim",
        "completion",
        "deadline",
        "ending",
        "handed_back",
        "journal",
        "late",
        "logged",
        "message",
        "perhaps",
        "progress",
        "renewed",
        "settled",
        "started",
        "stop_reason",
        "stopped_at",
        "task",
        "thread",
        "unheard",
        "untold",
    )

    def __init__(self, claim: Claim, claimed_at: float, journal: LineKeeper | None = None) -> None:
        self.claim = claim
        # None while it waits for a slot
        self.task: asyncio.Task[None] | None = None
        # seconds of time.perf_counter
        self.started = 0.0
        # seconds of time.monotonic; infinity = no limit
        self.deadline = inf
        # seconds of time.monotonic before which the lease was surely renewed (at first: claimed)
        self.renewed = claimed_at
        # why the runner cancelled the task
        self.stop_reason: StopReason | None = None
        # when, in seconds of time.monotonic
        self.stopped_at = inf
        # settled although its handler goes on, which swallowed the cancellation: nothing that it does counts any more
        self.abandoned = False
        # identifier of the thread that runs a plain function
        self.thread: int | None = None
        self.progress: int | None = None
        self.message = ""
        # progress that neither the store nor the subscribers have heard of
        self.untold = False
        # over its soft time limit
        self.late = False
        # claimed for a slot that was not free yet, and the store has not heard that it has begun
        self.ahead = False
        # given back before it began, while the event loop stood still: it must not begin any more
        self.handed_back = False
        # where lines go; None: nowhere
        self.journal = journal
        # the number of its last line
        self.logged = 0
        # the store refused a line because the lease is over: it would refuse all others, too
        self.unheard = False
        # the handler's own transaction, once it has asked for one
        self.completion: OwnTransaction | None = None
        # that transaction is being committed: whoever wants to stop the attempt comes too late
        self.ending = False
        # the store's answer to that, which is the end of the attempt
        self.settled: Settled | None = None
        # what has been stored, should the store refuse the outcome: the answer to a commit got lost
        self.perhaps: Outcome | None = None

    @property
    def stopping(self) -> str:
        """Why the attempt shall end; empty while it may go on."""
        return self.stop_reason or ("soft_timeout" if self.late else "")

    def report(self, percent: int, message: str) -> None:
        """Note the newest progress; called by handlers, from any thread."""
        self.progress = percent
        self.message = message
        self.untold = True

    def log(self, text: str) -> bool:
        """Note a line; called by handlers, from any thread. True when lines come faster than they are written."""
        return self.journal is not None and not self.unheard and self.journal.note(self, text)

    def relay(self, lines: Iterable[tuple[int, str]]) -> None:
        """Note lines that a child process has numbered."""
        if self.journal is not None and not self.unheard:
            for line, text in lines:
                self.journal.note(self, text, line)

    def has_news(self) -> bool:
        """Tell whether the store does not know yet that a job which waited for its slot has begun."""
        return self.ahead and self.started > 0

    def run_us(self) -> int:
        """Return the microseconds since the handler was started."""
        return round((time.perf_counter() - self.started) * 1e6) if self.started else 0

    def stop(self, reason: StopReason) -> None:
        """Cancel the handler; the first reason counts."""
        if self.stop_reason is None and not self.ending:
            self.stop_reason = reason
            self.stopped_at = time.monotonic()
            if self.task is not None:
                self.task.cancel()


def describe(claim: Claim, worker: str) -> dict[str, Any]:
    """Return what a `claimed` event says."""
    return {"priority": claim.priority, "attempt": attempt_of(claim), "worker": worker}
