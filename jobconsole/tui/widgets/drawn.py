"""Lines that somebody else draws."""

from __future__ import annotations

from collections.abc import Callable

from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.widgets.lines import LineWidget


class Drawn(LineWidget):
    """Shows what a function makes of its width and height."""

    def __init__(self, draw: Callable[[int, int], list[Line]], *, id: str) -> None:
        super().__init__(id=id)
        self._draw = draw

    def lines(self, width: int, height: int) -> list[Line]:
        """The lines."""
        return self._draw(width, height)
