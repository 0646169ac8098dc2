"""The clock that is handed in wherever time is decided on, so that tests can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time; both values are in seconds."""

    def now(self) -> float:
        """Return the seconds since the epoch, which a person can set back or forth."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow, for deadlines and durations."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()
