"""The sheet for moving jobs: to which queue, with which priority, why; and what is known about the target."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen

from jobconsole.actions.plan import Plan, Target, warnings, way_of
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, fit, wrap
from jobconsole.format.words import WORDS
from jobconsole.tui.base.host import Host, host_of, spawn
from jobconsole.tui.base.messages import Planned
from jobconsole.tui.sheets.change import WHY
from jobconsole.tui.widgets.fields import LABEL, ChoiceField, Field, Push, QueueChoice, QueueField, TextField
from jobconsole.tui.widgets.pane import Drawn
from jobconsole.tui.widgets.retryfields import HINTS, PRIORITIES
from queue_core.errors import QueueCoreError
from queue_core.model.rules import parse_priority

WIDTH = 70
"""Cells of the text, as the style sheet has it."""
FACTS = 2
"""Facts about the jobs that are shown, a line each."""


class MoveSheet(ModalScreen[Plan | None]):
    """Gives back the plan to carry out, or None. The ids are frozen while one writes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "go back"),
        Binding("down", "step(1)", "next", show=False),
        Binding("up", "step(-1)", "previous", show=False),
        Binding("tab", "app.focus_next", "next", show=False),
        Binding("shift+tab", "app.focus_previous", "previous", show=False),
    ]

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._plan: Plan | None = None
        # why the ids are not frozen; then nothing can be done
        self._lost = ""
        # what cannot be of what was written
        self._problem = ""
        self._going = False
        self._queue = QueueField(id="move-queue")
        self._priority: ChoiceField[int | None] = ChoiceField(
            "priority", HINTS["priority"], PRIORITIES, id="move-priority", parse=parse_priority, letters="0123456789-"
        )  # fmt: skip
        self._why = TextField("reason", WHY, id="move-why")

    @property
    def console(self) -> Host:
        """The application."""
        return host_of(self)

    def compose(self) -> ComposeResult:
        """The jobs, the fields with the list of queues under the first, what is known, the buttons."""
        with Vertical(id="move"):
            yield Drawn(self._jobs, id="move-jobs")
            yield self._queue
            yield QueueChoice(self._queue, id="move-queues")
            yield self._priority
            yield self._why
            yield Drawn(self._said, id="move-said")
            with Horizontal(id="sheet-buttons"):
                yield Push(WORDS["move"].button, id="go")
                yield Push("Go back", id="no")

    def on_mount(self) -> None:
        self.query_one("#move").border_title = WORDS["move"].title
        self.query_one("#move-jobs").styles.height = len(self._jobs(WIDTH, 0))
        self._queue.focus()
        spawn(self, "freeze", self._freeze)

    async def _freeze(self) -> None:
        self.post_message(await self.console.operator.freeze("move", self._target))

    def on_planned(self, message: Planned) -> None:
        self._plan, self._lost = message.plan, message.problem
        if self._plan is not None:
            self.query_one("#go", Push).put(f"{WORDS['move'].button} {plural(len(self._plan.ids), 'job')}")
        if self._going:
            self._go()
        self._repaint()

    # -- keys

    @on(Field.Changed)
    def look_again(self) -> None:
        """Say what is known about what stands there now."""
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

    @on(Push.Pressed)
    def press(self, message: Push.Pressed) -> None:
        """Go on, as soon as the ids are frozen, or change nothing."""
        if message.push_id == "no":
            self.dismiss(None)
        else:
            self._go()

    def _go(self) -> None:
        # What is not frozen yet goes on by itself once it is, unless that failed.
        self._going = self._plan is None and not self._lost
        try:
            way = way_of(self._queue.typed, self._priority.value)
        except (QueueCoreError, ValueError) as error:
            self._problem, self._going = str(error), False
            self._repaint()
            return
        if self._plan is not None:
            self.dismiss(dataclasses.replace(self._plan, way=way, why=self._why.typed.strip()))

    def on_descendant_focus(self) -> None:
        self._repaint()

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)

    # -- drawing

    def _jobs(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = [fit(((self._target.label, "strong"),), width), (), (_label("jobs"), *self._count())]
        facts = self._target.facts[:FACTS]
        return [*lines, *(fit((_label(label), (value, "text")), width) for label, value in facts)]

    def _count(self) -> Line:
        if self._lost:
            return ((self._lost, "bad"),)
        if self._plan is None:
            about = f"about {self._target.about:,}, " if self._target.about is not None else ""
            return ((f"{about}being frozen ...", "muted"),)
        number = len(self._plan.ids)
        capped: Line = ((", the first million", "warn"),) if self._plan.capped else ()
        return ((f"{number:,}", "strong"), (", frozen: none will be added" if number != 1 else "", "text"), *capped)

    def _said(self, width: int, height: int) -> list[Line]:
        problem = self._problem or self._priority.problem
        if problem:
            return [((part, "bad"),) for part in wrap(problem, width)[:height]]
        hint = self.focused.hint if isinstance(self.focused, Field) else ""
        alert = self.console.glyphs.alert
        said = [
            f"{alert} {one}" for one in warnings(self._queue.typed, self._target.types, self.console.model.snapshot)
        ]
        known: list[Line] = [((part, "warn"),) for text in said for part in wrap(text, width)]
        undo = "u takes it back." if self._priority.value is None else "Another priority cannot be taken back."
        kept: list[Line] = [((part, "muted"),) for part in wrap(f"{WORDS['move'].consequence} {undo}", width)]
        return [((hint, "muted"),), *known[: height - 1 - len(kept)], *kept]

    def _repaint(self) -> None:
        for widget in (*self.query(Drawn), *self.query(QueueChoice)):
            widget.repaint()


def _label(label: str) -> tuple[str, str]:
    return (f"  {label:<{LABEL - 1}}", "muted")
