"""The sheet of error signatures: whether they are resolved or muted, whose they are, and a note."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from jobconsole.actions.states import (
    LOUD,
    UNRESOLVED,
    FieldName,
    Mute,
    SignatureChoice,
    StateChange,
    as_set,
    change_of,
    next_time,
    parse_mute,
)
from jobconsole.core.snapshot import live_releases
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, Spans, fit, width_of, wrap
from jobconsole.present.signature import rule_sentence, state_sentence
from jobconsole.tui.sheets.sheet import Sheet
from jobconsole.tui.widgets.fields import LABEL, ChoiceField, Field, TextField
from jobconsole.tui.widgets.pane import Drawn
from queue_core.client.operations import this_author
from queue_core.errors import QueueCoreError
from queue_core.model.text import safe
from queue_core.model.triage.checks import LONGEST_NOTE, check_mended, check_note, check_owner
from queue_core.model.triage.signatures import NEXT, NOW, SignatureState

WIDTH = 76
"""Cells of the text, as the style sheet has it."""
ROOMY = 22
"""Lines from which there are blank ones around the fields."""
EXPLAINED = 3
"""Lines for what the field with the focus means."""
READ_SECONDS = 1.0
"""Between two readings of whether others have changed the same."""
OFFERED_RELEASES, OFFERED_OWNERS = 2, 4
"""Live releases, and owners of other signatures, that are offered; any other can be typed."""
LONGEST_NAME = 24
"""Cells of an owner's or a release's name among others."""
MUTES = (Mute(3600.0), Mute(4 * 3600.0))
LATER_MUTES = (Mute(7 * 86400.0), Mute(factor=2.0), Mute(factor=10.0))
MORNING = (9, 0)
"""The time of a day until which a mute is offered, UTC."""
KEPT = "as they are"

FIELDS: tuple[FieldName, ...] = ("resolve", "mute", "owner", "note")


class NoteField(TextField):
    """A note, which cannot hold everything that can be typed."""

    longest = LONGEST_NOTE

    @property
    def problem(self) -> str:
        """Why this cannot be a note; "" when it can."""
        try:
            check_note(self.typed)
        except QueueCoreError as error:
            return str(error)
        return ""

    def write(self, text: str) -> None:
        """Begin with a text."""
        self.typed = text
        self.repaint()


class StateSheet(Sheet[StateChange]):
    """Gives back what is to be set, or None. Enter in a field saves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "line(1)", "next", show=False),
        Binding("up,k", "line(-1)", "previous", show=False),
    ]

    def __init__(self, choice: SignatureChoice, field: FieldName) -> None:
        super().__init__()
        self._choice = choice
        self._first = field
        # as the sheet was opened: None where several are chosen, which may differ
        self._state: SignatureState | None = None
        self._before = StateChange()
        # the last choices, to see which field has changed
        self._set: tuple[Mute | None, str | None] = (None, None)

    def compose(self) -> ComposeResult:
        """What it is about, the fields, the rule, what the field means, the buttons."""
        self._state = self._read()
        if self._state is not None:
            self._before = as_set(self._state.facts, self._state.word)
        with Vertical(id="sheet"):
            yield Drawn(self.text, id="sheet-text")
            with Vertical(id="sheet-fields"):
                yield from self._fields()
            yield Drawn(self.rule, id="sheet-rule")
            yield Drawn(self.hint, id="sheet-hint")
            yield from self.buttons(go="Save")

    def _fields(self) -> ComposeResult:
        before = self._before
        yield ChoiceField(
            "resolve",
            "deaths on that release or an older one do not bring it back; arrows, or type a release",
            list(self._releases()), id="resolve", parse=check_mended, letters="",
        )  # fmt: skip
        yield ChoiceField(
            "mute", "silent for so long; arrows, or type 90m, 2d, 09:00, 5x",
            list(self._mutes()), id="mute", parse=self._parse_mute, letters="0123456789.:smhdwx",
        )  # fmt: skip
        yield ChoiceField(
            "owner", "whose it is; arrows, or type a name", list(self._owners()), id="owner", parse=check_owner,
            letters="",
        )  # fmt: skip
        yield NoteField("note", "one line, which every console shows", id="note", empty="none")
        self._begin = (before.mute, before.resolve)

    def on_mount(self) -> None:
        self.add_class("-wide")
        self.set_class(self.app.size.height < ROOMY, "-tight")
        self.query_one("#sheet").border_title = "Signature" if len(self._choice.names) == 1 else "Signatures"
        self.offer_command()
        for name, value in (
            ("resolve", self._before.resolve), ("mute", self._before.mute), ("owner", self._before.owner),
        ):  # fmt: skip
            self._field(name).choose(value)
        self.query_one(NoteField).write(safe(self._before.note or "", LONGEST_NOTE))
        self._set = self._chosen()
        self._begin_with()
        width = min(WIDTH, self.app.size.width - 4)
        self.query_one("#sheet-text").styles.height = len(self.text(width))
        self.query_one("#sheet-rule").styles.height = len(self.rule(width))
        self.query_one(f"#{self._first}").focus()
        self.set_interval(READ_SECONDS, self._repaint)

    def texts(self) -> dict[str, Callable[[int], Sized]]:
        """The state, and the rule that holds."""
        return {"sheet-text": self.text, "sheet-rule": self.rule}

    def _begin_with(self) -> None:
        """Set what the key asks for, unless it is set already."""
        if self._first == "mute" and self._before.mute in (LOUD, None):
            self._field("mute").choose(MUTES[-1])
        elif self._first == "resolve" and (self._state is None or self._state.word != "resolved"):
            found = self._live()
            self._field("resolve").choose(found[0] if found else NOW)
        self._exclude()

    # -- choices

    def _live(self) -> list[str]:
        snapshot = self.console.model.snapshot
        return live_releases(snapshot)[:OFFERED_RELEASES] if snapshot is not None else []

    def _releases(self) -> Iterator[tuple[str, str | None]]:
        if self._state is None:
            yield KEPT, None
        offered = self._live()
        before = self._before.resolve
        if before and before not in {*offered, NEXT, NOW}:
            offered = [before, *offered[: OFFERED_RELEASES - 1]]
        for name in offered:
            yield f"in {safe(name, LONGEST_NAME)}", name
        yield "in the next release", NEXT
        yield "now", NOW
        yield "not resolved", UNRESOLVED

    def _mutes(self) -> Iterator[tuple[str, Mute | None]]:
        if self._state is None:
            yield KEPT, None
        before = self._before.mute
        if before not in (None, LOUD):
            yield before.words, before
        yield LOUD.words, LOUD
        hour, minute = MORNING
        at = Mute(until=next_time(hour, minute, self._now()))
        for one in (*MUTES, at, *LATER_MUTES):
            if one is at:
                yield f"until {hour:02}:{minute:02}", one
            else:
                # The choice before it has the words.
                yield f"×{one.factor:g}" if one is LATER_MUTES[-1] else one.words, one

    def _owners(self) -> Iterator[tuple[str, str | None]]:
        if self._state is None:
            yield KEPT, None
        yield "nobody", ""
        me = this_author().user
        yield f"me: {safe(me, LONGEST_NAME)}", me
        snapshot, ruled = self.console.model.snapshot, self._state.rule.owner if self._state is not None else None
        team = ruled.value if ruled is not None else ""
        states = snapshot.states.values() if snapshot is not None else ()
        seen = sorted({one.facts.owner for one in states} - {me, "", team, self._before.owner})
        before = [self._before.owner] if self._before.owner not in (None, "", me, team) else []
        for name in [*before, *seen[:OFFERED_OWNERS]]:
            yield safe(name, LONGEST_NAME), name
        if team and team != me:
            yield f"{safe(team, LONGEST_NAME)} (rule)", team

    def _parse_mute(self, text: str) -> Mute:
        return parse_mute(text, self._now())

    def _now(self) -> datetime:
        return self.console.model.now

    # -- what is set

    def _field(self, name: str) -> ChoiceField[Any]:
        return self.query_one(f"#{name}", ChoiceField)

    def _chosen(self) -> tuple[Mute | None, str | None]:
        """The choices of both states; None where what is typed cannot be."""
        mute, resolve = self._field("mute"), self._field("resolve")
        return (None if mute.problem else mute.value, None if resolve.problem else resolve.value)

    def _problem(self) -> str:
        fields = (*(self._field(name) for name in FIELDS if name != "note"), self.query_one(NoteField))
        return next((f"{field.label}: {field.problem}" for field in fields if field.problem), "")

    def change(self) -> StateChange:
        """Return what the fields change.

        Raises:
            InvalidArgument: what was typed cannot be.
        """
        note = check_note(self.query_one(NoteField).typed)
        owner, mute, resolve = (self._field(name).value for name in ("owner", "mute", "resolve"))
        after = StateChange(owner, note if note or self._state is not None else None, mute, resolve)
        change = change_of(self._before, after)
        # One of both states takes the other's place by itself.
        if change.mute == LOUD and resolve:
            change = replace(change, mute=None)
        return replace(change, resolve=None) if change.resolve == UNRESOLVED and mute not in (None, LOUD) else change

    @on(Field.Changed)
    def settle(self) -> None:
        """Show what it means now; a signature is resolved or muted, not both."""
        self._exclude()
        self._repaint()

    def _exclude(self) -> None:
        (mute, resolve), before = self._chosen(), self._set
        if resolve != before[1] and resolve:
            self._field("mute").choose(LOUD)
        elif mute != before[0] and mute not in (None, LOUD):
            self._field("resolve").choose(UNRESOLVED)
        self._set = self._chosen()

    # -- drawing

    def _read(self) -> SignatureState | None:
        """The state of the only signature as it was last read; None where there are several."""
        if len(self._choice.names) > 1:
            return None
        (name,) = self._choice.names
        snapshot = self.console.model.snapshot
        return (snapshot.states.get(name) if snapshot is not None else None) or SignatureState(name)

    def text(self, width: int, height: int = 0) -> list[Line]:
        """Which signatures, how many jobs, and their state with who set it."""
        choice, types = self._choice, ", ".join(safe(name, 200) for name in self._choice.types[:3])
        ellipsis = self.console.glyphs.ellipsis
        name = choice.names[0] if len(choice.names) == 1 else ""
        about = f"{plural(choice.count, 'job')}{f', {types}' if types else ''}" if choice.count else "no dead job left"
        behind: Spans = ((f"   {safe(name, 12)}   {about}" if name else f"   {about}", "muted"),)
        title = safe(choice.label, 200)
        lines: list[Line] = [((title, "strong"), *behind)]
        if width_of(lines[0]) > width:
            lines = [
                fit(((title, "strong"),), width, ellipsis=ellipsis),
                fit(((behind[0][0].strip(), "muted"),), width, ellipsis=ellipsis),
            ]
        state = self._read()
        if state is not None:
            tone = "bad" if state.needs_attention else "text"
            parts = wrap(safe(state_sentence(state, self._now()), 400), width - LABEL, 2, ellipsis)
            lines += [(_label("" if number else "state"), (part, tone)) for number, part in enumerate(parts)]
        return lines

    def rule(self, width: int, height: int = 0) -> list[Line]:
        """What the rules of the configuration, and the task, give the only one."""
        words = rule_sentence(self._state.rule) if self._state is not None else ""
        parts = wrap(words, width - LABEL, 2, self.console.glyphs.ellipsis) if words else []
        return [(_label("" if number else "rule"), (part, "text")) for number, part in enumerate(parts)]

    def hint(self, width: int, height: int) -> list[Line]:
        """What the field with the focus means; that others were quicker."""
        text, tone = self._hint()
        state, opened = self._read(), self._state
        lines: list[Line] = []
        if state is not None and opened is not None and state.facts.changed_by != opened.facts.changed_by:
            words = f"{self.console.glyphs.alert} changed by others since this was opened: only your changes are saved"
            lines.append(fit(((words, "warn"),), width))
        return [*lines, *(((part, tone),) for part in wrap(text, width))][:EXPLAINED]

    def _hint(self) -> tuple[str, str]:
        focused = self.focused
        if isinstance(focused, Field):
            if focused.problem:
                return focused.problem, "bad"
            return (self._meaning() if focused.id in {"resolve", "mute"} else focused.hint), "muted"
        if problem := self._problem():
            return problem, "bad"
        return self.change().words or "nothing is changed yet", "accent"

    def _meaning(self) -> str:
        """What the chosen state does."""
        mute, resolve = self._chosen()
        stays = "Jobs are not touched."
        if resolve == NEXT:
            return f"A death on a release that is first seen from now on brings it back, and notifies. {stays}"
        if resolve == NOW:
            return f"An attempt that begins from now on and dies brings it back, and notifies. {stays}"
        if resolve:
            older = f"Deaths on {safe(resolve, LONGEST_NAME)} or older stay counted and do not bring it back"
            return f"{older}; one on a newer release does, within 2 s, and notifies. {stays}"
        if mute is not None and mute.factor is not None:
            jobs = plural(round(max(1, self._choice.count) * mute.factor), "dead job")
            until = f"Silent until there are {jobs}" if len(self._choice.names) == 1 else "Silent until they have grown"
            return f"{until}; that notifies. Its deaths stay counted and listed. {stays}"
        if mute not in (None, LOUD):
            return f"Silent and last in the list for that time; its deaths stay counted. {stays}"
        return self.focused.hint if isinstance(self.focused, Field) else ""

    def _repaint(self) -> None:
        for widget in self.query(Drawn):
            widget.repaint()

    def on_descendant_focus(self) -> None:
        self._repaint()

    # -- keys

    @on(Field.Left)
    def save(self) -> None:
        """Enter in a field saves."""
        self.go("go")

    def commands(self) -> list[list[str]]:
        """What the fields change, as commands."""
        return self.change().commands(self._choice.names)

    def go(self, button: str) -> None:
        """Save, unless something that was typed cannot be."""
        if self._problem():
            self._repaint()
            return
        self.decide(self.change())


def _label(label: str) -> tuple[str, str]:
    return (f"  {label:<{LABEL - 2}}", "muted")
