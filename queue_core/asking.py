"""What a handler raises to say itself when its job goes on."""

from __future__ import annotations

from datetime import datetime, timedelta

from queue_core.validation import check_delay, check_run_at


class RetryLater(Exception):
    """End this attempt as failed and try again after a delay, or after the policy's when it is left out.

    It uses an attempt: without retries left the job is buried. `raise RetryLater(delay="5m") from error`
    keeps that error as the reason. `delay` is seconds, "5m" or a timedelta.
    """

    def __init__(self, message: str = "", *, delay: float | str | timedelta | None = None) -> None:
        # seconds
        self.delay = None if delay is None else check_delay(delay)
        super().__init__(message or "the handler asked for a retry")


class Reschedule(Exception):
    """Give the job back without using an attempt: to the back of its queue, after a delay, or at a time.

    Whichever it is, it then stands behind the jobs of its priority that arrived before. `delay` is seconds, "5m" or a
    timedelta; `at` a datetime with its zone.
    """

    def __init__(self, *, delay: float | str | timedelta | None = None, at: datetime | None = None) -> None:
        if delay is not None and at is not None:
            raise ValueError("give either delay or at, not both")
        # seconds
        self.delay = 0.0 if delay is None else check_delay(delay)
        # seconds since the epoch
        self.run_at = None if at is None else check_run_at(at)
        super().__init__("the handler gave its job back")
