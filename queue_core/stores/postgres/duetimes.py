"""How far back to look for jobs that are due: ever, while that is fast.

What was promoted stays in front of what is due next until it is vacuumed away, which an open snapshot holds up.
"""

from __future__ import annotations

import time
from collections import deque

EVER = 1e9
"""Seconds that reach back before every job."""
BACK = 5.0
"""Seconds for which due jobs are looked for in any case; earlier ones, which somebody had locked, at times."""
USUAL, LOOKS, PAUSE = 0.01, 8, 20.0
"""Seconds of a look that is not slow; how many in a row are needed; their pause, as a multiple of their time."""


class DueTimes:
    """What the last looks took."""

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=LOOKS)
        self._ever_at = float("-inf")

    def back(self) -> float:
        """Return the seconds before now from which on to look."""
        return EVER if time.monotonic() >= self._ever_at else BACK

    def took(self, back: float, seconds: float) -> None:
        """Note how long a look took that found little."""
        if back != EVER:
            return
        self._took.append(seconds)
        least = min(self._took)
        if len(self._took) == LOOKS and least > USUAL:
            self._ever_at = time.monotonic() + PAUSE * least
