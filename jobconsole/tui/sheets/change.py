"""The sheet before a change: what it will act on, frozen while one reads, and one key to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import ModalScreen

from jobconsole.actions.plan import ACTS_ON, Facts, Plan, Target, Verb, default_pace
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, Spans, wrap
from jobconsole.format.words import WORDS, title_of
from jobconsole.tui.base.host import Host, host_of, spawn
from jobconsole.tui.base.messages import Planned
from jobconsole.tui.widgets.fields import LABEL, Field, Push, TextField
from jobconsole.tui.widgets.pane import LineWidget
from jobconsole.tui.widgets.retryfields import RetryFields
from queue_core.errors import QueueCoreError

WHY = "a reason, kept with the operation and shown to whoever looks at these jobs later"
COUNT = "type how many jobs these are: that is what goes for good"
WIDTH = 66
"""Cells of the text, as the style sheet has it."""
ROOMY = 32
"""Lines from which the sheet of a retry has blank lines around its text."""
TAKEN = 15
"""Lines of the sheet of a retry that are not for its text, without those blank ones."""
LATER: dict[Verb, tuple[str, ...]] = {"retry": ("sample", "earlier")}
"""Facts that are read once the sheet is there: their places are kept."""


class SheetText(LineWidget):
    """What a sheet says, above its buttons."""

    def __init__(self, text: Callable[[int], list[Line]], *, id: str = "sheet-text") -> None:
        super().__init__(id=id)
        self._text = text

    def lines(self, width: int, height: int) -> list[Line]:
        """Whatever the function makes of the width."""
        return self._text(width)


class Sheet(ModalScreen[Plan | None]):
    """Gives back the plan to carry out, or None. Go has the focus where it can be undone or throttled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "go back"),
        Binding("down,j,tab", "app.focus_next", "next", show=False),
        Binding("up,k,shift+tab", "app.focus_previous", "previous", show=False),
    ]

    class Looked(Message, bubble=False):
        """What the target consists of was read."""

        def __init__(self, facts: Facts) -> None:
            super().__init__()
            self.facts = facts

    def __init__(self, verb: Verb, target: Target) -> None:
        super().__init__()
        self._verb = verb
        self._words = WORDS[verb]
        self._target = target
        self._plan: Plan | None = None
        self._problem = ""
        self._going = False
        # None: not read yet
        self._facts: Facts | None = None

    @property
    def console(self) -> Host:
        """The application."""
        return host_of(self)

    def compose(self) -> ComposeResult:
        """The text, the fields, a hint about the one with the focus, the buttons."""
        with Vertical(id="sheet"):
            yield SheetText(self.text)
            with Vertical(id="sheet-fields"):
                if self._verb == "retry":
                    yield RetryFields()
                if self._words.focus == "count":
                    yield TextField("count", COUNT, id="count", digits=True, empty="to be typed")
                yield TextField("reason", WHY, id="why")
            yield SheetText(self.hint, id="sheet-hint")
            with Horizontal(id="sheet-buttons"):
                yield Push(self._words.button, id="go")
                yield Push("Go back", id="no")

    def on_mount(self) -> None:
        self.set_class(self._verb == "retry" and self.app.size.height < ROOMY, "-tight")
        self.query_one("#sheet").border_title = title_of(self._verb, self._target.states & ACTS_ON[self._verb])
        self.query_one(f"#{self._words.focus}").focus()
        for fields in self.query(RetryFields):
            fields.put(default_pace(self._verb, self._target.about or 0))
        self._settle()
        spawn(self, "freeze", self._freeze)
        spawn(self, "look", self._look)

    async def _freeze(self) -> None:
        self.post_message(await self.console.operator.freeze(self._verb, self._target))

    async def _look(self) -> None:
        try:
            facts = await self.console.refresher.operations.facts(self._target)
        except QueueCoreError:
            # What will be changed does not depend on it.
            facts = ()
        self.post_message(self.Looked(facts))

    def on_sheet_looked(self, message: Looked) -> None:
        self._facts = message.facts
        self._settle()

    def on_planned(self, message: Planned) -> None:
        self._plan, self._problem = message.plan, message.problem
        if self._plan is not None:
            for fields in self.query(RetryFields):
                fields.put(self._plan.pace)
        self._settle()
        if self._going:
            self._leave_with_plan()

    def _settle(self) -> None:
        """Show what is known by now."""
        lines, text = len(self.text(WIDTH)), self.query_one("#sheet-text", SheetText)
        if lines > text.size.height:
            # It grows at most: nothing moves up under the eye.
            text.styles.height = lines
        text.repaint()
        self.query_one("#sheet-hint", SheetText).repaint()
        go = self.query_one("#go", Push)
        jobs = f" {plural(len(self._plan.ids), 'job')}" if self._plan is not None else ""
        go.off = bool(self._uncounted())
        go.put(f"{self._words.button}{jobs}")

    # -- what it says

    def text(self, width: int) -> list[Line]:
        """What it acts on, and what is known about that."""
        lines: list[Line] = [((part, "strong"),) for part in wrap(self._target.label, width)[:2]]
        lines += [*([] if self.has_class("-tight") else [()]), self._count()]
        for label, value in self._known():
            lines += [((f"  {label:<{LABEL - 2}}", "muted"), (part, "text")) for part in wrap(value, width - LABEL)[:1]]
        return lines[: self.app.size.height - TAKEN] if self._verb == "retry" else lines

    def _known(self) -> list[tuple[str, str]]:
        facts = [*self._target.facts, *(self._facts or ())]
        there = {label for label, _ in facts}
        word = "reading ..." if self._facts is None else "none that is known"
        later = [label for label in LATER.get(self._verb, ()) if label not in there]
        if not self._target.signatures:
            later = [label for label in later if label != "earlier"]
        places = ("types", "queues", "died", "changed", "earlier", "", "sample")
        order = {label: place for place, label in enumerate(places)}
        return sorted([*facts, *((label, word) for label in later)], key=lambda fact: order.get(fact[0], len(places)))

    def _count(self) -> Line:
        label = (f"  {'jobs':<{LABEL - 2}}", "muted")
        if self._problem:
            return (label, (self._problem, "bad"))
        if self._plan is None:
            about = f"about {self._target.about:,}, " if self._target.about is not None else ""
            goes = ": goes on as soon as they are" if self._going else ""
            return (label, (f"{about}being frozen ...{goes}", "muted"))
        number = len(self._plan.ids)
        capped: Spans = ((", the first million", "warn"),) if self._plan.capped else ()
        frozen = ", frozen: none will be added" if number != 1 else ""
        return (label, (f"{number:,}", "strong"), (frozen, "text"), *capped)

    def hint(self, width: int) -> list[Line]:
        """What the field with the focus means; on a button, what will happen."""
        focused = self.focused
        if isinstance(focused, Field):
            said, tone = (focused.problem, "bad") if focused.problem else (focused.hint, "muted")
        elif self._verb == "retry":
            fields = self.query_one(RetryFields)
            said, tone = fields.summary(self._plan), "bad" if fields.problem else "accent"
        else:
            said, tone = self._uncounted() or self._words.consequence, "muted"
        return [((part, tone),) for part in wrap(said, width)[:2]]

    def _uncounted(self) -> str:
        """Why a verb whose count is to be typed cannot go on yet; "" for every other one, and when it was typed."""
        if self._words.focus != "count":
            return ""
        if self._plan is None:
            return "the jobs are being counted"
        typed = self.query_one("#count", TextField).typed.replace(",", "")
        number = len(self._plan.ids)
        return "" if typed == str(number) else f"type {number:,} first: {self._words.consequence}"

    # -- keys

    def on_descendant_focus(self) -> None:
        self.query_one("#sheet-hint", SheetText).repaint()

    @on(Field.Changed)
    def say_what_that_means(self) -> None:
        """Say what the field means now."""
        self._settle()

    @on(Field.Left)
    def go_to_go(self) -> None:
        """One more Enter goes on."""
        self.query_one("#go", Push).focus()

    @on(Push.Pressed)
    def press(self, message: Push.Pressed) -> None:
        """Go on, as soon as the ids are frozen, or change nothing."""
        if message.push_id == "no":
            self.dismiss(None)
            return
        if self._uncounted() or any(fields.problem for fields in self.query(RetryFields)):
            self.query_one("#sheet-hint", SheetText).repaint()
            return
        self._going = True
        if self._plan is not None or self._problem:
            self._leave_with_plan()
        self._settle()

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)

    def _leave_with_plan(self) -> None:
        if self._plan is None:
            self._going = False
            return
        plan = replace(self._plan, why=self.query_one("#why", TextField).typed.strip())
        for fields in self.query(RetryFields):
            plan = replace(plan, pace=fields.pace(), way=fields.way())
        self.dismiss(plan)
