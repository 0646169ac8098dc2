"""The last lines of the screen: the keys of what has the focus, and notices."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual import events

from jobconsole.actions.plan import Report
from jobconsole.format.humanize import exact, plural
from jobconsole.format.spans import Line, Span, Spans, fit, width_of
from jobconsole.present.columns import BAR as PROGRESS
from jobconsole.present.columns import bar
from jobconsole.tui.base.bindings import BAR, Action
from jobconsole.tui.base.host import sure
from jobconsole.tui.widgets.pane import LineWidget
from queue_core.errors import OutcomeUnknown, QueueCoreError, StoreRefused, StoreUnavailable
from queue_core.model.text import safe

LEAST_OFF = 72
"""Columns from which keys that are off for the moment are shown, too."""
ALWAYS = frozenset({"help", "quit"})


class KeyBar(LineWidget):
    """As many keys as fit, the most important first; help and quit always."""

    def __init__(self, label_of: Callable[[Action, int], str], *, id: str | None = None) -> None:
        """`label_of` returns what a bar of some width shows beside a key."""
        super().__init__(id=id)
        self._label_of = label_of
        self._spots: list[tuple[int, str]] = []

    def lines(self, width: int, height: int) -> list[Line]:
        """Draw the line and note where each key is, for the mouse."""
        labels = {action: self._label_of(action, width) for action in BAR}
        shown = self.console.refusals_shown()
        wanted = [(action, off) for action in BAR if (off := self._off(action, shown(action.id), width)) is not None]
        # The last one needs no blanks behind it.
        room, chosen = width + 1, dict[Action, bool]()
        for action, off in sorted(wanted, key=lambda pair: (pair[0].id not in ALWAYS, pair[0].rank)):
            room -= _size(action, labels[action])
            if room < 0 and action.id not in ALWAYS:
                break
            chosen[action] = off
        spans: list[Span] = [(" ", "text/bar")]
        self._spots = []
        for action in BAR:
            if action in chosen:
                spans += _key(action, labels[action], chosen[action])
                self._spots.append((width_of(spans), action.id))
        spans[-1] = (spans[-1][0].rstrip(), spans[-1][1])
        return [fit(spans, width, fill="text/bar")]

    def _off(self, action: Action, reason: str | None, width: int) -> bool | None:
        """Whether the key is off; None: it has no place here. What can never be done here, and no undo, has none."""
        gone = bool(reason) and (width < LEAST_OFF or action.id == "undo")
        if reason is None or gone or (action.changes and self.console.operator.read_only):
            return None
        return bool(reason)

    def on_click(self, event: events.Click) -> None:
        for end, action_id in self._spots:
            if event.x < end:
                self.console.choose(action_id)
                return


def _size(action: Action, label: str) -> int:
    return len(action.key) + 1 + len(label) + 2


def _key(action: Action, label: str, off: bool) -> list[Span]:
    if off:
        return [(f"({action.key}){label} ", "faint/bar")]
    return [(action.key, "key/bar"), (f" {label}  ", "text/bar")]


SHOWN_SECONDS = 12.0
"""How long a sentence stays, if no other one comes."""
READ_SECONDS = 4.0
"""How long one stays before another that answers no key, such as an alarm."""


def short_failure(error: QueueCoreError) -> str:
    """Return a failure without what the connection gives for its reason, which the header leads to; "" for others."""
    if isinstance(error, OutcomeUnknown):
        return f"{error.backend} {error.happened}: #{error.number} may have begun; 4 shows it"
    if isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused):
        return f"{error.backend} {error.happened}; what was asked for may be done or not"
    return ""


class Notice(LineWidget):
    """Progress of an operation, or a recent message."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text: Span = ("", "text")
        # what is shown where the line is too narrow for it; "" for its beginning
        self._short = ""
        self._since = self._until = 0.0
        # what is shown next, "" for nothing, and whether a timer waits to do so
        self._next: Span = ("", "text")
        self._waiting = False

    def show(self, text: str, tone: str = "text", short: str = "") -> None:
        """Show a sentence for a while, or a `short` one where the line is too narrow."""
        self._text, self._short, self._since = (safe(text), tone), safe(short), time.monotonic()
        self._until = self._since + SHOWN_SECONDS
        self.repaint()

    def show_next(self, text: str, tone: str) -> None:
        """Show a sentence that answers no key: behind one that was not shown for long enough to be read."""
        self._next = (text, tone)
        if not self._waiting:
            self._follow()

    def _follow(self) -> None:
        wait = self._since + READ_SECONDS - time.monotonic()
        self._waiting = bool(self._next[0] and self.text) and wait > 0
        if self._waiting:
            sure(self.set_timer(wait, self._follow))
        elif self._next[0]:
            following, self._next = self._next, ("", "text")
            self.show(*following)

    def fail(self, error: QueueCoreError) -> None:
        """Show why a change or a read failed."""
        self.show(str(error), "bad", short_failure(error))

    def drop(self, reason: str) -> None:
        """Take a sentence away that ends with a reason, which holds no more."""
        if self._next[0].endswith(reason):
            self._next = ("", "text")
        if self.text.endswith(reason):
            self.show("")

    @property
    def text(self) -> str:
        """The sentence that is shown now; "" when there is none."""
        return self._text[0] if time.monotonic() < self._until else ""

    def lines(self, width: int, height: int) -> list[Line]:
        """Draw the line."""
        if self.text:
            whole = ((" ", "text"), self._text)
            if self._short and width_of(whole) > width:
                whole = ((" ", "text"), (self._short, self._text[1]))
            return [fit(whole, width)]
        active, back = self.console.operator.active, self.console.operator.taking_back
        if self.screen.has_class("-operating"):
            # The list of what is under way is right above.
            active = tuple(report for report in active if report.operation is None)
        if back and not active:
            return [fit(((f" undoing {safe(back)} {self.console.glyphs.ellipsis}", "muted"),), width)]
        return [fit(self._progress(active[0], len(active) - 1), width)] if active else []

    def _progress(self, report: Report, others: int) -> Spans:
        operation, glyphs = report.operation, self.console.glyphs
        more = f"  and {plural(others, 'other')}" if others else ""
        label = f"  {safe(report.plan.label)}{more}"
        if operation is None:
            total = len(report.plan.ids)
            counts = f" being written: {exact(report.written)} of {exact(total)}"
            percent = round(100 * report.written / max(1, total))
            return (
                (f" {report.plan.verb} ", "strong"),
                *bar(percent, PROGRESS, glyphs),
                (counts, "text"),
                (label, "muted"),
            )
        skipped = f", {exact(operation.skipped)} skipped" if operation.skipped else ""
        counts = f" {exact(operation.done)}/{exact(operation.total)}{skipped}"
        percent = round(100 * operation.done / max(1, operation.total))
        name = f" #{operation.number} {report.plan.verb} "
        waits = "  waiting for its canary" if operation.awaiting_canary else ""
        return ((name, "strong"), *bar(percent, PROGRESS, glyphs), (counts, "text"), (waits, "warn"), (label, "muted"))
