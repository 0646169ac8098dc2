"""What is known about the schedule under the cursor."""

from __future__ import annotations

from typing import ClassVar

from jobconsole.core.columns import Moment, Spans
from jobconsole.core.links import Link
from jobconsole.core.timetable import ScheduleLine
from jobconsole.tui.drawing.schedule import brief_lines, schedule_lines
from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.widgets.schedulelist import CHOOSE
from jobconsole.tui.widgets.scrollpane import ScrollPane

GLANCE = 9
"""Lines up to which only the ticks are shown."""


class ScheduleFacts(ScrollPane):
    """The next ticks, the options, the payload."""

    NEVER: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("retry", "delete", "cancel", "export"), CHOOSE),
        "filter": "go back to the list to filter it",
        "sort": "go back to the list to sort it",
    }

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.line: ScheduleLine | None = None
        # when next ticks were worked out: that is too much for four times a second
        self._kept_for: tuple[object, ...] = ()
        self._kept: list[Line] = []

    @property
    def glance(self) -> bool:
        """Whether there is room for a few lines only."""
        return self.size.height <= GLANCE

    @property
    def reachable(self) -> bool:
        """A glance only accompanies the list."""
        return not self.glance

    def heading(self) -> Spans:
        """Whose facts these are."""
        return (("Schedule", "title"), (f"  {self.line.label}" if self.line else "", "muted"))

    def about(self, line: ScheduleLine | None) -> None:
        """Show another schedule, or the same one as it is now."""
        if line is None or self.line is None or line.name != self.line.name:
            self.top = 0
        self.line = line
        self.repaint()

    def content(self, width: int) -> list[Line]:
        """The facts."""
        if self.line is None:
            return [(("nothing is chosen", "muted"),)]
        moment = self.console.moment()
        needs = (self.line, width, self.inner_height, int(moment.now.timestamp()), moment.glyphs.dot)
        if needs != self._kept_for:
            self._kept_for, self._kept = needs, self._lines_of(self.line, moment, width)
        return self._kept

    def _lines_of(self, line: ScheduleLine, moment: Moment, width: int) -> list[Line]:
        if self.glance:
            return brief_lines(line, moment, width, self.inner_height)
        return schedule_lines(line, moment, width)

    def link(self) -> Link | None:
        """The place of the schedule."""
        return None if self.line is None else Link("schedule", self.line.name)

    def do_copy(self) -> None:
        """Copy the schedule's name."""
        if self.line is not None:
            self.console.copy(self.line.name)
