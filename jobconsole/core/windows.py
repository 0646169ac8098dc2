"""The time windows over which growth and trend of signatures are counted."""

from __future__ import annotations

WINDOWS: tuple[float, ...] = (300.0, 900.0, 3600.0, 21_600.0, 86_400.0)
"""Seconds; a minute is the smallest time that a store knows growth for."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def next_window(seconds: float) -> float:
    """Return the next longer window, and the shortest after the longest."""
    return next((window for window in WINDOWS if window > seconds), WINDOWS[0])


def word(seconds: float) -> str:
    """Return 5m, 15m, 1h, 6h or 1d."""
    whole = round(seconds)
    return next((f"{whole // size}{unit}" for size, unit in _UNITS if whole % size == 0 and whole >= size), f"{whole}s")
