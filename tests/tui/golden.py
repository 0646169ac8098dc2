"""Golden screens: the text as one sees it, then which style each run of cells has."""

from __future__ import annotations

import os
from pathlib import Path

from rich.style import Style

from tests.tui.seat import Seat

FOLDER = Path(__file__).parent / "golden"


def pictured(seat: Seat) -> str:
    """Return the screen as text and styles; styles are numbered in their order."""
    strips = seat.strips()
    styles: dict[str, str] = {}
    runs: list[str] = []
    for strip in strips:
        line: list[list[int | str]] = []
        for segment in strip:
            name = styles.setdefault(_described(segment.style), f"{len(styles)}")
            if line and line[-1][0] == name:
                line[-1][1] = int(line[-1][1]) + segment.cell_length
            else:
                line.append([name, segment.cell_length])
        runs.append(" ".join(f"{name}x{length}" for name, length in line))
    legend = [f"{number} = {style}" for style, number in styles.items()]
    text = [strip.text.rstrip() for strip in strips]
    return "\n".join([*text, "", "-- styles", *legend, "", "-- runs", *runs, ""])


def _described(style: Style | None) -> str:
    if style is None:
        return "none"
    colours = [colour.name for colour in (style.color, style.bgcolor) if colour is not None]
    return " ".join([*colours, *(["bold"] if style.bold else []), *(["reverse"] if style.reverse else [])])


def assert_golden(seat: Seat, name: str) -> None:
    """Compare the screen with its file; with UPDATE_GOLDEN in the environment, write the file instead."""
    picture, target = pictured(seat), FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        target.write_text(picture, encoding="utf-8")
    assert target.exists(), f"no golden screen yet: UPDATE_GOLDEN=1 makes {target.name}"
    assert picture == target.read_text(encoding="utf-8")
