"""The sheet before a change: what it will act on, frozen while it is read, and one key to confirm."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from jobconsole.actions.command import changing
from jobconsole.actions.plan import ACTS_ON, Facts, Plan, Target, Verb, default_rollout
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, wrap
from jobconsole.format.words import title_of
from jobconsole.tui.base.host import spawn
from jobconsole.tui.sheets.sheet import WHY, PlanSheet
from jobconsole.tui.widgets.fields import LABEL, Field, Push, TextField
from jobconsole.tui.widgets.pane import Drawn
from jobconsole.tui.widgets.retryfields import RetryFields
from queue_core.errors import QueueCoreError

COUNT = "type the number to delete permanently"
WIDTH, WIDE = 66, 76
"""Cells of the text, as the style sheet has it; the second of a retry."""
ROOMY = 32
"""Lines from which the sheet of a retry has blank lines around its text."""
TAKEN = 9
"""Lines of the sheet of a retry that are not for its text nor its fields, without those blank ones."""
BELOW = 10
"""The same of another sheet, without a line for each field."""
LATER: dict[Verb, tuple[str, ...]] = {"retry": ("sample", "before")}
"""Facts that are read once the sheet is there: their places are kept."""


class ChangeSheet(PlanSheet):
    """Gives back the plan to carry out, or None. Go has the focus where it can be undone or throttled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "go back"),
        Binding("down,j", "line(1)", "next", show=False),
        Binding("up,k", "line(-1)", "previous", show=False),
    ]

    class Cautioned(Message, bubble=False):
        """What to know before was read."""

        def __init__(self, sentences: Sequence[str]) -> None:
            super().__init__()
            self.sentences = tuple(sentences)

    class FactsRead(Message, bubble=False):
        """What the target consists of was read."""

        def __init__(self, facts: Facts) -> None:
            super().__init__()
            self.facts = facts

    def __init__(self, verb: Verb, target: Target) -> None:
        super().__init__(verb, target)
        # None: not read yet
        self._facts: Facts | None = None
        # what to know before, a sentence each
        self._cautions: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """The text, the fields, a hint about the one with the focus, the buttons."""
        with Vertical(id="sheet"):
            yield Drawn(self.text, id="sheet-text")
            with Vertical(id="sheet-fields"):
                if self.verb == "retry":
                    yield RetryFields()
                if self.words.focus == "count":
                    yield TextField("count", COUNT, id="count", digits=True, empty="to be typed")
                yield TextField("reason", WHY, id="why")
            yield Drawn(self.hint, id="sheet-hint")
            yield from self.buttons(go=self.words.button)

    def on_mount(self) -> None:
        self.set_class(self.verb == "retry" and self.app.size.height < ROOMY, "-tight")
        self.set_class(self.verb == "retry", "-wide")
        self.query_one("#sheet").border_title = title_of(self.verb, self.chosen.states & ACTS_ON[self.verb])
        self.offer_command()
        self.query_one(f"#{self.words.focus}").focus()
        for fields in self.query(RetryFields):
            fields.put(default_rollout(self.verb, self.chosen.about or 0))
        self._settle()
        self.freeze()
        spawn(self, "facts", self._read_facts)

    async def _read_facts(self) -> None:
        try:
            facts = await self.console.refresher.operations.facts(self.chosen)
        except QueueCoreError:
            # What will be changed does not depend on it.
            facts = ()
        self.post_message(self.FactsRead(facts))

    def on_change_sheet_facts_read(self, message: FactsRead) -> None:
        self._facts = message.facts
        self._settle()

    def planned(self) -> None:
        """Show the rollout that fits so many jobs."""
        if self.plan is not None:
            for fields in self.query(RetryFields):
                fields.put(self.plan.rollout)
                spawn(self, "cautions", self._read_cautions, self.plan)
        self._settle()

    async def _read_cautions(self, plan: Plan) -> None:
        with suppress(QueueCoreError):
            self.post_message(self.Cautioned(await self.console.operator.cautions(self.chosen, plan)))

    def on_change_sheet_cautioned(self, message: Cautioned) -> None:
        self._cautions = message.sentences
        self._settle()

    def _settle(self) -> None:
        """Show what is known by now."""
        text = self.query_one("#sheet-text", Drawn)
        width = min(WIDE if self.verb == "retry" else WIDTH, text.size.width or WIDE)
        lines = len(self.text(width))
        unfolded = any(fields.has_class("-unfolded") for fields in self.query(RetryFields))
        if lines > text.size.height or unfolded:
            # It grows at most, unless fields need its room: nothing moves up under the eye.
            text.styles.height = lines
        text.repaint()
        self.query_one("#sheet-hint", Drawn).repaint()
        go = self.query_one("#go", Push)
        jobs = f" {plural(len(self.plan.ids), 'job')}" if self.plan is not None else ""
        go.off = bool(self._uncounted())
        go.put(f"{self.words.button}{jobs}")

    def fit_again(self) -> None:
        """Break its text for another width, and have room for its lines there."""
        self._settle()
        text = self.query_one("#sheet-text", Drawn)
        if text.size.width:
            text.styles.height = len(self.text(text.size.width))
        super().fit_again()

    # -- its text

    def text(self, width: int, height: int = 0) -> list[Line]:
        """What it acts on, and what is known about that."""
        alert, ellipsis = self.console.glyphs.alert, self.console.glyphs.ellipsis
        lines: list[Line] = [((part, "strong"),) for part in wrap(self.chosen.label, width, 2, ellipsis)]
        lines += [*([] if self.has_class("-tight") else [()]), ((f"  {'jobs':<{LABEL - 2}}", "muted"), *self.count())]
        room = self.app.size.height - self.has_class("-slim")
        if self.verb != "retry":
            # The fields and the buttons are below it.
            room = max(2, room - BELOW - len(self.query(Field)))
            whole = [*lines, *self._fact_lines(width, 2)]
            return whole if len(whole) <= room else [*lines, *self._fact_lines(width, 1)][:room]
        lines += self._fact_lines(width, 1, 2)
        # Facts go before warnings do.
        warned: list[Line] = [
            ((part, "warn"),) for one in self._cautions for part in wrap(f"{alert} {one}", width, 1, ellipsis)
        ]
        room -= TAKEN + self.query_one(RetryFields).height
        return [*lines[: max(2, room - len(warned))], *warned][:room]

    def _fact_lines(self, width: int, most: int, before: int = 0) -> list[Line]:
        """Return the facts in at most so many lines each; `before`: of what was done earlier."""
        lines: list[Line] = []
        for label, value in self._known():
            most_here = max(most, before) if label == "before" else most
            parts = wrap(value, width - LABEL, most_here, self.console.glyphs.ellipsis)
            names = (label, *[""] * most_here)
            pairs = zip(names, parts, strict=False)
            lines += [((f"  {name:<{LABEL - 2}}", "muted"), (part, "text")) for name, part in pairs]
        return lines

    def _known(self) -> list[tuple[str, str]]:
        read = self._facts or ()
        every = [*(fact for fact in self.chosen.facts if fact[0] not in dict(read)), *read]
        facts = merged(every) if self.verb == "retry" else [fact for fact in every if fact[0] != "release"]
        there = {label for label, _ in facts}
        waiting = "reading ..." if self._facts is None else "none"
        words = {} if self._facts is None else {"before": "never retried by signature"}
        later = [label for label in LATER.get(self.verb, ()) if label not in there]
        if not self.chosen.signatures:
            later = [label for label in later if label != "before"]
        places = ("types", "queues", "died", "deleted", "changed", "before", "", "sample")
        order = {label: place for place, label in enumerate(places)}
        return sorted(
            [*facts, *((label, words.get(label, waiting)) for label in later)],
            key=lambda fact: order.get(fact[0], len(places)),
        )

    def hint(self, width: int, height: int) -> list[Line]:
        """What the field with the focus means; on a button, what will happen."""
        focused = self.focused
        if isinstance(focused, Field):
            text, tone = (focused.problem, "bad") if focused.problem else (focused.hint, "muted")
        elif self.verb == "retry":
            fields = self.query_one(RetryFields)
            text, tone = fields.summary(self.plan), "bad" if fields.problem else "accent"
        else:
            text, tone = self._uncounted() or self.words.consequence, "muted"
        return [((part, tone),) for part in wrap(text, width, height, self.console.glyphs.ellipsis)]

    def _uncounted(self) -> str:
        """Return why a verb whose count has to be typed is off; "" for every other one, and when it was typed."""
        if self.words.focus != "count":
            return ""
        if self.plan is None:
            return "the jobs are being counted"
        typed = self.query_one("#count", TextField).typed.replace(",", "")
        number = len(self.plan.ids)
        return "" if typed == str(number) else f"type {number:,} first: {self.words.consequence}"

    # -- keys

    def on_descendant_focus(self) -> None:
        self.query_one("#sheet-hint", Drawn).repaint()

    @on(Field.Changed)
    def show_consequence(self) -> None:
        """Show what the field means now."""
        self._settle()

    @on(Field.Left)
    def go_to_go(self) -> None:
        """Move the focus to the button that confirms: one more Enter presses it."""
        self.query_one("#go", Push).focus()

    def commands(self) -> list[list[str]]:
        """The verb on the same target, with the fields as they are."""
        why = self.query_one("#why", TextField).typed.strip()
        for fields in self.query(RetryFields):
            return changing(self.verb, self.chosen, fields.options(), fields.rollout(), why)
        return changing(self.verb, self.chosen, why=why)

    def go(self, button: str) -> None:
        """Confirm, as soon as the ids are frozen."""
        if self._uncounted() or any(fields.problem for fields in self.query(RetryFields)):
            self.query_one("#sheet-hint", Drawn).repaint()
            return
        if self.plan is None:
            self.go_once_frozen()
            return
        plan = self.plan
        for fields in self.query(RetryFields):
            plan = replace(plan, rollout=fields.rollout(), options=fields.options())
        self.leave_with(plan, self.query_one("#why", TextField).typed)


def merged(facts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the facts with types, queues, release and times of death in one line, where these are of one each."""
    found = dict(facts)
    facts = [fact for fact in facts if fact[0] != "release"]
    types, queue, died = found.get("types", ""), found.get("queues", ""), found.get("died", "")
    name, _, count = types.rpartition(" ")
    if not (died and queue and name) or not count.replace(",", "").isdigit() or {",", " "} & {*queue, *name}:
        return list(facts)
    one = f"{died.removeprefix('from ')} on {queue}, all {name}{found.get('release', '')}"
    kept = [(label, one if label == "died" else value) for label, value in facts]
    return [fact for fact in kept if fact[0] not in {"types", "queues"}]
