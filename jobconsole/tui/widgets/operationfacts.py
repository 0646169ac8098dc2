"""What is known about the operation under the cursor."""

from __future__ import annotations

import time
from functools import partial
from typing import ClassVar

from textual.message import Message

from jobconsole.core.columns import Spans
from jobconsole.core.links import Link
from jobconsole.core.progress import OperationLine
from jobconsole.tui.background import Renewal
from jobconsole.tui.drawing.operation import operation_lines
from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.operationreader import OperationSight
from jobconsole.tui.widgets.operationlist import CHOOSE, refuses_steering
from jobconsole.tui.widgets.scrollpane import ScrollPane
from queue_core.errors import QueueCoreError

GLANCE = 10
"""Lines up to which only the list has the focus."""
AGAIN_SECONDS = 2.0
"""Between two reads of an operation that is shown."""


class OperationFacts(ScrollPane):
    """Everything that was asked, how far it is, what came of it."""

    NEVER: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("retry", "delete", "restore", "export"), CHOOSE),
        "filter": "go back to the list to filter it",
    }

    class Read(Message):
        """An operation has been read in detail; `problem` says why not."""

        def __init__(self, number: int, sight: OperationSight | None, problem: str = "") -> None:
            super().__init__()
            self.number = number
            self.sight = sight
            self.problem = problem

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.line: OperationLine | None = None
        self.sight: OperationSight | None = None
        self._problem = ""
        self._read_at = 0.0
        self._renewal = Renewal(self, "operation")

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
        return (("Operation", "title"), (f"  #{self.line.number}" if self.line else "", "muted"))

    def about(self, line: OperationLine | None) -> None:
        """Show another operation, or the same one as it is now."""
        other = line is None or self.line is None or line.number != self.line.number
        self.line = line
        if other:
            self.top, self.sight, self._problem, self._read_at = 0, None, "", 0.0
            self.read(0.08)
        elif time.monotonic() - self._read_at > AGAIN_SECONDS:
            self.read()
        self.repaint()

    def read(self, delay: float = 0.0) -> None:
        """Read the operation; `delay` seconds later, so that a moving cursor reads only where it stops."""
        if self.line is not None:
            self._renewal.read(self.line.number, partial(self._read, self.line.number, delay))

    async def _read(self, number: int, delay: float) -> None:
        await self.console.pause(delay)
        try:
            sight = await self.console.refresher.operations.sight(number)
        except QueueCoreError as error:
            self.post_message(self.Read(number, None, str(error)))
        else:
            self.post_message(self.Read(number, sight))

    def on_operation_facts_read(self, message: Read) -> None:
        if self.line is None or message.number != self.line.number:
            message.stop()
            return
        self._read_at = time.monotonic()
        self._problem = message.problem
        self.sight = message.sight or self.sight
        self.repaint()

    def content(self, width: int) -> list[Line]:
        """The facts."""
        if self.line is None:
            return [(("nothing is chosen", "muted"),)]
        snapshot = self.console.model.snapshot
        alone = snapshot is not None and all(worker.lost for worker in snapshot.workers)
        outcomes = self.sight.outcomes if self.sight else None
        lines = operation_lines(self.line, outcomes, alone, self.console.moment(), width)
        if self._problem:
            lines.append(((self._problem, "warn"),))
        return [line for line in lines if line] if self.glance else lines

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this operation."""
        return refuses_steering(self.line, action) if self.line else "nothing is chosen"

    def link(self) -> Link | None:
        """The place of the operation."""
        return None if self.line is None else Link("operation", self.line.key)

    def do_copy(self) -> None:
        """Copy the operation's number."""
        if self.line is not None:
            self.console.copy(self.line.key)
