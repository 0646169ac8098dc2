"""The field for a queue: its name is typed, or chosen from those that fit what was typed."""

from __future__ import annotations

from jobconsole.core.columns import Spans
from jobconsole.core.humanize import short
from jobconsole.core.moving import offered
from jobconsole.core.rows import QueueLine
from jobconsole.tui.drawing.spans import Line, fit
from jobconsole.tui.widgets.fields import LABEL, Field
from jobconsole.tui.widgets.lines import LineWidget

NAME = 36
"""Cells of a queue's name in the list."""


class QueueField(Field):
    """What was typed narrows the list; what is chosen from it does not."""

    def __init__(self, *, id: str) -> None:
        super().__init__("queue", "Up and Down choose a queue; a new name can be written", id=id)
        self._sought = ""

    @property
    def offered(self) -> list[QueueLine]:
        """The queues that can be chosen."""
        snapshot = self.console.model.snapshot
        return offered(snapshot.queues, self._sought) if snapshot is not None else []

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
        return ((" as it was", "faint"),)


class QueueChoice(LineWidget):
    """The queues that can be chosen; of many those around the chosen one."""

    def __init__(self, field: QueueField, *, id: str) -> None:
        super().__init__(id=id)
        self._field = field

    def lines(self, width: int, height: int) -> list[Line]:
        """Name, depth, whether it is paused."""
        found, chosen = self._field.offered, self._field.typed
        at = next((number for number, queue in enumerate(found) if queue.name == chosen), 0)
        first = max(0, min(at - height // 2, len(found) - height))
        return [self._line(queue, queue.name == chosen) for queue in found[first : first + height]]

    def _line(self, queue: QueueLine, here: bool) -> Line:
        mark = self.console.glyphs.cursor if here else " "
        name: Spans = fit(((queue.label, "strong" if here else "text"),), NAME)
        state = ("  paused", "warn") if queue.paused else ("", "muted")
        return ((f"{' ' * (LABEL - 1)}{mark} ", "accent"), *name, (f"{short(queue.queued):>6} queued", "muted"), state)
