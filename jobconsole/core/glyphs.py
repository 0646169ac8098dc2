"""The characters that stand beside every colour, in Unicode and in ASCII."""

from __future__ import annotations

from dataclasses import dataclass

from jobconsole.core.series import ASCII_LEVELS, EIGHTHS
from queue_core.states import Status


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; each is one cell wide."""

    states: dict[Status, str]
    # of charts, lowest first, beginning with the empty one
    levels: str
    cursor: str
    # the row that the cursor stood on is gone
    adrift: str
    mark: str
    new: str
    bar_full: str
    bar_half: str
    bar_empty: str
    # of the bands high, normal, low
    shades: tuple[str, str, str]
    up: str
    dot: str
    ellipsis: str
    separator: str
    alert: str
    ok: str
    pause: str
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
    dot="●",
    ellipsis="…",
    separator="·",
    alert="▲",
    ok="✓",
    pause="‖",
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
    dot="*",
    ellipsis="~",
    separator="-",
    alert="!",
    ok="v",
    pause="=",
    fold=">",
    corners=("+", "+", "+", "+"),
    rule="-",
    side="|",
    thumb="#",
)


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the set that a terminal of this encoding can show."""
    return UNICODE if (encoding or "").lower().replace("-", "").startswith("utf") else ASCII
