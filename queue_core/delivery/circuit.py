"""Whether a server that is not needed for correctness is used now, or left alone for a while after it failed."""

from __future__ import annotations

import logging
import time

FIRST, MOST = 0.25, 5.0
"""Seconds until a lost server is tried again, doubling with each failure."""
SETTLED = 10.0
"""Seconds without a failure after which the pauses start small again, so that a flapping server is not run after."""

logger = logging.getLogger("queue_core.delivery")


class Circuit:
    """Closed while the server works; open for a pause after each failure, then one call goes through to try it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pause = FIRST
        self._retry_at = 0.0
        self._failed_at = float("-inf")
        self.reason = ""
        # seconds since the epoch at which the server was lost; None while it works
        self.lost_since: float | None = None

    def allows(self) -> bool:
        """Tell whether to call the server now."""
        if self.lost_since is None:
            return True
        now = time.monotonic()
        if now < self._retry_at:
            return False
        # This caller tries; the others wait until it is known what came of it.
        self._retry_at = now + self._pause
        return True

    def failed(self, reason: str) -> None:
        """Note that a call failed."""
        now = time.monotonic()
        if self.lost_since is None:
            if now - self._failed_at > SETTLED:
                self._pause = FIRST
            self.lost_since = time.time()
            logger.warning("%s lost, going on without it: %s", self._name, reason)
        self.reason = reason
        self._failed_at = now
        self._retry_at = now + self._pause
        self._pause = min(MOST, self._pause * 2)

    def worked(self) -> None:
        """Note that a call worked."""
        if self.lost_since is not None:
            logger.warning("%s is back after %.1f s", self._name, time.time() - self.lost_since)
            self.lost_since = None
            self.reason = ""
