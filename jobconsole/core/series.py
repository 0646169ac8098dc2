"""Counts by the second in a ring of fixed size, and the characters of a one-colour chart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

EIGHTHS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " .:-=+*#@"


class Ring:
    """How often something happened in each of the last seconds. Adding is one addition."""

    def __init__(self, seconds: int = 3600) -> None:
        self._slots = [0.0] * seconds
        self._last: int | None = None

    def add(self, at: float, number: float = 1) -> None:
        """Count `number` at a time (in seconds of any steady clock); what is older than the ring is forgotten."""
        second = int(at)
        self._advance(second)
        assert self._last is not None
        if self._last - second < len(self._slots):
            self._slots[second % len(self._slots)] += number

    def tail(self, at: float, seconds: int) -> list[float]:
        """Return the counts of the `seconds` whole seconds before `at`, oldest first, without the running one."""
        self._advance(int(at))
        length = len(self._slots)
        end = int(at)
        return [self._slots[second % length] if end - second < length else 0.0 for second in range(end - seconds, end)]

    def rate(self, at: float, window: int = 5) -> float:
        """Return the mean per second over the last `window` whole seconds."""
        return sum(self.tail(at, window)) / window

    def _advance(self, second: int) -> None:
        if self._last is None:
            self._last = second
            return
        for passed in range(self._last + 1, min(second, self._last + len(self._slots)) + 1):
            self._slots[passed % len(self._slots)] = 0.0
        self._last = max(self._last, second)


def resample(values: Sequence[float], width: int) -> list[float]:
    """Return `width` values: means of equal slices, or the values themselves aligned to the right."""
    if len(values) <= width:
        return [0.0] * (width - len(values)) + list(values)
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def spark(values: Sequence[float], width: int, levels: str = EIGHTHS, top: float | None = None) -> str:
    """Return one line of bars; whatever is above zero shows at least the lowest bar."""
    return columns(values, width, 1, levels, top)[0]


def columns(
    values: Sequence[float], width: int, height: int, levels: str = EIGHTHS, top: float | None = None
) -> list[str]:
    """Return a bar chart of `height` lines, highest first, scaled to `top` or to the highest value."""
    points = resample(values, width)
    highest = top if top is not None else max(points, default=0.0)
    steps = len(levels) - 1
    heights = [_steps(point, highest, steps * height) for point in points]
    return [
        "".join(levels[min(max(value - row * steps, 0), steps)] for value in heights)
        for row in range(height - 1, -1, -1)
    ]


def _steps(value: float, highest: float, steps: int) -> int:
    if value <= 0 or highest <= 0:
        return 0
    return max(1, min(steps, round(value / highest * steps)))
