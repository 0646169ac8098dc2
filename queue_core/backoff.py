"""How long a failed job waits: exponential, capped, with a jitter that is apart and can be seeded."""

from __future__ import annotations

import random


def backoff(retry_count: int, delay: float, factor: float, cap: float) -> float:
    """Return the seconds before retry number `retry_count + 1`: delay · factor^retry_count, at most `cap`.

    >>> [backoff(n, 5, 2, 3600) for n in range(3)]
    [5.0, 10.0, 20.0]
    """
    if delay <= 0:
        return 0.0
    try:
        seconds = delay * factor**retry_count
    except OverflowError:
        return float(cap)
    return float(min(seconds, cap))


def jittered(seconds: float, part: float, source: random.Random) -> float:
    """Return a delay of which the last `part` (0 to 1) is random, so that equal failures do not come back at once."""
    return seconds * (1.0 - part * source.random())
