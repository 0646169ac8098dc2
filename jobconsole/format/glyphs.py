"""The characters shown beside every colour, in Unicode and in ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from queue_core.model.states import Status

EIGHTHS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " .:-=+*#@"


class Ring:
    """Counts for each of the last seconds; adding one is a single addition."""

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


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; each is one cell wide."""

    states: dict[Status, str]
    # of charts, lowest first, beginning with the empty one
    levels: str
    cursor: str
    # the row under the cursor is gone
    adrift: str
    mark: str
    new: str
    bar_full: str
    bar_half: str
    bar_empty: str
    # of the bands high, normal, low
    shades: tuple[str, str, str]
    up: str
    down: str
    dot: str
    ellipsis: str
    separator: str
    alert: str
    # below a chart, where a release went live
    tick: str
    waits: str
    ok: str
    pause: str
    undone: str
    fold: str
    # corners of a frame: top left, top right, bottom left, bottom right
    corners: tuple[str, str, str, str]
    # horizontal and vertical line of a frame, and the thumb that shows where one is
    rule: str
    side: str
    thumb: str


UNICODE = Glyphs(
    states={
        Status.SCHEDULED: "◷",
        Status.QUEUED: "○",
        Status.RUNNING: "▶",
        Status.RETRYING: "↻",
        Status.COMPLETED: "✓",
        Status.CANCELLED: "⊘",
        Status.DEAD: "✖",
    },
    levels=EIGHTHS,
    cursor="❯",
    adrift="›",
    mark="●",
    new="+",
    bar_full="━",
    bar_half="╸",
    bar_empty="─",
    shades=("█", "▓", "░"),
    up="↑",
    down="↓",
    dot="●",
    ellipsis="…",
    separator="·",
    alert="▲",
    tick="╷",
    waits="◷",
    ok="✓",
    pause="‖",
    undone="↶",
    fold="▸",
    corners=("╭", "╮", "╰", "╯"),
    rule="─",
    side="│",
    thumb="┃",
)

ASCII = Glyphs(
    states={
        Status.SCHEDULED: "@",
        Status.QUEUED: "o",
        Status.RUNNING: ">",
        Status.RETRYING: "~",
        Status.COMPLETED: "v",
        Status.CANCELLED: "/",
        Status.DEAD: "x",
    },
    levels=ASCII_LEVELS,
    cursor=">",
    adrift="?",
    mark="x",
    new="+",
    bar_full="=",
    bar_half=">",
    bar_empty="-",
    shades=("#", "=", "-"),
    up="^",
    down="v",
    dot="*",
    ellipsis="~",
    separator="-",
    alert="!",
    tick="'",
    waits="@",
    ok="v",
    pause="=",
    undone="<",
    fold=">",
    corners=("+", "+", "+", "+"),
    rule="-",
    side="|",
    thumb="#",
)


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the set that a terminal of this encoding can show."""
    return UNICODE if (encoding or "").lower().replace("-", "").startswith("utf") else ASCII
