"""What the views with jobs have in common: edit and retry, move."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jobconsole.core.editing import refusal
from jobconsole.core.operations import Target
from jobconsole.tui.background import replace
from jobconsole.tui.screens.base import View
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.joblist import JobTable
from jobconsole.tui.widgets.signatures import SignatureTable
from queue_core.errors import QueueCoreError

if TYPE_CHECKING:
    from jobconsole.core.editing import Edited

TRASHED = "jobs in the trash are not moved; B brings them back first"


class ReworkActions(View):
    """Edit the job that is chosen; move what is chosen. Their screens are loaded when they are first asked for."""

    def refusal_of(self, action: str) -> str | None:
        """Why an action is off; what was deleted is not moved."""
        reason = super().refusal_of(action)
        pane = self.pane
        return TRASHED if reason == "" and action == "move" and pane is not None and pane.in_trash else reason

    def do_edit(self) -> None:
        """Edit the payload of the job, and enqueue it as a new one."""
        job_id, sample = self._edited_job()
        if job_id:
            replace(self, "edit", self._edit, job_id, sample)
        else:
            self.notice.say("move the cursor to a job or to a signature: that is what is edited", "warn")

    def _edited_job(self) -> tuple[str, str]:
        """The id of the job that is chosen, and the group that it is a sample of, where a group was chosen."""
        pane = self.pane
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
            self.notice.say(str(error), "bad")
            return
        reason = refusal(original.job.status)
        if reason:
            self.notice.say(f"not edited: {reason}", "warn")
        elif self.app.screen is self:
            from jobconsole.tui.screens.edit import EditScreen

            self.app.push_screen(EditScreen(original, sample), partial(self._tell_edited, original.job.status))

    def _tell_edited(self, status: str, edited: Edited | None) -> None:
        if edited is None:
            return
        said = f"enqueued as {edited.id}; the old job stays {status}"
        self.notice.say(edited.problem or said, "warn" if edited.problem else "good")
        self.console.refresher.resync()

    def do_move(self) -> None:
        """Move what is chosen, after a look."""
        target = self.target("move")
        if target is not None:
            self._move(target)

    def _move(self, target: Target) -> None:
        from jobconsole.tui.screens.move import MoveSheet

        self.app.push_screen(MoveSheet(target), self.console.carry_out)
