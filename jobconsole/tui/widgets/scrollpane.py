"""A pane of lines that the keys for moving scroll."""

from __future__ import annotations

from textual import events

from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.widgets.pane import Extent, Pane

WHEEL = 3
"""Lines that one notch of a mouse wheel moves."""


class ScrollPane(Pane):
    """Shows a part of its content; the actions that move a cursor elsewhere move the content here."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.top = 0
        self._height = 0

    def content(self, width: int) -> list[Line]:
        """Return all lines."""
        raise NotImplementedError

    def extent(self) -> Extent | None:
        """Which lines are shown."""
        return Extent(self.top, self.inner_height, self._height)

    def body(self, width: int, height: int) -> list[Line]:
        """The lines in view."""
        lines = self.content(width)
        self._height = len(lines)
        self.top = max(0, min(self.top, len(lines) - height))
        return lines[self.top : self.top + height]

    def scroll(self, lines: int) -> None:
        """Move the content."""
        self.top = max(0, self.top + lines)
        self.repaint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll(-WHEEL)

    def do_up(self) -> None:
        """One line up."""
        self.scroll(-1)

    def do_down(self) -> None:
        """One line down."""
        self.scroll(1)

    def do_page_up(self) -> None:
        """One page up."""
        self.scroll(1 - self.inner_height)

    def do_page_down(self) -> None:
        """One page down."""
        self.scroll(self.inner_height - 1)

    def do_half_up(self) -> None:
        """Half a page up."""
        self.scroll(-(self.inner_height // 2))

    def do_half_down(self) -> None:
        """Half a page down."""
        self.scroll(self.inner_height // 2)

    def do_top(self) -> None:
        """To the first line."""
        self.scroll(-self.top)

    def do_bottom(self) -> None:
        """To the last line."""
        self.scroll(self._height)
