"""A button of one line: the one with the focus is inverse and has a mark before its words."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from jobconsole.tui.drawing.spans import Line, fit
from jobconsole.tui.widgets.lines import LineWidget


class Push(LineWidget, can_focus=True):
    """Posts `Pressed` on Enter, Space or a click."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "press", "press", show=False)]

    class Pressed(Message):
        """The button was pressed."""

        def __init__(self, push_id: str) -> None:
            super().__init__()
            self.push_id = push_id

    def __init__(self, words: str, *, id: str) -> None:
        super().__init__(id=id)
        self._words = words
        # it does nothing yet
        self.off = False

    def put(self, words: str) -> None:
        """Show other words."""
        self._words = words
        self.repaint()

    def lines(self, width: int, height: int) -> list[Line]:
        """The words."""
        if self.off:
            words = f" {self.console.glyphs.cursor if self.has_focus else ' '} ({self._words})"
            return [fit(((words, "faint/off"),), width, fill="text/off")]
        if self.has_focus:
            return [fit(((f" {self.console.glyphs.cursor} {self._words}", "on-accent"),), width, fill="on-accent")]
        return [fit(((f"   {self._words}", "text/off"),), width, fill="text/off")]

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def on_click(self) -> None:
        self.action_press()

    def action_press(self) -> None:
        """Say that it was pressed."""
        self.post_message(self.Pressed(self.id or ""))
