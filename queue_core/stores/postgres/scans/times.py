"""How long scans take that read what ended as well: each is a whole one while that is fast, and rare while it is not.

What was promoted stays in front of what is due next, and what was claimed in front of what is ready, until it is
vacuumed away, which an open snapshot holds up.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

SINCE_EVER = 1e9
"""Seconds that reach back before every job."""
DUE_REACH_BACK = 5.0
"""Seconds for which due jobs are looked for in any case; earlier ones, which were locked then, periodically."""
SLOW_SCANS = ((2, 0.1), (8, 0.01))
"""How many scans in a row have to take longer than so many seconds: a busy machine delays one now and then."""
SLOW_READY_SCANS = ((1, 0.02),)
"""The same for the look whether any job is ready, which is assumed without harm; of the server's own time, for the
first looks of a process wait for its connection."""
SCANS_REST = 20.0
"""How long such scans rest, as a multiple of their time: at least."""
DUE_REST, READY_REST = (200.0, 60.0), (6000.0, 600.0)
"""And as long as that is no more than so many seconds: else they take the place of other tables in the server's cache.
What was locked when it was due waits for the one; during the other, a leader with nothing to do looks more often."""


class ScanTimes:
    """What the last scans of a kind took."""

    def __init__(self, rest: tuple[float, float], enough: Sequence[tuple[int, float]]) -> None:
        self._times, self._most = rest
        self._enough = enough
        self._took: deque[float] = deque(maxlen=enough[-1][0])
        self._again_at = float("-inf")

    @property
    def rests(self) -> bool:
        """Whether to do without such a scan for now."""
        return time.monotonic() < self._again_at

    def note_duration(self, seconds: float) -> None:
        """Note how long a scan took that found little."""
        self._took.append(seconds)
        last = list(self._took)
        for count, usual in self._enough:
            if len(last) >= count and (least := min(last[-count:])) > usual:
                rest = max(SCANS_REST * least, min(self._times * least, self._most))
                self._again_at = time.monotonic() + rest


class DueTimes:
    """How far back to look for jobs that are due: ever, while that is fast."""

    def __init__(self) -> None:
        self._scans = ScanTimes(DUE_REST, SLOW_SCANS)
        self._promoted_at = -SINCE_EVER

    def back(self) -> float:
        """Return the seconds before now from which on to look: those since all were promoted, and some more."""
        if not self._scans.rests:
            return SINCE_EVER
        return min(SINCE_EVER, DUE_REACH_BACK + time.monotonic() - self._promoted_at)

    def promoted(self, began: float) -> None:
        """Note that all jobs were promoted which were due at this time of the monotonic clock, but for locked ones."""
        self._promoted_at = began

    def note_duration(self, back: float, seconds: float) -> None:
        """Note how long a scan took that found little."""
        if back == SINCE_EVER:
            self._scans.note_duration(seconds)
