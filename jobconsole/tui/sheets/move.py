"""The sheet for moving jobs: to which queue, with which priority, why; and what is known about the target."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from jobconsole.actions.command import changing
from jobconsole.actions.plan import Target, options_of, warnings
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, fit, wrap
from jobconsole.tui.sheets.sheet import WHY, PlanSheet
from jobconsole.tui.widgets.fields import LABEL, ChoiceField, Field, Push, QueueChoice, QueueField, TextField
from jobconsole.tui.widgets.pane import Drawn
from jobconsole.tui.widgets.retryfields import HINTS, PRIORITIES
from queue_core.errors import QueueCoreError
from queue_core.model.rules import parse_priority

WIDTH = 70
"""Cells of the text, as the style sheet has it."""
ROOMY = 22
"""Lines from which there are blank ones around the fields."""
FACTS = 2
"""Facts about the jobs that are shown, a line each."""


class MoveSheet(PlanSheet):
    """Gives back the plan to carry out, or None. The ids are frozen while one writes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "next", show=False),
        Binding("up", "step(-1)", "previous", show=False),
    ]

    def __init__(self, target: Target) -> None:
        super().__init__("move", target)
        # what cannot be of what was written
        self._problem = ""
        self._queue = QueueField(id="move-queue")
        self._priority: ChoiceField[int | None] = ChoiceField(
            "priority", HINTS["priority"], PRIORITIES, id="move-priority", parse=parse_priority, letters="0123456789-"
        )  # fmt: skip
        self._why = TextField("reason", WHY, id="move-why")

    def compose(self) -> ComposeResult:
        """The jobs, the fields with the list of queues under the first, what is known, the buttons."""
        with Vertical(id="move"):
            yield Drawn(self._jobs, id="move-jobs")
            yield self._queue
            yield QueueChoice(self._queue, id="move-queues")
            yield self._priority
            yield self._why
            yield Drawn(self._warnings, id="move-said")
            yield from self.buttons(go=self.words.button)

    def on_mount(self) -> None:
        self.set_class(self.app.size.height < ROOMY, "-tight")
        self.query_one("#move").border_title = self.words.title
        self.query_one("#move-jobs").styles.height = len(self._jobs(WIDTH, 0))
        self.offer_command()
        self._queue.focus()
        self.freeze()

    def planned(self) -> None:
        """Show how many jobs are moved."""
        if self.plan is not None:
            self.query_one("#go", Push).put(f"{self.words.button} {plural(len(self.plan.ids), 'job')}")
        self._repaint()

    # -- keys

    @on(Field.Changed)
    def check_again(self) -> None:
        """Show what is known about the field's present value."""
        self._problem = ""
        self._repaint()

    @on(Field.Left)
    def go_on(self) -> None:
        """To the next field, at last to the button."""
        self.focus_next()

    def action_step(self, step: int) -> None:
        """Choose a queue where that is asked for, else go to another field."""
        if self._queue.has_focus and self._queue.offered:
            self._queue.step(step)
        else:
            (self.focus_next if step > 0 else self.focus_previous)()

    def commands(self) -> list[list[str]]:
        """The move of the same target to what is typed."""
        options = options_of(self._queue.typed, self._priority.value)
        return changing("move", self.chosen, options, why=self._why.typed.strip())

    def go(self, button: str) -> None:
        """Confirm, as soon as the ids are frozen."""
        # Where they are not frozen yet it proceeds once they are, unless that failed.
        self.going = self.plan is None and not self.lost
        try:
            options = options_of(self._queue.typed, self._priority.value)
        except (QueueCoreError, ValueError) as error:
            self._problem, self.going = str(error), False
            self._repaint()
            return
        if self.plan is not None:
            self.leave_with(dataclasses.replace(self.plan, options=options), self._why.typed)
        else:
            self._repaint()

    def on_descendant_focus(self) -> None:
        self._repaint()

    # -- drawing

    def _jobs(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = [fit(((self.chosen.label, "strong"),), width), (), (_label("jobs"), *self.count())]
        facts = self.chosen.facts[:FACTS]
        return [*lines, *(fit((_label(label), (value, "text")), width) for label, value in facts)]

    def _warnings(self, width: int, height: int) -> list[Line]:
        problem = self._problem or self._priority.problem
        if problem:
            return [((part, "bad"),) for part in wrap(problem, width)[:height]]
        hint = self.focused.hint if isinstance(self.focused, Field) else ""
        alert = self.console.glyphs.alert
        sentences = [
            f"{alert} {one}" for one in warnings(self._queue.typed, self.chosen.types, self.console.model.snapshot)
        ]
        known: list[Line] = [((part, "warn"),) for text in sentences for part in wrap(text, width)]
        undo = "u undoes it." if self._priority.value is None else "A priority change cannot be undone."
        kept: list[Line] = [((part, "muted"),) for part in wrap(f"{self.words.consequence} {undo}", width)]
        return [((hint, "muted"),), *known[: height - 1 - len(kept)], *kept]

    def _repaint(self) -> None:
        for widget in (*self.query(Drawn), *self.query(QueueChoice)):
            widget.repaint()


def _label(label: str) -> tuple[str, str]:
    return (f"  {label:<{LABEL - 1}}", "muted")
