"""Pausing, resuming and cancelling operations."""

from __future__ import annotations

from functools import partial

from jobconsole.core.humanize import plural
from jobconsole.core.progress import OperationLine
from jobconsole.tui.atonce import Steer
from jobconsole.tui.background import spawn
from jobconsole.tui.screens.base import View
from jobconsole.tui.screens.confirm import Confirm
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.operationfacts import OperationFacts
from jobconsole.tui.widgets.operationlist import MemberTable, OperationTable
from queue_core.errors import QueueCoreError

ON = "It goes on to its end, without a canary and whatever dies again: nothing stops it any more but P and X."
END = "The jobs that it has changed stay as they are; the others are left alone. It cannot go on afterwards."


class CancelSheet(Confirm):
    """What is cancelled does no harm: Go has the focus."""

    FIRST = "go"


class OperationActions(View):
    """What is done to the operation under the cursor, anybody's."""

    def do_pause(self) -> None:
        """Let the operation take no more steps, or let it go on; one that was stopped after a question."""
        line = self.query_one(OperationTable).selection.row
        if line is None:
            return
        state = line.operation.state
        if state == "stopped":
            self.app.push_screen(
                Confirm("Let it go on", _what(line), f"{line.note}. {ON}", "Go on"),
                partial(self._answered, line, "resume"),
            )
        else:
            spawn(self, "steer", self._steer, line, "resume" if state == "paused" else "pause")

    def do_cancel(self) -> None:
        """End the operation where it stands, after a look; of a job, cancel that."""
        line = self.query_one(OperationTable).selection.row
        if isinstance(self.pane, Detail | MemberTable):
            super().do_cancel()
        elif line is not None:
            one = line.operation
            left = f"{one.done:,} of {plural(one.total, 'job')} are done. {END}"
            self.app.push_screen(
                CancelSheet("Cancel an operation", _what(line), left, f"Cancel #{line.number}"),
                partial(self._answered, line, "cancel"),
            )

    def _answered(self, line: OperationLine, verb: Steer, agreed: bool | None) -> None:
        if agreed:
            spawn(self, "steer", self._steer, line, verb)

    async def _steer(self, line: OperationLine, verb: Steer) -> None:
        try:
            self.notice.say(await self.console.operator.steer(line.number, verb), "good")
        except QueueCoreError as error:
            self.notice.say(str(error), "bad")
        self.query_one(OperationTable).read()
        self.query_one(OperationFacts).read()


def _what(line: OperationLine) -> str:
    return f"#{line.number} {line.verb} {line.label}"
