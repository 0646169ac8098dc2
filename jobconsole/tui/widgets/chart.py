"""Throughput: one bar for each second or for each part of a longer time, in one colour."""

from __future__ import annotations

from jobconsole.core import humanize
from jobconsole.core.columns import Spans
from jobconsole.core.humanize import elapsed
from jobconsole.core.series import columns
from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.widgets.pane import Pane


class Chart(Pane):
    """Completed jobs by the second, the newest at the right, above the rates of what else happened."""

    can_focus = False

    def __init__(self, seconds: int | None = None, *, id: str | None = None) -> None:
        """`seconds`: over which time it is drawn; None for one bar a second."""
        super().__init__(id=id)
        self._seconds = seconds

    def heading(self) -> Spans:
        """The title, with the time that it is drawn over."""
        over = f"  last {elapsed(self._seconds)}" if self._seconds else ""
        return (("Throughput", "title"), (over, "muted"))

    def note(self) -> Spans:
        """The rate now."""
        return ((humanize.rate(self.console.model.rate("completed")), "good"), (" done", "muted"))

    def body(self, width: int, height: int) -> list[Line]:
        """Bars and legend."""
        model = self.console.model
        points = model.history("completed", self._seconds or width)
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
