"""Whether a server that is not needed for correctness is used now, or left alone for a while after it failed."""

from __future__ import annotations

import logging

from queue_core.clock import Clock, SystemClock

FIRST, MOST = 0.25, 5.0
"""Seconds until a lost server is tried again, doubling with each failure."""
SETTLED = 10.0
"""Seconds without a failure after which the pauses start small again, so that a flapping server is not run after. Only
then is one back that had failed soon after its return: it flaps, or it is full and can only be read."""

logger = logging.getLogger("queue_core.delivery")


class Circuit:
    """Closed while the server works; open for a pause after each failure, then one call goes through to try it.

    A loss is said once, and its end once: a server that works in between and fails again has not been back.
    """

    def __init__(self, name: str, clock: Clock | None = None, meanwhile: str = "going on without it") -> None:
        self._name = name
        # what a loss means, for the log
        self._meanwhile = meanwhile
        self._clock = clock or SystemClock()
        self._open = self._trying = self._flapping = False
        self._pause = FIRST
        # seconds of the monotonic clock
        self._retry_at = self._failed_at = self._closed_at = float("-inf")
        self.reason = ""
        # seconds since the epoch at which the server was lost; None while it works and has done for a while
        self.lost_since: float | None = None

    def allows(self) -> bool:
        """Tell whether to call the server now."""
        if not self._open:
            return True
        now = self._clock.monotonic()
        if now < self._retry_at:
            return False
        # This caller tries; the others wait until it is known what came of it.
        self._trying = True
        self._retry_at = now + self._pause
        return True

    def failed(self, reason: str) -> None:
        """Note that a call failed."""
        now = self._clock.monotonic()
        if not self._open:
            self._open = True
            self._flapping = now - self._closed_at < SETTLED
            if now - self._failed_at > SETTLED:
                self._pause = FIRST
        if self.lost_since is None:
            self.lost_since = self._clock.now()
            logger.warning("%s lost, %s: %s", self._name, self._meanwhile, reason)
        self._trying = False
        self.reason = reason
        self._failed_at = now
        self._retry_at = now + self._pause
        self._pause = min(MOST, self._pause * 2)

    def worked(self) -> None:
        """Note that a call worked; one that was on its way when another failed says nothing."""
        if self.lost_since is None or (self._open and not self._trying):
            return
        now = self._clock.monotonic()
        if self._open:
            self._open = self._trying = False
            self._closed_at = now
        if not self._flapping or now - self._failed_at >= SETTLED:
            logger.warning("%s is back after %.1f s", self._name, self._clock.now() - self.lost_since)
            self.lost_since = None
            self.reason = ""
