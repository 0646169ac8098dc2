"""A question before something that cannot be taken back; No has the focus."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen

from jobconsole.actions.export import FORMATS, Wish
from jobconsole.actions.plan import Target
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, wrap
from jobconsole.format.words import ImmediateWords
from jobconsole.tui.sheets.change import WIDTH, SheetText
from jobconsole.tui.widgets.fields import Push


class Confirm(ModalScreen[bool]):
    """Gives back whether to go on."""

    # the button that Enter presses
    FIRST: ClassVar[str] = "no"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "go back"),
        Binding("down,j,tab,right,l", "app.focus_next", "next", show=False),
        Binding("up,k,shift+tab,left,h", "app.focus_previous", "previous", show=False),
    ]

    def __init__(self, words: ImmediateWords, what: str, remark: str = "", about: str = "") -> None:
        """`what` it is about; `remark`: put before what happens; `about`: put behind the button's word."""
        super().__init__()
        self._title, self._what = words.title, what
        self._consequence, self._go = f"{remark}{words.consequence}", f"{words.button}{about}"

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


WORDS = {"csv": "CSV", "jsonl": "JSON Lines"}
ABOUT = (
    "Into a new file in the current folder that only you can read. CSV is made safe for spreadsheets; "
    "JSON Lines is exact. 'jobconsole dlq export' also writes tracebacks."
)


class ExportSheet(ModalScreen[Wish | None]):
    """Gives back what is to be written, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "go back"),
        Binding("down,j,tab,right,l", "app.focus_next", "next", show=False),
        Binding("up,k,shift+tab,left,h", "app.focus_previous", "previous", show=False),
    ]

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def compose(self) -> ComposeResult:
        """The text and the buttons."""
        with Vertical(id="sheet"):
            yield SheetText(self.text)
            with Horizontal(id="sheet-buttons"):
                for format_ in FORMATS:
                    yield Push(WORDS[format_], id=format_)
                yield Push("Go back", id="no")

    def on_mount(self) -> None:
        self.add_class("-three")
        self.query_one("#sheet").border_title = "Export jobs"
        self.query_one(SheetText).styles.height = len(self.text(WIDTH))
        self.query_one(f"#{FORMATS[0]}", Push).focus()

    def text(self, width: int) -> list[Line]:
        """What is chosen, about how many they are, what will happen."""
        lines: list[Line] = [((part, "strong"),) for part in wrap(self._target.label, width)[:3]]
        if self._target.about is not None:
            lines.append(((f"about {plural(self._target.about, 'job')}", "text"),))
        return [*lines, (), *(((part, "muted"),) for part in wrap(ABOUT, width))]

    @on(Push.Pressed)
    def press(self, message: Push.Pressed) -> None:
        """Go on with a format, or go back."""
        chosen = next((format_ for format_ in FORMATS if format_ == message.push_id), None)
        self.dismiss(None if chosen is None else Wish(self._target, chosen))

    def action_leave(self) -> None:
        """Write nothing."""
        self.dismiss(None)
