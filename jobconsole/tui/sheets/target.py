"""What the sheets have in common that ask for a queue: its field, the list below it, keys, and what cannot be."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.binding import Binding, BindingType

from jobconsole.tui.sheets.sheet import Sheet
from jobconsole.tui.widgets.fields import LABEL, Field, QueueChoice, QueueField
from jobconsole.tui.widgets.pane import Drawn

R = TypeVar("R")

ROOMY = 22
"""Lines from which there are blank ones around the fields."""
WIDTH = 70
"""Cells of the text, as the style sheet has it."""


class TargetSheet(Sheet[R], Generic[R]):
    """A sheet with a field for a queue."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "next", show=False),
        Binding("up", "step(-1)", "previous", show=False),
    ]

    REPAINT_SECONDS = 1.0
    """Between two drawings of what is known: counts, paused and closed queues, live workers."""

    target: QueueField
    problem = ""
    """What cannot be of what was written."""

    def on_mount(self) -> None:
        self.set_interval(self.REPAINT_SECONDS, self.repaint)

    @on(Field.Changed)
    def check_again(self) -> None:
        """Show what is known about the field's present value."""
        self.problem = ""
        self.repaint()

    @on(Field.Left)
    def go_on(self) -> None:
        """To the next field, at last to the button."""
        self.focus_next()

    def action_step(self, step: int) -> None:
        """Choose a queue where that is asked for, else go to another field."""
        if self.target.has_focus and self.target.offered:
            self.target.step(step)
        else:
            self.action_line(step)

    def on_descendant_focus(self) -> None:
        self.repaint()

    def repaint(self) -> None:
        """Draw again what depends on the fields."""
        for widget in (*self.query(Drawn), *self.query(QueueChoice)):
            widget.repaint()


def labelled(label: str) -> tuple[str, str]:
    """Return the label before a fact, as wide as those of fields."""
    return (f"  {label:<{LABEL - 1}}", "muted")
