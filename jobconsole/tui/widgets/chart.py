"""Throughput: one bar for each second, in one colour, drawn at most once a second."""

from __future__ import annotations

from jobconsole.core import humanize
from jobconsole.core.columns import Spans
from jobconsole.core.series import columns
from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.widgets.pane import Pane


class Chart(Pane):
    """Completed jobs by the second, the newest at the right, above the rates of what else happened."""

    can_focus = False

    def heading(self) -> Spans:
        """The title."""
        return (("Throughput", "title"),)

    def note(self) -> Spans:
        """The rate now."""
        return ((humanize.rate(self.console.model.rate("completed")), "good"), (" done", "muted"))

    def body(self, width: int, height: int) -> list[Line]:
        """Bars and legend."""
        model = self.console.model
        points = model.history("completed", width)
        bars = max(1, height - 1)
        highest = max(points, default=0)
        lines: list[Line] = [((line, "chart"),) for line in columns(points, width, bars, self.console.glyphs.levels)]
        failed = model.rate("retrying") + model.rate("dead")
        legend: Line = (
            ("in ", "muted"),
            (f"{humanize.rate(model.rate('created')):<8}", "text"),
            ("fail ", "muted"),
            (f"{humanize.rate(failed):<8}", "text"),
            ("peak ", "muted"),
            (humanize.rate(highest), "text"),
        )
        return [*lines, legend] if height > 1 else lines
