"""The line in which a filter is written; lists narrow as one types."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from jobconsole.format.spans import Line, Span, width_of, wrap
from jobconsole.tui.base.host import sure
from jobconsole.tui.widgets.pane import LineWidget
from queue_core.errors import FilterError
from queue_core.model.filters import Filter, parse

PAUSE_SECONDS = 0.15
"""How long the keys must rest before the list is read again."""


HIGHEST = 3
"""Lines of a sentence below what is written."""
INDENT = 3
"""Cells before them: they begin where the text does."""


class _Words(LineWidget):
    """A few words beside the input, or a sentence below it, which is never cut while there are lines."""

    def __init__(self, words: Span, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._words = words

    def lines(self, width: int, height: int) -> list[Line]:
        """The words."""
        text, tone = self._words
        if width_of((self._words,)) <= width:
            return [(self._words,)]
        return [((part, tone),) for part in wrap(text, width)] if width else []

    def put(self, words: Span) -> None:
        """Show other words."""
        self._words = words
        self.repaint()


class FilterLine(Horizontal):
    """A line hidden until `open`. While its text cannot be parsed, the filter before it applies."""

    class Changed(Message):
        """A filter was written that can be understood."""

        def __init__(self, where: Filter, text: str) -> None:
            super().__init__()
            self.where = where
            self.text = text

    class Again(Message):
        """The filter that holds was confirmed once more."""

    class Closed(Message):
        """The line has been left."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        # the text of the filter that holds
        self.text = ""
        self.where = Filter()
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """A slash, the input, and the keys; below them what is wrong with it."""
        yield _Words((" / ", "key"), id="filter-slash")
        yield Input(placeholder="type:x  queue:y  err:~smtp  age:<1h  payload.user.id=7  !tag:z", compact=True)
        yield _Words(("", "text"), id="filter-words")

    @property
    def is_open(self) -> bool:
        """Whether it has the focus."""
        return self.has_class("-on")

    def open(self) -> None:
        """Show the line and write in it."""
        self.screen.add_class("-filtering")
        self.add_class("-on")
        self.remove_class("-wrong")
        self._show_lines(0)
        self.query_one(Input).focus()
        self._words(("Enter keeps, Esc clears", "muted"))

    def clear(self) -> None:
        """Take the filter away."""
        self.query_one(Input).value = ""
        self._apply("")

    def cancel(self) -> None:
        """Take the filter away and leave the line."""
        self.clear()
        self._close()

    def hold(self, where: Filter, text: str) -> None:
        """Filter by this; `text` is what it would be written as, and harmless to show."""
        with self.query_one(Input).prevent(Input.Changed):
            self.query_one(Input).value = text
        self.text, self.where = text, where
        self.post_message(self.Changed(where, text))

    @on(Input.Changed)
    def wait_for_rest(self, event: Input.Changed) -> None:
        """Apply what is written once the keys rest."""
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = sure(
            self.set_timer(PAUSE_SECONDS, lambda: self._apply(self.query_one(Input).value, resting=True))
        )

    @on(Input.Submitted)
    def keep(self, event: Input.Submitted) -> None:
        """Apply what is written and leave the line, unless it cannot be understood."""
        event.stop()
        held = self.text
        if self._apply(event.value):
            if held and held == self.text:
                self.post_message(self.Again())
            self._close()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if self.is_open:
            self._close()

    def _close(self) -> None:
        self.remove_class("-on")
        self.screen.remove_class("-filtering")
        self.post_message(self.Closed())

    def _apply(self, text: str, resting: bool = False) -> bool:
        """Filter by a text; return whether that can be. A search of texts begins with Enter, not while one types."""
        if self._timer is not None:
            self._timer.stop()
        try:
            where = parse(text)
        except FilterError as error:
            self.add_class("-wrong")
            self._show_lines(len(wrap(error.reason, self.screen.size.width - INDENT)))
            self._words((error.reason, "warn"))
            return False
        self.remove_class("-wrong")
        self._show_lines(0)
        searching = resting and text.strip() != self.text and any(term.field == "text" for term in where.terms)
        self._words(("Enter searches, Esc clears" if searching else "Enter keeps, Esc clears", "muted"))
        if text.strip() != self.text and not searching:
            self.text, self.where = text.strip(), where
            self.post_message(self.Changed(where, self.text))
        return True

    def _show_lines(self, below: int) -> None:
        """Have room for so many lines below what is written."""
        below = min(below, HIGHEST)
        self.styles.height = 1 + below
        self.query_one("#filter-words", _Words).styles.height = max(1, below)

    def _words(self, words: Span) -> None:
        self.query_one("#filter-words", _Words).put(words)
