"""Priorities, their bands, and the rank that orders the jobs of a queue."""

from __future__ import annotations

from enum import IntEnum

from queue_core.errors import InvalidJob

LOWEST, HIGHEST = -128, 127
SEQUENCE_BITS = 45
"""35 trillion jobs per store; with 8 bits of priority a rank stays below 2^53, exact in a double."""


class Priority(IntEnum):
    """Named priorities; any integer from -128 to 127 is valid, higher is sooner."""

    LOW = 0
    NORMAL = 5
    HIGH = 10
    URGENT = 20


BANDS = ("high", "normal", "low")


def band(priority: int) -> str:
    """Return the band of a priority: high (10 and above), normal (5 to 9) or low (below 5)."""
    if priority >= Priority.HIGH:
        return "high"
    return "normal" if priority >= Priority.NORMAL else "low"


def rank(priority: int, sequence: int) -> int:
    """Return the order of a job in its queue: priority first, then arrival; lower ranks run first."""
    return (HIGHEST - priority) << SEQUENCE_BITS | sequence


def parse_priority(value: object) -> int:
    """Return the number of a priority given as a number or as one of the words low, normal, high, urgent.

    Raises:
        InvalidJob: neither a whole number from -128 to 127 nor one of the words.
    """
    if isinstance(value, str):
        word = value.strip().upper()
        if word in Priority.__members__:
            return int(Priority[word])
        try:
            value = int(word)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int) or not LOWEST <= value <= HIGHEST:
        raise InvalidJob(f"priority must be a whole number from {LOWEST} to {HIGHEST}, or low, normal, high or urgent")
    return int(value)
