"""When the producer enqueues how much: waves that the workers drain within seconds, whatever the machine can do."""

from __future__ import annotations

DRAIN_SECONDS = 3.0
"""How long the workers should have to do with one wave."""
PERIOD_SECONDS = 4.5
"""From one wave to the next: the rest is left to whatever else this machine does."""
FIRST, SMALLEST, LARGEST = 300, 40, 800
"""Jobs of a wave."""


class Pace:
    """Decides at each tick how many jobs come next; all times are seconds of one monotonic clock."""

    def __init__(self, rate: float | None = None) -> None:
        self.size = FIRST
        self._rate = rate
        # when the last wave came, and whether the workers have been seen to be done with it
        self._last: float | None = None
        self._drained = True
        # what the rate has allowed so far and has not been used
        self._since: float | None = None
        self._sent = 0

    def wave(self, now: float, queued: int) -> int:
        """Return how many small jobs to enqueue now as a wave, 0 for none; `queued` jobs are waiting to be run."""
        if self._last is not None:
            if not self._drained and queued < self.size // 5:
                self._drained = True
                self._adapt(now - self._last)
            if not self._drained or now - self._last < PERIOD_SECONDS:
                return 0
        self._last = now
        self._drained = False
        return self.size

    def _adapt(self, took: float) -> None:
        """Grow or shrink the waves by at most a factor of two, so that one slow moment does not decide."""
        factor = min(2.0, max(0.5, DRAIN_SECONDS / max(took, 0.1)))
        self.size = min(LARGEST, max(SMALLEST, round(self.size * factor)))

    def allowed(self, now: float) -> int:
        """Return how many jobs the rate still allows at this moment."""
        if self._rate is None:
            return LARGEST * 2
        self._since = now if self._since is None else self._since
        # One second is paid in advance: something happens at once.
        return int((now - self._since + 1.0) * self._rate) - self._sent

    def sent(self, count: int) -> None:
        """Note that so many jobs were enqueued."""
        self._sent += count
