"""One held job of a worker: from its claim until its outcome is stored or its lease is lost."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from queue_core.job import Claim

StopReason = Literal["timeout", "cancel", "lost", "release"]


class Attempt:
    """Mutable on purpose: the runner, the settler and the heartbeat each keep their part here."""

    __slots__ = (
        "ahead",
        "claim",
        "deadline",
        "message",
        "progress",
        "renewed",
        "started",
        "stop_reason",
        "task",
        "thread",
        "untold",
    )

    def __init__(self, claim: Claim, claimed_at: float) -> None:
        self.claim = claim
        # None while it waits for a slot
        self.task: asyncio.Task[None] | None = None
        # seconds of time.perf_counter
        self.started = 0.0
        # seconds of time.monotonic; infinity = no limit
        self.deadline = float("inf")
        # seconds of time.monotonic before which the lease was surely renewed (at first: claimed)
        self.renewed = claimed_at
        # why the runner cancelled the task
        self.stop_reason: StopReason | None = None
        # identifier of the thread that runs a plain function
        self.thread: int | None = None
        self.progress: int | None = None
        self.message = ""
        # progress that neither the store nor the subscribers have heard of
        self.untold = False
        # claimed for a slot that was not free yet, and the store has not heard that it has begun
        self.ahead = False

    def report(self, percent: int, message: str) -> None:
        """Note the newest progress; called by handlers, from any thread."""
        self.progress = percent
        self.message = message
        self.untold = True

    def has_news(self) -> bool:
        """Tell whether the store does not know yet that a job which waited for its slot has begun."""
        return self.ahead and self.started > 0

    def run_us(self) -> int:
        """Return the microseconds since the handler was started."""
        return round((time.perf_counter() - self.started) * 1e6) if self.started else 0

    def stop(self, reason: StopReason) -> None:
        """Cancel the handler; the first reason counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            if self.task is not None:
                self.task.cancel()


def describe(claim: Claim, **extra: Any) -> dict[str, Any]:
    """Return what a `claimed` event says."""
    return {"priority": claim.priority, "attempt": claim.retry_count + claim.crashes + 1, **extra}
