"""Panes that scroll: drawn lines, and text that is searched and copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from jobconsole.format.spans import Line, Spans
from jobconsole.tui.widgets.pane import Extent, Pane

WHEEL = 3
"""Lines that one notch of a mouse wheel moves."""


class ScrollPane(Pane):
    """Shows a part of its content; the actions that move a cursor elsewhere move the content here."""

    # lines up to which the pane shows only the heart of the matter; 0: it has none
    GLANCE: ClassVar[int] = 0

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.top = 0
        self._height = 0

    @property
    def glance(self) -> bool:
        """Whether there is room for a few lines only, below the list that it is about."""
        beside = not self.screen.has_class("-stage-detail")
        return self.GLANCE > 0 and self.size.height <= self.GLANCE and beside

    @property
    def reachable(self) -> bool:
        """A glance only accompanies the list that it is about."""
        return not self.glance

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


class TextPane(Pane):
    """Shows what a function makes of its width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_by(1)", show=False),
        Binding("up,k", "scroll_by(-1)", show=False),
        Binding("pagedown,ctrl+d,space", "scroll_by(15)", show=False),
        Binding("pageup,ctrl+u", "scroll_by(-15)", show=False),
        Binding("home,g", "scroll_by(-100000)", show=False),
        Binding("end,G", "scroll_by(100000)", show=False),
    ]

    def __init__(self, title: Spans, note: Spans, text: Callable[[int], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heading, self._aside, self._text = title, note, text
        self._first = 0
        self._height = 0

    def heading(self) -> Spans:
        """The title."""
        return self._heading

    def note(self) -> Spans:
        """The note."""
        return self._aside

    def extent(self) -> Extent | None:
        """Which lines are shown."""
        return Extent(self._first, self.inner_height, self._height)

    def body(self, width: int, height: int) -> list[Line]:
        """The lines in view."""
        lines = self._text(width)
        self._height = len(lines)
        self._first = max(0, min(self._first, len(lines) - height))
        return lines[self._first : self._first + height]

    def action_scroll_by(self, lines: int) -> None:
        """Move the text."""
        self._first = max(0, self._first + lines)
        self.repaint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_scroll_by(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_scroll_by(-3)
