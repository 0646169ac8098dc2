"""What can be done with jobs, queues, workers and operations, for the views that show them."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from jobconsole.actions.edit import refusal
from jobconsole.actions.plan import REVERSIBLE, Target
from jobconsole.actions.verbs import Steer
from jobconsole.core.progress import OperationLine
from jobconsole.core.rows import LONGEST_NAME, QueueLine
from jobconsole.format.humanize import plural
from jobconsole.format.words import IMMEDIATE
from jobconsole.present.job import STACK
from jobconsole.tui.base.host import change, replace
from jobconsole.tui.screens.view import RowActions
from jobconsole.tui.sheets.confirm import Confirm, Offer
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.jobs import JobTable
from jobconsole.tui.widgets.live import QueueTable, RunningTable, WorkerTable
from jobconsole.tui.widgets.operations import MemberTable, OperationFacts, OperationTable
from jobconsole.tui.widgets.signatures import SignatureTable
from queue_core.client.operating.filters import saved_name_of
from queue_core.client.operating.signatures import VERBS as SIGNATURE_VERBS
from queue_core.client.operations import this_author
from queue_core.errors import QueueCoreError
from queue_core.model.operation import WorkerOrder
from queue_core.model.report import WorkerInfo
from queue_core.model.text import safe

if TYPE_CHECKING:
    from jobconsole.actions.edit import Edited
    from jobconsole.tui.screens.view import View
    from jobconsole.tui.sheets.drain import Drain

OBEYS_SECONDS, POLL_SECONDS = 2.5, 0.2
"""Seconds for which keys wait until a worker has obeyed, and between two reads: it hears of an order within one."""
EXPECTED_SECONDS = 20.0
"""Seconds for which an order is taken for the state of a worker that does not hear it, but asks with its heartbeat."""


class WorkerActions(RowActions):
    """Give the worker under the cursor an order, which its next heartbeat brings."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        # worker -> the order that it has not obeyed yet, and until when that is expected, by this process's clock
        self._ordered: dict[str, tuple[WorkerOrder, float]] = {}

    def _row(self) -> WorkerInfo | None:
        """The worker under the cursor as it was last read, also where the screen is held."""
        row, snapshot = self.view.query_one(WorkerTable).selection.row, self.console.model.snapshot
        read = snapshot.workers if row is not None and snapshot is not None else ()
        return next((one for one in read if row is not None and one.id == row.id), row)

    def missing(self) -> frozenset[str]:
        """There are no orders where no worker is under the cursor."""
        return frozenset() if isinstance(self.view.pane, WorkerTable) else frozenset({"quiet", "stop"})

    def do_quiet(self) -> None:
        """Let the worker claim no more jobs, or let it claim again."""
        row = self._row()
        if row is not None:
            ordered = self._ordered.get(row.id)
            quiet = row.quiet if ordered is None or time.monotonic() > ordered[1] else ordered[0] == "quiet"
            change(self.view, "order", self._order, row, "resume" if quiet else "quiet")

    def do_stop(self) -> None:
        """Let the worker end, after a question."""
        row = self.view.query_one(WorkerTable).selection.row
        if row is not None:
            what = f"{row.host}:{row.pid}, which runs {plural(row.busy, 'job')}"
            self.view.app.push_screen(
                Confirm(IMMEDIATE["worker", "stop"], what, command=("worker", "stop", row.id, "--yes")),
                partial(self._stop, row),
            )

    def _stop(self, worker: WorkerInfo, agreed: bool | None) -> None:
        if agreed:
            change(self.view, "order", self._order, worker, "stop")

    async def _order(self, worker: WorkerInfo, order: WorkerOrder) -> None:
        try:
            sentence = await self.console.operator.order(worker.id, f"{worker.host}:{worker.pid}", order)
        except QueueCoreError as error:
            self.notice.fail(error)
            return
        self.notice.show(sentence, "good")
        self._ordered[worker.id] = order, time.monotonic() + EXPECTED_SECONDS
        if order != "stop" and await self._obeyed(worker.id, order == "quiet"):
            del self._ordered[worker.id]

    async def _obeyed(self, worker: str, quiet: bool) -> bool:
        """Wait a moment until a worker is seen to have obeyed; return whether it has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(OBEYS_SECONDS):
                while True:
                    await self.console.refresher.read_again()
                    snapshot = self.console.model.snapshot
                    if snapshot is None or all(one.quiet is quiet for one in snapshot.workers if one.id == worker):
                        return True
                    await asyncio.sleep(POLL_SECONDS)
        return False


TRASHED = "jobs in the trash are not moved; B brings them back first"


class JobActions(RowActions):
    """Edit the job that is chosen; move what is chosen. Their screens are loaded when they are first asked for."""

    def refuses(self, action: str) -> str:
        """What was deleted is not moved; what does not run has no stack."""
        pane = self.view.pane
        if action == "stack" and isinstance(pane, JobTable) and pane.selection.row is not None:
            return "" if pane.selection.row.status == "running" else "only a running job has a stack"
        if action == "stack" and not isinstance(pane, JobTable | RunningTable | Detail):
            return "choose a running job: its worker is asked where it is"
        return TRASHED if action == "move" and pane is not None and pane.in_trash else ""

    def do_edit(self) -> None:
        """Edit the payload of the job, and enqueue it as a new one."""
        job_id, sample = self._edited_job()
        if job_id:
            self.console.open_with(replace(self.view, "edit", self._edit, job_id, sample))
        else:
            self.notice.show("move the cursor to a job or to a signature: that is what is edited", "warn")

    def _edited_job(self) -> tuple[str, str]:
        """The id of the job that is chosen, and the group that it is a sample of, where a group was chosen."""
        pane = self.view.pane
        if isinstance(pane, JobTable):
            row = pane.sample()
            return ("", "") if row is None else (row.id, "")
        if isinstance(pane, SignatureTable):
            group = next(iter(pane.selection.marks.values()), pane.selection.row)
            return ("", "") if group is None else (group.sample_id, group.title)
        if isinstance(pane, Detail):
            return pane.subject.job_id, pane.subject.group.title if pane.subject.group else ""
        return "", ""

    async def _edit(self, job_id: str, sample: str) -> None:
        try:
            original = await self.console.refresher.original(job_id)
        except QueueCoreError as error:
            self.notice.fail(error)
            return
        reason = refusal(original.job.status)
        if reason:
            self.notice.show(f"not edited: {reason}", "warn")
        elif self.view.app.screen is self.view:
            from jobconsole.tui.sheets.edit import EditScreen

            self.view.app.push_screen(EditScreen(original, sample), self._report_edited)

    def _report_edited(self, edited: Edited | None) -> None:
        if edited is None:
            return
        self.notice.show(edited.problem or edited.sentence, "warn" if edited.problem else "good")
        self.console.refresher.resync()

    def do_stack(self) -> None:
        """Ask the worker of the running job where that is, and show the answer."""
        pane = self.view.pane
        job_id = pane.subject.job_id if isinstance(pane, Detail) else ""
        if isinstance(pane, RunningTable | JobTable) and pane.selection.row is not None:
            job_id = pane.selection.row.id
        if not job_id:
            self.notice.show("move the cursor to a running job: its worker is asked where it is", "warn")
            return
        if not isinstance(pane, Detail) and self.view.owner("open") is not None:
            self.view.perform("open")
        self.view.query_one(Detail).turn_to(STACK)
        self.notice.show("asking its worker ...", "muted")
        replace(self.view, "stack", self._stack, job_id)

    async def _stack(self, job_id: str) -> None:
        try:
            stack = await self.console.operator.stack(job_id)
        except QueueCoreError as error:
            self.notice.fail(error)
            return
        if stack is None:
            self.notice.show("only a running job has a stack, and this one has ended", "warn")
        elif stack.taken_at is None:
            worker = safe(stack.worker, LONGEST_NAME)
            self.notice.show(f"no answer in 2 s from {worker}; a later one is kept with the job", "warn")
        else:
            self.notice.show("its worker has answered; kept with the job", "good")
        self.view.query_one(Detail).read()

    def do_move(self) -> None:
        """Move what is chosen, after a look."""
        target = self.view.target("move")
        if target is not None:
            self._move(target)

    def _move(self, target: Target) -> None:
        from jobconsole.tui.sheets.move import MoveSheet

        self.view.app.push_screen(MoveSheet(target), self.console.run_plan)


class QueueActions(RowActions):
    """Pause the queue under the cursor, or resume it; drain it."""

    def missing(self) -> frozenset[str]:
        """There is neither pausing nor draining where no queue is under the cursor."""
        return frozenset() if isinstance(self.view.pane, QueueTable) else frozenset({"pause", "drain"})

    def do_drain(self) -> None:
        """Drain the queue, after a look."""
        from jobconsole.tui.sheets.drain import DrainSheet

        pane = self.view.pane
        if isinstance(pane, QueueTable) and pane.selection.row is not None:
            self.view.app.push_screen(DrainSheet(pane.selection.row), self._decided)

    def _decided(self, drain: Drain | None) -> None:
        if drain is not None:
            change(self.view, "drain", self._drain, drain)

    async def _drain(self, drain: Drain) -> None:
        try:
            self.notice.show(await self.console.operator.drain(*drain), "good")
        except QueueCoreError as error:
            self.notice.fail(error)

    def do_pause(self) -> None:
        """Pause the queue, or resume it."""
        pane = self.view.pane
        if isinstance(pane, QueueTable) and pane.selection.row is not None:
            row, snapshot = pane.selection.row, self.console.model.snapshot
            # As it was last read, also where the screen is held.
            queues = snapshot.queues if snapshot is not None else ()
            change(self.view, "pause", self._pause, next((one for one in queues if one.name == row.name), row))

    async def _pause(self, queue: QueueLine) -> None:
        try:
            words = await self.console.operator.toggle_pause(queue.name, queue.paused, queue.closed)
            self.notice.show(words, "good")
        except QueueCoreError as error:
            self.notice.fail(error)


class OperationActions(RowActions):
    """Actions on the operation under the cursor, of this console or another."""

    def do_pause(self) -> None:
        """Pause the operation before its next step, or resume it; a stopped one after a question."""
        line = self.view.query_one(OperationTable).selection.row
        if line is None:
            return
        state = line.operation.state
        if state == "stopped":
            self.view.app.push_screen(
                Confirm(
                    IMMEDIATE["operation", "resume"],
                    _what(line),
                    f"{line.note}. ",
                    command=("op", "resume", str(line.number)),
                ),
                partial(self._answered, line, "resume"),
            )
        else:
            change(self.view, "steer", self._steer, line, "resume" if state == "paused" else "pause")

    def do_cancel(self) -> None:
        """Cancel the operation after a question; on a job, cancel that job."""
        line = self.view.query_one(OperationTable).selection.row
        if isinstance(self.view.pane, Detail | MemberTable):
            self.view.do_cancel()
        elif line is not None:
            one = line.operation
            left = f"{one.done:,} of {plural(one.total, 'job is', 'jobs are')} done. "
            left += "The queue stays closed; u opens it. " if line.verb == "drain" else ""
            self.view.app.push_screen(
                Offer(
                    IMMEDIATE["operation", "cancel"],
                    _what(line),
                    left,
                    f" #{line.number}",
                    ("op", "cancel", str(line.number)),
                ),
                partial(self._answered, line, "cancel"),
            )

    def refuses(self, action: str) -> str:
        """Why there is nothing to undo of the operation under the cursor."""
        line = self.view.query_one(OperationTable).selection.row
        if action != "undo":
            return ""
        if line is None:
            return self.view.query_one(OperationTable).nothing()
        if line.undone_by:
            return f"#{line.number} was undone by #{line.undone_by} already"
        of_a_filter = saved_name_of(line.operation) is not None
        if line.operation.ended and not of_a_filter and line.verb not in REVERSIBLE | SIGNATURE_VERBS | {"drain"}:
            return f"nothing to undo: #{line.number} is a {line.verb}, which cannot be undone once it has ended"
        return ""

    def do_undo(self) -> None:
        """Undo the operation under the cursor; one of another person after a question."""
        line = self.view.query_one(OperationTable).selection.row
        if line is None:
            return
        if line.operation.request.author == this_author():
            self._undo(line, True)
            return
        self.view.app.push_screen(
            Confirm(IMMEDIATE["operation", "undo"], _what(line), f"{line.user}@{line.host} made it. "),
            partial(self._undo, line),
        )

    def _undo(self, line: OperationLine, agreed: bool | None) -> None:
        if agreed:
            change(self.view, "steer", self._taken_back, line)

    async def _taken_back(self, line: OperationLine) -> None:
        try:
            sentence = await self.console.operator.undo(line.number, line.verb, line.label)
        except QueueCoreError as error:
            self.notice.fail(error)
        else:
            if sentence:
                self.notice.show(sentence, "good")
        await self.view.query_one(OperationTable).read_through()

    def _answered(self, line: OperationLine, verb: Steer, agreed: bool | None) -> None:
        if agreed:
            change(self.view, "steer", self._steer, line, verb)

    async def _steer(self, line: OperationLine, verb: Steer) -> None:
        try:
            self.notice.show(await self.console.operator.steer(line.number, verb), "good")
        except QueueCoreError as error:
            self.notice.fail(error)
        self.view.query_one(OperationFacts).read()
        await self.view.query_one(OperationTable).read_through()


def _what(line: OperationLine) -> str:
    return f"#{line.number} {line.verb} {line.label}"
