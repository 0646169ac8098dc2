"""The operations that have not ended, one line each, below everything else."""

from __future__ import annotations

from jobconsole.core.columns import Spans
from jobconsole.core.progress import OperationLine, standing
from jobconsole.tui.drawing.operation import strip_line
from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.widgets.pane import Pane


class OperationStrip(Pane):
    """Only to be looked at: the keys for operations work in their own view."""

    can_focus = False

    @property
    def needed(self) -> bool:
        """Whether there is one to show."""
        return bool(self._shown())

    def heading(self) -> Spans:
        """Title, and how many there are, for there may be more than lines."""
        return (("Operations  ", "title"), *standing(self._shown(), self.console.glyphs))

    def note(self) -> Spans:
        """Where they are paused and cancelled."""
        return (("4 shows them all", "muted"),)

    def body(self, width: int, height: int) -> list[Line]:
        """What goes on stands first, the newest on top."""
        moment = self.console.moment()
        return [strip_line(line, moment, width) for line in self._shown()[:height]]

    def _shown(self) -> list[OperationLine]:
        """Those with jobs, the ones that go on first, then the stopped; what is only noted is over at once."""
        lines = [line for line in self.console.model.underway.lines if line.operation.total]
        return sorted(lines, key=lambda line: (line.waits, line.operation.state != "stopped"))
