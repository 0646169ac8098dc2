"""Fields of a sheet: one line each, changed with the arrows or by typing, never by moving through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from jobconsole.actions.plan import offered
from jobconsole.core.rows import QueueLine
from jobconsole.format.humanize import short
from jobconsole.format.spans import Line, Spans, fit, width_of
from jobconsole.tui.widgets.pane import LineWidget

V = TypeVar("V")


LABEL = 11
"""Cells of a label, with the cursor before it."""
LONGEST_TYPED = 400
"""Characters that can be typed."""


class Field(LineWidget, can_focus=True):
    """The label, and the keys that every field has."""

    # characters that can be typed
    longest = LONGEST_TYPED

    class Changed(Message):
        """Something else was chosen or typed."""

    class Left(Message):
        """Enter was pressed: the field is as it should be."""

    def __init__(self, label: str, hint: str, *, id: str) -> None:
        super().__init__(id=id)
        self.label = label
        self.hint = hint
        self.typed = ""
        # the user has changed it
        self.touched = False

    @property
    def problem(self) -> str:
        """Why what was typed cannot be; "" when it can."""
        return ""

    def accepts(self, character: str) -> bool:
        """Whether this is a character of what can be typed here."""
        return True

    def step(self, step: int) -> None:
        """Choose the next value."""

    def span(self) -> Line:
        """Return what is shown behind the label."""
        raise NotImplementedError

    def lines(self, width: int, height: int) -> list[Line]:
        """Label and value."""
        cursor = self.console.glyphs.cursor if self.has_focus else " "
        label = (f"{cursor} {self.label:<{LABEL - 2}}", "accent" if self.has_focus else "muted")
        return [fit((label, *self.span()), width)]

    def on_key(self, event: events.Key) -> None:
        """Type, step, or let the sheet have the key."""
        character = event.character or ""
        if event.key == "enter":
            self.post_message(self.Left())
        elif event.key == "backspace":
            self._type(self.typed[:-1])
        elif event.key == "ctrl+u":
            self._type("")
        elif event.is_printable and len(character) == 1 and self.accepts(character):
            self._type((self.typed + character)[: self.longest])
        elif event.key in {"left", "right", "h", "l"}:
            self.step(1 if event.key in {"right", "l"} else -1)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        text = event.text.splitlines()[0] if event.text else ""
        self._type(
            (self.typed + "".join(one for one in text if one.isprintable() and self.accepts(one)))[: self.longest]
        )

    def _type(self, text: str) -> None:
        self.typed = text
        self.changed()

    def changed(self) -> None:
        """Draw it again and post `Changed`."""
        self.touched = True
        self.repaint()
        self.post_message(self.Changed())

    def on_focus(self) -> None:
        self.repaint()
        self.post_message(self.Changed())

    def on_blur(self) -> None:
        self.repaint()

    def on_click(self) -> None:
        self.focus()


class ChoiceField(Field, Generic[V]):
    """Some values to step through; another one can be typed."""

    def __init__(
        self, label: str, hint: str, choices: Sequence[tuple[str, V]], *, id: str, parse: Callable[[str], V],
        letters: str | None = "0123456789",
    ) -> None:  # fmt: skip
        """`letters`: what a value is typed with, its first one a digit; "" for any character, None for no typing."""
        super().__init__(label, hint, id=id)
        self._choices = list(choices)
        self._chosen = 0
        self._parse = parse
        self._letters = letters
        # what another field has chosen counts in the place of it
        self.replaced = False

    @property
    def value(self) -> V:
        """What was typed, or chosen.

        Raises:
            ValueError: what was typed is invalid; `problem` is the reason.
        """
        return self._parse(self.typed) if self.typed else self._choices[self._chosen][1]

    @property
    def problem(self) -> str:
        """Why what was typed cannot be; "" when it can."""
        try:
            self.value  # noqa: B018 - the look is what may fail
        except ValueError as error:
            return str(error)
        return ""

    def put(self, value: V) -> None:
        """Choose a value as its default, unless the user has changed the field."""
        if not self.touched:
            self.choose(value)

    def choose(self, value: V) -> None:
        """Choose a value, whatever was typed; nothing is done where it is not among them."""
        places = [place for place, (_, one) in enumerate(self._choices) if one == value]
        if places:
            self._chosen, self.typed = places[0], ""
            self.repaint()

    def accepts(self, character: str) -> bool:
        """Digits first; letters of units behind them."""
        if self.replaced or self._letters is None:
            return False
        if not self._letters:
            return True
        return character in self._letters and (character.isdigit() or character == "-" or bool(self.typed))

    def step(self, step: int) -> None:
        """Choose the next of the values."""
        if self.replaced:
            return
        if not self.typed:
            self._chosen = max(0, min(len(self._choices) - 1, self._chosen + step))
        self.typed = ""
        self.changed()

    def span(self) -> Line:
        """All values, the chosen one between brackets; what is typed instead of them."""
        if self.replaced:
            return tuple((f" {word} ", "faint") for word in ([self.typed] if self.typed else dict(self._choices)))
        if self.typed:
            return ((f"[{self.typed}{'_' if self.has_focus else ''}]", "bad" if self.problem else "strong"),)
        spans = [self._word(place) for place in range(len(self._choices))]
        first, room = 0, self.size.width - LABEL
        while first < self._chosen and width_of(spans[first : self._chosen + 1]) > room - 2 * (first > 0):
            first += 1
        cut = ((f"{self.console.glyphs.ellipsis} ", "muted"),) if first else ()
        return (*cut, *spans[first:])

    def _word(self, place: int) -> tuple[str, str]:
        word, here = self._choices[place][0], place == self._chosen
        return (f"[{word}]" if here else f" {word} ", "strong" if here else "muted")


class TextField(Field):
    """A line to type."""

    def __init__(self, label: str, hint: str, *, id: str, empty: str = "none", digits: bool = False) -> None:
        super().__init__(label, hint, id=id)
        self._empty = empty
        self._digits = digits

    def accepts(self, character: str) -> bool:
        """Whether a character can be typed: any, or only digits and the separators between them."""
        return not self._digits or character in "0123456789,"

    def span(self) -> Line:
        """The end of the text."""
        if not self.typed and not self.has_focus:
            return ((f" {self._empty}", "faint"),)
        room = max(8, self.size.width - LABEL - 3)
        return ((f" {self.typed[-room:]}{'_' if self.has_focus else ''}", "strong"),)


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
        """Post `Pressed`."""
        self.post_message(self.Pressed(self.id or ""))


NAME_CELLS = 36
"""Cells of a queue's name in the list, where there is room for them."""
LEAST_NAME_CELLS, BESIDE = 8, 21
"""Cells of it at least; of its depth and its state."""


class QueueField(Field):
    """What was typed narrows the list; what is chosen from it does not."""

    def __init__(
        self,
        *,
        id: str,
        label: str = "queue",
        hint: str = "Up and Down choose a queue; a new name can be written",
        empty: str = "as it was",
        but: str = "",
    ) -> None:
        """`but`: a queue that is not offered."""
        super().__init__(label, hint, id=id)
        self._but = but
        self._empty = empty
        self._sought = ""

    @property
    def offered(self) -> list[QueueLine]:
        """The queues that can be chosen."""
        snapshot = self.console.model.snapshot
        found = offered(snapshot.queues, self._sought) if snapshot is not None else []
        return [queue for queue in found if queue.name != self._but]

    def step(self, step: int) -> None:
        """Choose the next of them."""
        names = [queue.name for queue in self.offered]
        if names:
            at = names.index(self.typed) + step if self.typed in names else min(step, 0)
            self.typed = names[at % len(names)]
            self.changed()

    def _type(self, text: str) -> None:
        self._sought = text
        super()._type(text)

    def span(self) -> Line:
        """The name; that nothing changes where there is none."""
        if self.typed or self.has_focus:
            return ((f" {self.typed}{'_' if self.has_focus else ''}", "strong"),)
        return ((f" {self._empty}", "faint"),)


class QueueChoice(LineWidget):
    """The queues that can be chosen; of many those around the chosen one."""

    def __init__(self, field: QueueField, *, id: str) -> None:
        super().__init__(id=id)
        self._field = field

    def lines(self, width: int, height: int) -> list[Line]:
        """Name, depth, whether it is paused or closed."""
        found, chosen = self._field.offered, self._field.typed
        at = next((number for number, queue in enumerate(found) if queue.name == chosen), 0)
        first = max(0, min(at - height // 2, len(found) - height))
        name = max(LEAST_NAME_CELLS, min(NAME_CELLS, width - LABEL - 1 - BESIDE))
        return [self._line(queue, queue.name == chosen, name) for queue in found[first : first + height]]

    def _line(self, queue: QueueLine, here: bool, width: int) -> Line:
        mark = self.console.glyphs.cursor if here else " "
        name: Spans = fit(((queue.label, "strong" if here else "text"),), width, ellipsis=self.console.glyphs.ellipsis)
        state = (f"  {queue.state}", "warn") if queue.state != "open" else ("", "muted")
        return ((f"{' ' * (LABEL - 1)}{mark} ", "accent"), *name, (f"{short(queue.queued):>6} queued", "muted"), state)
