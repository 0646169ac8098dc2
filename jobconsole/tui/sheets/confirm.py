"""A question before something that cannot be taken back; No has the focus."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from jobconsole.actions.export import FORMATS, ExportOptions
from jobconsole.actions.plan import Target
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, wrap
from jobconsole.format.words import ImmediateWords
from jobconsole.tui.sheets.change import WIDTH
from jobconsole.tui.sheets.sheet import Sheet
from jobconsole.tui.widgets.fields import Push
from jobconsole.tui.widgets.pane import Drawn

STEPS: list[BindingType] = [
    Binding("q", "leave", "go back"),
    Binding("down,j,right,l", "app.focus_next", "next", show=False),
    Binding("up,k,left,h", "app.focus_previous", "previous", show=False),
]
"""Keys from button to button, where there is nothing else."""


class Confirm(Sheet[bool]):
    """A question whose result is True when it is confirmed."""

    # the button that Enter presses
    FIRST: ClassVar[str] = "no"

    BINDINGS = STEPS

    def __init__(
        self,
        words: ImmediateWords,
        what: str,
        remark: str = "",
        about: str = "",
        command: Sequence[str] = (),
        changes: bool = True,
    ) -> None:
        """`what` it is about; `remark`: put before what happens; `about`: put behind the button's word.

        `command`: the words of the command that does the same; `changes`: nothing can be confirmed without the store.
        """
        super().__init__()
        self._command, self._changes = list(command), changes
        self._title, self._what = words.title, what
        self._consequence, self._go = f"{remark}{words.consequence}", f"{words.button}{about}"

    def compose(self) -> ComposeResult:
        """The text and the buttons."""
        with Vertical(id="sheet"):
            yield Drawn(self.text, id="sheet-text")
            yield from self.buttons(go=self._go)

    def on_mount(self) -> None:
        self.query_one("#sheet").border_title = self._title
        if self._command:
            self.offer_command()
        self.query_one(Drawn).styles.height = len(self.text(WIDTH))
        self.query_one(f"#{self.FIRST}", Push).focus()

    def texts(self) -> dict[str, Callable[[int], Sized]]:
        """The text."""
        return {"sheet-text": self.text}

    def text(self, width: int, height: int = 0) -> list[Line]:
        """What it is about and what will happen."""
        what: list[Line] = [((part, "strong"),) for part in wrap(self._what, width)]
        return [*what, (), *(((part, "muted"),) for part in wrap(self._consequence, width))]

    def commands(self) -> list[list[str]]:
        """The command that does the same."""
        return [self._command] if self._command else []

    def go(self, button: str) -> None:
        """Confirm."""
        if not (self._changes and self.held()):
            self.dismiss(True)


class Offer(Confirm):
    """A question before something that does no harm: the button that confirms has the focus."""

    FIRST = "go"


WORDS = {"csv": "CSV", "jsonl": "JSON Lines"}
ABOUT = (
    "Into a new file in the current folder that only you can read. CSV is made safe for spreadsheets; "
    "JSON Lines is exact. 'jobconsole dlq export' also writes tracebacks."
)


class ExportSheet(Sheet[ExportOptions]):
    """Gives back what is to be written, or None."""

    BINDINGS = STEPS

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def compose(self) -> ComposeResult:
        """The text and the buttons."""
        with Vertical(id="sheet"):
            yield Drawn(self.text, id="sheet-text")
            yield from self.buttons(**{format_: WORDS[format_] for format_ in FORMATS})

    def on_mount(self) -> None:
        self.add_class("-three")
        self.query_one("#sheet").border_title = "Export jobs"
        self.query_one(Drawn).styles.height = len(self.text(WIDTH))
        self.query_one(f"#{FORMATS[0]}", Push).focus()

    def texts(self) -> dict[str, Callable[[int], Sized]]:
        """The text."""
        return {"sheet-text": self.text}

    def text(self, width: int, height: int = 0) -> list[Line]:
        """What is chosen, about how many they are, what will happen."""
        lines: list[Line] = [
            ((part, "strong"),) for part in wrap(self._target.label, width, 3, self.console.glyphs.ellipsis)
        ]
        if self._target.about is not None:
            lines.append(((f"about {plural(self._target.about, 'job')}", "text"),))
        return [*lines, (), *(((part, "muted"),) for part in wrap(ABOUT, width))]

    def go(self, button: str) -> None:
        """Export in the format of the button."""
        self.dismiss(ExportOptions(self._target, next(format_ for format_ in FORMATS if format_ == button)))
