"""One line above the keys: how an operation is going, what the last one did, why a key is off."""

from __future__ import annotations

import time

from jobconsole.core.columns import BAR, Span, Spans, bar
from jobconsole.core.humanize import exact
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
        active = self.console.operator.active
        if active is not None:
            return [fit(self._progress(active), width)]
        return [fit(((" ", "text"), self._said), width)] if self.said else []

    def _progress(self, report: Report) -> Spans:
        total = max(1, len(report.plan.ids))
        counts = f" {exact(report.done)}/{exact(len(report.plan.ids))}"
        skipped = f", {exact(report.skipped)} skipped" if report.skipped else ""
        return (
            (f" {report.plan.verb} ", "strong"),
            *bar(round(100 * report.done / total), BAR * 2, self.console.glyphs),
            (counts + skipped, "text"),
            (f"  {report.plan.label}", "muted"),
        )
