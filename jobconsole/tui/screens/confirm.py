"""A question before something that cannot be taken back; No has the focus."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen

from jobconsole.tui.drawing.spans import Line, wrap
from jobconsole.tui.screens.sheets import WIDTH, SheetText
from jobconsole.tui.widgets.push import Push


class Confirm(ModalScreen[bool]):
    """Gives back whether to go on."""

    # the button that Enter presses
    FIRST: ClassVar[str] = "no"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "go back"),
        Binding("down,j,tab,right,l", "app.focus_next", "next", show=False),
        Binding("up,k,shift+tab,left,h", "app.focus_previous", "previous", show=False),
    ]

    def __init__(self, title: str, what: str, consequence: str, go: str) -> None:
        super().__init__()
        self._title, self._what, self._consequence, self._go = title, what, consequence, go

    def compose(self) -> ComposeResult:
        """The text and the buttons."""
        with Vertical(id="sheet"):
            yield SheetText(self.text)
            with Horizontal(id="sheet-buttons"):
                yield Push(self._go, id="go")
                yield Push("Go back", id="no")

    def on_mount(self) -> None:
        self.query_one("#sheet").border_title = self._title
        self.query_one(SheetText).styles.height = len(self.text(WIDTH))
        self.query_one(f"#{self.FIRST}", Push).focus()

    def text(self, width: int) -> list[Line]:
        """What it is about and what will happen."""
        what: list[Line] = [((part, "strong"),) for part in wrap(self._what, width)]
        return [*what, (), *(((part, "muted"),) for part in wrap(self._consequence, width))]

    @on(Push.Pressed)
    def press(self, message: Push.Pressed) -> None:
        """Go on or back."""
        self.dismiss(message.push_id == "go")

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(False)
