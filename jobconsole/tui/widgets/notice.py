"""One line above the keys: how an operation is going, what the last one did, why a key is off."""

from __future__ import annotations

import time

from jobconsole.core.columns import BAR, Span, Spans, bar
from jobconsole.core.humanize import exact, plural
from jobconsole.core.operations import Report
from jobconsole.tui.drawing.spans import Line, fit
from jobconsole.tui.widgets.lines import LineWidget
from queue_core.text import safe

SHOWN_SECONDS = 12.0
"""How long a sentence stays, if no other one comes."""


class Notice(LineWidget):
    """Progress of an operation, or a sentence said lately."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._said: Span = ("", "text")
        self._until = 0.0

    def say(self, text: str, tone: str = "text") -> None:
        """Show a sentence for a while."""
        self._said, self._until = (safe(text), tone), time.monotonic() + SHOWN_SECONDS
        self.repaint()

    @property
    def said(self) -> str:
        """The sentence that is shown now; "" when there is none."""
        return self._said[0] if time.monotonic() < self._until else ""

    def lines(self, width: int, height: int) -> list[Line]:
        """Draw the line."""
        if self.said:
            return [fit(((" ", "text"), self._said), width)]
        active, back = self.console.operator.active, self.console.operator.taking_back
        if self.screen.has_class("-operating"):
            # What is under way stands right above.
            active = tuple(report for report in active if report.operation is None)
        if back and not active:
            return [fit(((f" taking back {safe(back)} {self.console.glyphs.ellipsis}", "muted"),), width)]
        return [fit(self._progress(active[0], len(active) - 1), width)] if active else []

    def _progress(self, report: Report, others: int) -> Spans:
        operation, glyphs = report.operation, self.console.glyphs
        more = f"  and {plural(others, 'other')}" if others else ""
        label = f"  {safe(report.plan.label)}{more}"
        if operation is None:
            total = len(report.plan.ids)
            counts = f" being written: {exact(report.written)} of {exact(total)}"
            percent = round(100 * report.written / max(1, total))
            return ((f" {report.plan.verb} ", "strong"), *bar(percent, BAR, glyphs), (counts, "text"), (label, "muted"))
        skipped = f", {exact(operation.skipped)} skipped" if operation.skipped else ""
        counts = f" {exact(operation.done)}/{exact(operation.total)}{skipped}"
        percent = round(100 * operation.done / max(1, operation.total))
        name = f" #{operation.number} {report.plan.verb} "
        waits = "  waits for its canary" if operation.held else ""
        return ((name, "strong"), *bar(percent, BAR, glyphs), (counts, "text"), (waits, "warn"), (label, "muted"))
