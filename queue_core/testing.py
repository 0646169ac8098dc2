"""Help for the tests of those who use this package."""

from __future__ import annotations


class FakeClock:
    """A `Clock` that stands still until somebody moves it."""

    def __init__(self, now: float = 1_767_225_600.0) -> None:
        self._now = now
        self._passed = 0.0

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._now + self._passed

    def monotonic(self) -> float:
        """Return the seconds that passed since the clock was made."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let this much time pass.

        Raises:
            ValueError: the time is negative; use `set_back` for a clock that jumps.
        """
        if seconds < 0:
            raise ValueError("time does not pass backwards; use set_back to let the clock jump")
        self._passed += seconds

    def set_back(self, seconds: float) -> None:
        """Set the time of day back as a person or a time server may, while the monotonic clock goes on."""
        self._now -= seconds
