"""Dead letters by error: one line for each signature."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from jobconsole.actions.plan import NOT_CANCELLED, ON_DEAD, Choice, Target, dead_of, dead_only
from jobconsole.core.latency import word
from jobconsole.core.rows import LONGEST_LINE, LONGEST_NAME, held_order
from jobconsole.core.snapshot import SnapshotNeeds
from jobconsole.format.cuts import dominant, shared
from jobconsole.format.humanize import exact, moment_of, plural
from jobconsole.format.spans import Spans
from jobconsole.present.columns import signature_columns
from jobconsole.tui.base.links import Link
from jobconsole.tui.widgets.table import NO_MATCH, MarkTable
from queue_core.model.filters import Filter
from queue_core.model.report import SignatureInfo
from queue_core.model.text import safe
from queue_core.model.triage.signatures import SignatureState

ROOMY = 100
"""Cells from which the title has room for all of its parts."""
NEW_SECONDS = 5.0
"""How long a signature that has just appeared is marked."""

USUAL, STILL_USUAL = 0.8, 0.7
"""Share of the signatures from which a type is named once for all, and down to which it stays so."""
FEW = 4
"""Signatures from which this is done."""
WIDE, WIDEST = 120, 180
"""Cells of a screen from which states have a column, and from which the names of owners are whole."""
UNREAD = "the list is still being narrowed"
UNFROZEN = "the screen is held: the filter applies once p resumes"
"""Why the rows on the screen are not those of the filter."""

ORDERS: tuple[tuple[str, Callable[[SignatureInfo], Any] | None], ...] = (
    ("growth", None),
    ("count", lambda info: info.count),
    ("last death", lambda info: info.last_seen),
    ("first death", lambda info: info.first_seen),
)
"""What signatures can be sorted by, the highest first; the store sorts them by growth."""


class SignatureTable(MarkTable[SignatureInfo]):
    """Groups of dead jobs. Their order stays as it is while they are read; `r` sorts them again."""

    NEVER: ClassVar[dict[str, str]] = {"cancel": NOT_CANCELLED}

    reading = UNREAD
    still = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(signature_columns(word(SnapshotNeeds().window)), lambda info: info.signature, id=id)
        # the type that nearly all are of; "": there is none
        self.usual = ""
        # the rows are in the order that was asked for, and do not only keep their places
        self.in_order = True
        self.where = Filter()
        # the filter that the rows on the screen are of
        self.taken = Filter()
        self.order = 0
        # of what a search of texts is; "" without one
        self.searched = ""
        # why the rows are old, or those of an earlier filter; "" where that takes a moment only
        self.behind = ""
        self._seen: dict[str, float] = {}
        # as of the last snapshot
        self.states: Mapping[str, SignatureState] = {}
        # those that were new or back when rows were last taken
        self._attention: set[str] = set()
        # the cursor was moved
        self._moved = False

    def heading(self) -> Spans:
        """Title with the sums."""
        if self.console.model.snapshot is None:
            return (("Dead letters", "title"),)
        title: Spans = () if self.compact else (("Dead letters  ", "title"),)
        if self.behind and self.unread:
            return (*title, (self.behind, "warn"))
        rows, dot = self.selection.rows, self.console.glyphs.separator
        jobs = sum(info.count for info in rows)
        sums = ((plural(len(rows), "signature"), "muted"), (f" {dot} {plural(jobs, 'job')}", "muted"))
        # Rows leave this type out. It is of signatures: their jobs may be of others. There is no room for it and what
        # came in above on a narrow screen, and a note that does not fit is left out.
        roomy = self.size.width >= ROOMY or not self._above()
        usual = f" {dot} most: type {self.usual}" if self.usual and roomy else ""
        old: Spans = ((f" {dot} {self.behind}", "warn"),) if self.behind else ()
        return (*title, *sums, *old, (usual, "muted"))

    def note(self) -> Spans:
        """The order, or what is marked; what came in above."""
        selection = self.selection
        if selection.everything:
            # Of a search that goes on, all that it has found so far.
            found = f"{self.searched}, " if self.searched else ""
            return ((f"{found}all {exact(len(selection.rows))} marked", "warn"),)
        if selection.marks:
            return ((f"{len(selection.marks)} marked", "warn"),)
        name = f"by {ORDERS[self.order][0]}"
        if not self.in_order:
            by = (f"r sorts {name}", "accent")
        elif self._attention and not selection.top and not self.filter_text:
            by = (f"new first, then {name}", "muted")
        else:
            by = (name, "muted")
        if self.searched:
            by = (self.searched, "warn")
        return (*self._above(), by)

    def _above(self) -> Spans:
        """How many new ones, or others that came in, are above what is shown."""
        selection, up = self.selection, self.console.glyphs.up
        risen = sum(row.signature in self._attention for row in selection.rows[: selection.top])
        if risen:
            return ((f"{up} {exact(risen)} new above  ", "warn"),)
        return ((f"{up} {exact(selection.above)} above  ", "accent"),) if selection.above else ()

    @property
    def empty(self) -> str:  # type: ignore[override]
        """That there are none only where that is known: under a filter, none matches, or none is found yet."""
        if self.taken != self.where:
            return UNFROZEN if self.console.frozen else UNREAD
        if not self.where.terms:
            return "no dead letters"
        return f"nothing found {self.searched}" if self.searched.startswith("in ") else NO_MATCH

    @property
    def titled(self) -> bool:
        """A small screen has one row more instead: count, growth and title are known by their looks."""
        return not self.compact

    def take(self, fresh: tuple[SignatureInfo, ...], window: float, restart: bool = False) -> None:
        """Show groups as they were just read, with their growth over `window` seconds; `restart` sorts them again."""
        now = time.monotonic()
        self._arrange(fresh, window)
        other, self.taken = self.taken != self.where, self.where
        first = other or not self._seen
        ordered = self._sorted(fresh)
        attention = {name for name, state in self.states.items() if state.needs_attention}
        risen, self._attention = attention - self._attention, attention
        was = dict.fromkeys(risen, now) if not first else {}
        self._seen = {info.signature: self._seen.get(info.signature, 0.0 if first else now) for info in fresh} | was
        # Behind another filter there are no places to keep: what it left out would be last.
        rows = ordered if restart or other else self._held(ordered, risen)
        self.in_order = all(row is one for row, one in zip(rows, ordered, strict=True))
        # Before the first key no row was chosen: the cursor stays on top, where what is new comes.
        self.show(rows, follow=self._follows({info.signature for info in fresh}), seat=other)

    def _follows(self, names: set[str]) -> bool:
        """Whether the cursor stays on top; where its row is gone it is on none, whether or not a key was pressed."""
        selection = self.selection
        untouched = not (self._moved or self.console.touched)
        return untouched and not selection.adrift and (selection.key is None or selection.key in names)

    def _held(self, ordered: Sequence[SignatureInfo], risen: set[str]) -> Sequence[SignatureInfo]:
        """Return rows where they are on the screen: the cursor stays on its signature anyway.

        One that is new or has come back goes on top at once, and a silenced one that was not there to the end.
        """
        shown = [info.signature for info in self.selection.rows]
        silenced = [info.signature for info in ordered if self._place(info) > 1 and info.signature not in shown]
        kept = [name for name in shown if name not in risen]
        # What it does not know comes first there.
        return held_order(ordered, [*kept, *silenced] if kept else [], lambda info: info.signature)

    def move_to(self, place: int) -> None:
        self._moved = True
        super().move_to(place)

    def _arrange(self, fresh: Sequence[SignatureInfo], window: float) -> None:
        """Choose the columns: a type that nearly all signatures are of is named in the heading instead."""
        kinds = Counter(info.types[0][0] for info in fresh if info.types)
        share = STILL_USUAL if self.usual in kinds else USUAL
        self.usual = dominant(kinds, share) if len(fresh) >= FEW else ""
        same = shared(info.title for info in fresh)
        self.columns = signature_columns(
            word(window),
            self.usual,
            same,
            states=self.states,
            narrow=self.screen.has_class("-narrow"),
            wide=self.screen.size.width >= WIDE,
            whole=self.screen.size.width >= WIDEST,
        )

    def _sorted(self, rows: Sequence[SignatureInfo]) -> Sequence[SignatureInfo]:
        """Return them in their order: what is new or back first, what is muted last."""
        key = ORDERS[self.order][1]
        ordered = rows if key is None else sorted(rows, key=key, reverse=True)
        return sorted(ordered, key=self._place)

    def _place(self, row: SignatureInfo) -> int:
        state = self.states.get(row.signature)
        return 1 if state is None else state.place

    def do_sort(self) -> None:
        """Sort by the next of the orders."""
        self.order = (self.order + 1) % len(ORDERS)
        snapshot = self.console.model.snapshot
        # One of another filter is sorted once that of this one is there.
        if snapshot is not None and snapshot.needs.where == dead_only(self.where):
            self.take(snapshot.signatures, snapshot.needs.window, restart=True)
        self.repaint()

    def is_new(self, row: SignatureInfo) -> bool:
        """A signature is marked for a moment after it appeared."""
        return time.monotonic() - self._seen.get(row.signature, 0.0) < NEW_SECONDS

    def target(self, verb: Choice) -> Target | None:
        """The marked groups, or the one under the cursor."""
        selection = self.selection
        if selection.everything:
            return self._everything()
        chosen = list(selection.marks.values()) or ([selection.row] if selection.row is not None else [])
        return self.target_of(chosen) if chosen else None

    def _everything(self) -> Target | None:
        """All dead jobs that match, also those of groups that are not on the screen."""
        if self.taken != self.where:
            facts = (("filter", self.filter_text),) if self.filter_text else ()
            return Target("everything that matches", wheres=(dead_only(self.where),), facts=facts)
        shown = self.target_of(list(self.selection.rows)) if self.selection.rows else None
        return replace(shown, wheres=(dead_only(self.where),)) if shown is not None else None

    def target_of(self, chosen: list[SignatureInfo]) -> Target:
        """These groups."""
        label = chosen[0].title if len(chosen) == 1 else f"{exact(len(chosen))} signatures"
        return Target(
            label=label,
            wheres=tuple(dead_of(info.signature, self.where) for info in chosen),
            about=sum(info.count for info in chosen),
            keys=tuple(info.signature for info in chosen),
            facts=self._facts(chosen),
            signatures=tuple(info.signature for info in chosen),
            types=tuple(dict.fromkeys(name for info in chosen for name, _ in info.types)),
        )

    def _facts(self, chosen: list[SignatureInfo]) -> tuple[tuple[str, str], ...]:
        """Return the facts that matter before confirming."""
        now = self.console.model.now
        types: Counter[str] = Counter()
        for info in chosen:
            types.update(dict(info.types))
        hints = [hint for info in chosen if (hint := self.console.hint_for(info))]
        states = [state for info in chosen if (state := self.states.get(info.signature))]
        runbooks = [state.runbook for state in states if state.runbook]
        facts = [
            ("types", ", ".join(f"{name} {exact(number)}" for name, number in types.most_common(5))),
            ("queues", ", ".join(sorted({queue for info in chosen for queue in info.queues}))),
            ("died", f"until {moment_of(max(info.last_seen for info in chosen), now)}"),
            *(("filter", text) for text in [self.filter_text] if text),
            *(("repair", hint) for hint in hints[:1]),
            *(("runbook", safe(one, LONGEST_LINE)) for one in runbooks[:1]),
        ]
        state = self.states.get(chosen[0].signature) if len(chosen) == 1 else None
        if state is not None and state.since and state.died_since == state.died and not state.died_unknown:
            facts.append(("release", f" since {safe(state.since, LONGEST_NAME)}"))
        return tuple(facts)

    def do_copy(self) -> None:
        """Copy the runbook of the signature under the cursor, or its id."""
        row = self.selection.row
        if row is not None:
            self.console.navigation.copy_signature(row.signature)

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        if action == "edit" and (self.selection.everything or len(self.selection.marks) > 1):
            return "E edits one job at a time; Backspace takes the marks away"
        if action in {*ON_DEAD, "export"} and self.selection.everything:
            return "" if self.selection.rows or self.taken != self.where else self.nothing()
        if action in {*ON_DEAD, "edit", "export", "open", "full"} and self.taken != self.where:
            return UNFROZEN if self.console.frozen else UNREAD
        if action in {*ON_DEAD, "edit", "export"}:
            return "" if self.selection.marks or self.selection.row else self.nothing()
        return ""

    @property
    def unread(self) -> bool:
        """Whether what matches the filter is being read."""
        return self.taken != self.where and not self.console.frozen

    def link(self) -> Link | None:
        """The place of the row under the cursor."""
        return None if self.selection.row is None else Link("signature", self.selection.row.signature)
