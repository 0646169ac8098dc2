"""The sheet before a change: what it will act on, frozen while one reads, and one key to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import ModalScreen

from jobconsole.core.columns import Spans
from jobconsole.core.humanize import duration, plural
from jobconsole.core.operations import GENTLE_FROM, Plan, Target, Verb
from jobconsole.tui.background import spawn
from jobconsole.tui.drawing.spans import Line, wrap
from jobconsole.tui.host import Host, host_of
from jobconsole.tui.messages import Planned
from jobconsole.tui.widgets.lines import LineWidget
from jobconsole.tui.widgets.push import Push

TITLES: dict[Verb, str] = {
    "retry": "Retry dead jobs",
    "delete": "Delete dead jobs to the trash",
    "cancel": "Cancel jobs",
}
WORDS: dict[Verb, str] = {"retry": "Retry", "delete": "Delete", "cancel": "Cancel"}
CONSEQUENCES: dict[Verb, str] = {
    "retry": "They start again with all their retries. Jobs that change meanwhile are skipped and counted.",
    "delete": "They leave the dead-letter queue for the trash. u brings exactly these back.",
    "cancel": "Waiting jobs never run; workers are asked to stop running ones. This cannot be undone.",
}
PACES: tuple[tuple[str, float], ...] = (
    ("at once", 0.0),
    ("200/s", 200.0),
    ("50/s", 50.0),
    ("10/s", 10.0),
    ("1/s", 1.0),
)
LABEL = 9
"""Cells of a label."""
WIDTH = 66
"""Cells of the text, as the style sheet has it."""
FACT_LINES = 2
"""Lines that one fact takes at most."""


class SheetText(LineWidget):
    """What the sheet says above its buttons."""

    def __init__(self, text: Callable[[int], list[Line]]) -> None:
        super().__init__(id="sheet-text")
        self._text = text

    def lines(self, width: int, height: int) -> list[Line]:
        """Title, target, facts, consequence."""
        return self._text(width)


class Pace(LineWidget, can_focus=True):
    """How fast retried jobs become due; ← and → change it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "faster", show=False),
        Binding("right,l", "step(1)", "slower", show=False),
    ]

    class Changed(Message):
        """Another pace was chosen."""

    def __init__(self, about: int) -> None:
        super().__init__(id="sheet-pace")
        self.chosen = 1 if about > GENTLE_FROM else 0

    @property
    def per_second(self) -> float:
        """Jobs per second; 0 for all at once."""
        return PACES[self.chosen][1]

    def lines(self, width: int, height: int) -> list[Line]:
        """All paces, the chosen one between brackets."""
        spans: list[tuple[str, str]] = [(f"{'pace':<{LABEL}}", "accent" if self.has_focus else "muted")]
        for index, (word, _) in enumerate(PACES):
            here = index == self.chosen
            spans.append((f"[{word}]" if here else f" {word} ", "strong" if here else "muted"))
        return [tuple(spans)]

    def action_step(self, step: int) -> None:
        """Choose the next pace."""
        self.chosen = max(0, min(len(PACES) - 1, self.chosen + step))
        self.repaint()
        self.post_message(self.Changed())

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()


class Sheet(ModalScreen[Plan | None]):
    """Gives back the plan to carry out, or None. Go has the focus where it can be undone or throttled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "go back"),
        Binding("down,j,tab", "app.focus_next", "next", show=False),
        Binding("up,k,shift+tab", "app.focus_previous", "previous", show=False),
    ]

    def __init__(self, verb: Verb, target: Target) -> None:
        super().__init__()
        self._verb = verb
        self._target = target
        self._plan: Plan | None = None
        self._problem = ""
        self._going = False

    @property
    def console(self) -> Host:
        """The application."""
        return host_of(self)

    def compose(self) -> ComposeResult:
        """The text, the pace of a retry, the buttons."""
        with Vertical(id="sheet"):
            yield SheetText(self.text)
            if self._verb == "retry":
                yield Pace(self._target.about or 0)
            with Horizontal(id="sheet-buttons"):
                yield Push(WORDS[self._verb], id="go")
                yield Push("Go back", id="no")

    def on_mount(self) -> None:
        self.query_one("#sheet").border_title = TITLES[self._verb]
        self.query_one("#no" if self._verb == "cancel" else "#go", Push).focus()
        self.query_one(SheetText).styles.height = len(self.text(WIDTH))
        spawn(self, "freeze", self._freeze)

    async def _freeze(self) -> None:
        self.post_message(await self.console.operator.freeze(self._verb, self._target))

    def on_planned(self, message: Planned) -> None:
        self._plan, self._problem = message.plan, message.problem
        self.query_one(SheetText).repaint()
        if self._plan is not None:
            self.query_one("#go", Push).put(f"{WORDS[self._verb]} {plural(len(self._plan.ids), 'job')}")
        if self._going:
            self._leave_with_plan()

    def text(self, width: int) -> list[Line]:
        """What it acts on, facts, and what will happen."""
        lines: list[Line] = [((part, "strong"),) for part in wrap(self._target.label, width)[:3]]
        lines += [(), self._count()]
        for label, value in self._target.facts:
            for number, part in enumerate(wrap(value, width - LABEL)[:FACT_LINES]):
                lines.append(((f"{'' if number else label:<{LABEL}}", "muted"), (part, "text")))
        lines.append(())
        lines += [((part, "muted"),) for part in wrap(CONSEQUENCES[self._verb], width)]
        return lines

    def _count(self) -> Line:
        label = (f"{'jobs':<{LABEL}}", "muted")
        if self._problem:
            return (label, (self._problem, "bad"))
        if self._plan is None:
            about = f"about {self._target.about:,}, " if self._target.about is not None else ""
            return (label, (f"{about}being frozen ...", "muted"))
        number = len(self._plan.ids)
        capped: Spans = ((", the first million", "warn"),) if self._plan.capped else ()
        frozen = ", frozen: none will be added" if number != 1 else ""
        return (label, (f"{number:,}", "strong"), (frozen, "text"), *capped, (self._spread(number), "accent"))

    def _spread(self, number: int) -> str:
        if self._verb != "retry" or not self._per_second or number < 2:
            return ""
        return f", over {duration(number / self._per_second)}"

    @property
    def _per_second(self) -> float:
        return self.query_one(Pace).per_second if self._verb == "retry" else 0.0

    @on(Pace.Changed)
    def say_how_long(self) -> None:
        """Say how long the chosen pace takes."""
        self.query_one(SheetText).repaint()

    @on(Push.Pressed)
    def press(self, message: Push.Pressed) -> None:
        """Go on, as soon as the ids are frozen, or change nothing."""
        if message.push_id == "no":
            self.dismiss(None)
            return
        self._going = True
        if self._plan is not None or self._problem:
            self._leave_with_plan()

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)

    def _leave_with_plan(self) -> None:
        if self._plan is None:
            self._going = False
            return
        spread = len(self._plan.ids) / self._per_second if self._per_second else 0.0
        self.dismiss(self._plan.with_spread(spread) if self._verb == "retry" else self._plan)
