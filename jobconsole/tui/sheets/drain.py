"""The sheet before a queue is drained: where what waits goes, why, and what is known about both queues."""

from __future__ import annotations

from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.actions.plan import warnings
from jobconsole.core.rows import LONGEST_NAME, QueueLine
from jobconsole.format.humanize import exact
from jobconsole.format.spans import Line, fit, wrap
from jobconsole.format.words import IMMEDIATE
from jobconsole.tui.sheets.sheet import WHY
from jobconsole.tui.sheets.target import ROOMY, WIDTH, TargetSheet, labelled
from jobconsole.tui.widgets.fields import Field, Push, QueueChoice, QueueField, TextField
from jobconsole.tui.widgets.pane import Drawn
from queue_core.model.text import safe
from queue_core.model.validation import check_queue_name


class Drain(NamedTuple):
    """What was decided."""

    queue: str
    # where what waits goes; None: workers run it here
    move_to: str | None
    why: str


class DrainSheet(TargetSheet[Drain]):
    """Gives back how the queue is drained, or None."""

    def __init__(self, queue: QueueLine) -> None:
        super().__init__()
        self._of, self._words = queue, IMMEDIATE["queue", "drain"]
        hint = "what waits is moved there, Up and Down choose a queue; nothing: workers run it here"
        self.target = QueueField(id="move-queue", label="move to", hint=hint, empty="none", but=queue.name)
        self._why = TextField("reason", WHY, id="move-why")

    def compose(self) -> ComposeResult:
        """The queue and its jobs, the fields with the list of queues under the first, what is known, the buttons."""
        with Vertical(id="move"):
            yield Drawn(self._jobs, id="move-jobs")
            yield self.target
            yield QueueChoice(self.target, id="move-queues")
            yield self._why
            yield Drawn(self._warnings, id="move-said")
            yield from self.buttons(go=f"{self._words.button} the queue")

    def on_mount(self) -> None:
        self.set_class(self.app.size.height < ROOMY, "-tight")
        self.query_one("#move").border_title = self._words.title
        self.query_one("#move-jobs").styles.height = len(self._jobs(WIDTH, 0))
        self.offer_command()
        self.query_one("#go", Push).focus()

    def commands(self) -> list[list[str]]:
        """The drain as it is typed."""
        drain = self._decided()
        options = [f"--move-to={drain.move_to}"] if drain.move_to else []
        return [["queue", "drain", *options, *([f"--why={drain.why}"] if drain.why else []), "--", drain.queue]]

    def go(self, button: str) -> None:
        """Confirm."""
        try:
            self.decide(self._decided())
        except ValueError as error:
            self.problem = str(error)
            self.repaint()

    def _decided(self) -> Drain:
        typed = self.target.typed.strip()
        if typed == self._of.name:
            raise ValueError("that is the queue itself: name another one, or none")
        move_to = check_queue_name(typed) if typed else None
        return Drain(self._of.name, move_to, self._why.typed.strip())

    # -- drawing

    def _after(self) -> str:
        """Return what becomes of the jobs, and what undoes that."""
        to = self.target.typed.strip()
        if not to:
            return "What is in it runs until it is empty. P or u opens it."
        return f"What waits moves to {safe(to, LONGEST_NAME)}. P opens it; u opens it and moves that back."

    def _jobs(self, width: int, height: int) -> list[Line]:
        queue = self._now()
        waits = queue.queued + queue.scheduled + queue.retrying
        counts = f"{exact(waits)} {'waits' if waits == 1 else 'wait'}, {exact(queue.running)} running"
        return [fit(((queue.label, "strong"),), width), (), (labelled("jobs"), (counts, "text"))]

    def _now(self) -> QueueLine:
        """Return the queue as it was read last."""
        snapshot = self.console.model.snapshot
        return next((one for one in (snapshot.queues if snapshot else ()) if one.name == self._of.name), self._of)

    def _warnings(self, width: int, height: int) -> list[Line]:
        if self.problem:
            return [((part, "bad"),) for part in wrap(self.problem, width, height, self.console.glyphs.ellipsis)]
        hint = self.focused.hint if isinstance(self.focused, Field) else ""
        found = warnings(self.target.typed, (), self.console.model.snapshot)
        snapshot, queue = self.console.model.snapshot, self._of
        served = snapshot is None or any(queue.name in one.queues and not one.lost for one in snapshot.workers)
        if not served:
            found.append(f"no live worker takes jobs from '{queue.label}': what runs or stays there waits for one")
        sentences = [f"{self.console.glyphs.alert} {one}" for one in found]
        known: list[Line] = [((part, "warn"),) for text in sentences for part in wrap(text, width)]
        kept: list[Line] = [((part, "muted"),) for part in wrap(f"{self._words.consequence} {self._after()}", width)]
        hints: list[Line] = [((part, "muted"),) for part in wrap(hint, width)] if hint else [()]
        return [*hints, *known[: max(0, height - len(hints) - len(kept))], *kept]
