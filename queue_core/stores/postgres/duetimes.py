"""Looks that read what ended as well: each as a whole while that is fast, and rarely while it is not.

What was promoted stays in front of what is due next, and what was claimed in front of what is ready, until it is
vacuumed away, which an open snapshot holds up.
"""

from __future__ import annotations

import time
from collections import deque

EVER = 1e9
"""Seconds that reach back before every job."""
BACK = 5.0
"""Seconds for which due jobs are looked for in any case; earlier ones, which somebody had locked, at times."""
ENOUGH = ((2, 0.1), (8, 0.01))
"""How many looks in a row have to take longer than so many seconds: a busy machine delays one now and then."""
PAUSE = 20.0
"""How long such looks rest, as a multiple of their time."""


class Looks:
    """What the last looks of a kind took."""

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=ENOUGH[-1][0])
        self._again_at = float("-inf")

    @property
    def rests(self) -> bool:
        """Whether to do without such a look for now."""
        return time.monotonic() < self._again_at

    def took(self, seconds: float) -> None:
        """Note how long a look took that found little."""
        self._took.append(seconds)
        last = list(self._took)
        for count, usual in ENOUGH:
            if len(last) >= count and (least := min(last[-count:])) > usual:
                self._again_at = time.monotonic() + PAUSE * least


class DueTimes:
    """How far back to look for jobs that are due: ever, while that is fast."""

    def __init__(self) -> None:
        self._looks = Looks()

    def back(self) -> float:
        """Return the seconds before now from which on to look."""
        return BACK if self._looks.rests else EVER

    def took(self, back: float, seconds: float) -> None:
        """Note how long a look took that found little."""
        if back == EVER:
            self._looks.took(seconds)
