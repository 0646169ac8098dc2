"""The sheet for moving jobs: to which queue, with which priority, why; and what is known about the target."""

from __future__ import annotations

import dataclasses

from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.actions.command import changing
from jobconsole.actions.plan import Plan, Target, options_of, warnings
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, fit, wrap
from jobconsole.tui.sheets.sheet import WHY, PlanSheet
from jobconsole.tui.sheets.target import ROOMY, WIDTH, TargetSheet, labelled
from jobconsole.tui.widgets.fields import ChoiceField, Field, Push, QueueChoice, QueueField, TextField
from jobconsole.tui.widgets.pane import Drawn
from jobconsole.tui.widgets.retryfields import HINTS, PRIORITIES
from queue_core.errors import QueueCoreError
from queue_core.model.rules import parse_priority

FACTS = 2
"""Facts about the jobs that are shown, a line each."""


class MoveSheet(TargetSheet[Plan], PlanSheet):
    """Gives back the plan to carry out, or None. The ids are frozen while one writes."""

    def __init__(self, target: Target) -> None:
        super().__init__("move", target)
        self.target = QueueField(id="move-queue")
        self._priority: ChoiceField[int | None] = ChoiceField(
            "priority", HINTS["priority"], PRIORITIES, id="move-priority", parse=parse_priority, letters="0123456789-"
        )  # fmt: skip
        self._why = TextField("reason", WHY, id="move-why")

    def compose(self) -> ComposeResult:
        """The jobs, the fields with the list of queues under the first, what is known, the buttons."""
        with Vertical(id="move"):
            yield Drawn(self._jobs, id="move-jobs")
            yield self.target
            yield QueueChoice(self.target, id="move-queues")
            yield self._priority
            yield self._why
            yield Drawn(self._warnings, id="move-said")
            yield from self.buttons(go=self.words.button)

    def on_mount(self) -> None:
        self.set_class(self.app.size.height < ROOMY, "-tight")
        self.query_one("#move").border_title = self.words.title
        self.query_one("#move-jobs").styles.height = len(self._jobs(WIDTH, 0))
        self.offer_command()
        self.target.focus()
        self.freeze()

    def planned(self) -> None:
        """Show how many jobs are moved."""
        if self.plan is not None:
            self.query_one("#go", Push).put(f"{self.words.button} {plural(len(self.plan.ids), 'job')}")
        self.repaint()

    def commands(self) -> list[list[str]]:
        """The move of the same target to what is typed."""
        options = options_of(self.target.typed, self._priority.value)
        return changing("move", self.chosen, options, why=self._why.typed.strip())

    def go(self, button: str) -> None:
        """Confirm, as soon as the ids are frozen."""
        try:
            options = options_of(self.target.typed, self._priority.value)
        except (QueueCoreError, ValueError) as error:
            self.problem, self.going = str(error), False
            self.repaint()
            return
        if self.plan is not None:
            self.leave_with(dataclasses.replace(self.plan, options=options), self._why.typed)
        else:
            self.go_once_frozen()

    # -- drawing

    def _jobs(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = [fit(((self.chosen.label, "strong"),), width), (), (labelled("jobs"), *self.count())]
        facts = self.chosen.facts[:FACTS]
        return [*lines, *(fit((labelled(label), (value, "text")), width) for label, value in facts)]

    def _warnings(self, width: int, height: int) -> list[Line]:
        problem = self.problem or self._priority.problem
        if problem:
            return [((part, "bad"),) for part in wrap(problem, width, height, self.console.glyphs.ellipsis)]
        hint = self.focused.hint if isinstance(self.focused, Field) else ""
        alert = self.console.glyphs.alert
        sentences = [
            f"{alert} {one}" for one in warnings(self.target.typed, self.chosen.types, self.console.model.snapshot)
        ]
        known: list[Line] = [((part, "warn"),) for text in sentences for part in wrap(text, width)]
        undo = "u undoes it." if self._priority.value is None else "A priority change cannot be undone."
        kept: list[Line] = [((part, "muted"),) for part in wrap(f"{self.words.consequence} {undo}", width)]
        hints: list[Line] = [((part, "muted"),) for part in wrap(hint, width)]
        return [*hints, *known[: max(0, height - len(hints) - len(kept))], *kept]
