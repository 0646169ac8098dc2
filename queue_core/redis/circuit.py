"""The circuit breaker: a server that fails is left alone for a while, and tried by one call at a time."""

from __future__ import annotations

import logging

from queue_core.runtime import Clock, SystemClock

logger = logging.getLogger("queue_core.delivery")


FIRST_PAUSE, MAX_PAUSE = 0.25, 5.0
"""Seconds until a lost server is tried again, doubling with each failure."""
SETTLED_SECONDS = 10.0
"""Seconds without a failure after which the pauses start small again, so that a flapping server is not run after. Only
then is one back that had failed soon after its return: it flaps, or it is full and can only be read."""


class CircuitBreaker:
    """Closed while the server works; open for a pause after each failure, then one call goes through to try it.

    A loss is logged once, and its end once: a server that works in between and fails again has not been back. What
    comes of a call is about the server as it was when the call began: a pop that waits on a frozen primary
    fails seconds after its successor has taken over.
    """

    def __init__(self, name: str, clock: Clock | None = None, meanwhile: str = "going on without it") -> None:
        self._name = name
        # what a loss means, for the log
        self._meanwhile = meanwhile
        self._clock = clock or SystemClock()
        self._open = self._flapping = False
        # counts losses and returns: a call belongs to that in which it began
        self.era = 0
        self._pause = FIRST_PAUSE
        # seconds of the monotonic clock
        self._retry_at = self._failed_at = self._closed_at = float("-inf")
        self.reason = ""
        # seconds since the epoch at which the server was lost; None while it works and has done for a while
        self.lost_since: float | None = None

    def allows(self) -> bool:
        """Return whether to call the server now."""
        if not self._open:
            return True
        now = self._clock.monotonic()
        if now < self._retry_at:
            return False
        # This caller tries; the others wait until it is known what came of it.
        self._retry_at = now + self._pause
        return True

    def failed(self, reason: str, era: int, state: str = "lost") -> None:
        """Note that a call failed which began in this era; one from before the last loss or return is ignored.

        `state`: what the server is then, for the log.
        """
        if era != self.era:
            return
        now = self._clock.monotonic()
        if not self._open:
            self._open = True
            self.era += 1
            self._flapping = now - self._closed_at < SETTLED_SECONDS
            if now - self._failed_at > SETTLED_SECONDS:
                self._pause = FIRST_PAUSE
        if self.lost_since is None:
            self.lost_since = self._clock.now()
            logger.warning("%s %s, %s: %s", self._name, state, self._meanwhile, reason)
        self.reason = reason
        self._failed_at = now
        self._retry_at = now + self._pause
        self._pause = min(MAX_PAUSE, self._pause * 2)

    def worked(self, era: int) -> None:
        """Note that a call worked which began in this era; one from before the last loss or return is ignored."""
        if self.lost_since is None or era != self.era:
            return
        now = self._clock.monotonic()
        if self._open:
            self._open = False
            self.era += 1
            self._closed_at = now
        if not self._flapping or now - self._failed_at >= SETTLED_SECONDS:
            logger.warning("%s is back after %.1f s", self._name, self._clock.now() - self.lost_since)
            self.lost_since = None
            self.reason = ""
