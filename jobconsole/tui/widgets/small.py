"""What stands there when the window is too small for anything else."""

from __future__ import annotations

from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.widgets.lines import LineWidget


class TooSmall(LineWidget):
    """Says how large the window is and how large it must be."""

    def __init__(self, least: tuple[int, int], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._least = least

    def lines(self, width: int, height: int) -> list[Line]:
        """The sentence in the middle."""
        texts = (
            ("This window is too small", "strong"),
            (f"it has {width} x {height} cells, the console needs {self._least[0]} x {self._least[1]}", "text"),
            ("make it larger, or q to quit", "muted"),
        )
        above: list[Line] = [()] * max(0, (height - len(texts)) // 2)
        return above + [((" " * max(0, (width - len(text)) // 2), "text"), (text, tone)) for text, tone in texts]
