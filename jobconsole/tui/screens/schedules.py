"""Schedules: when which job is enqueued, and the jobs of past ticks."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.actions.plan import Report
from jobconsole.actions.verbs import ScheduleVerb
from jobconsole.core.schedules import ScheduleLine, unknown
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.words import IMMEDIATE
from jobconsole.present.job import DetailSubject
from jobconsole.tui.base.host import change
from jobconsole.tui.screens.view import View
from jobconsole.tui.sheets.confirm import Offer
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.pane import Pane
from jobconsole.tui.widgets.schedules import ScheduleFacts, ScheduleTable, TickTable
from jobconsole.tui.widgets.table import Table
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter


class SchedulesView(View):
    """The list; beside it one schedule with its last ticks, then the job of a tick."""

    PLACE = "schedules"
    STAGES: ClassVar[dict[str, str]] = {
        "schedules": "home",
        "facts": "schedule",
        "ticks": "schedule",
        "detail": "detail",
    }
    ORDER: ClassVar[tuple[str, ...]] = ("home", "schedule", "detail")

    def panes(self) -> ComposeResult:
        """The list; the schedule under its cursor over its ticks; the job of a tick."""
        yield ScheduleTable(id="schedules")
        with Vertical(id="schedule-side"):
            yield ScheduleFacts(id="facts")
            yield TickTable(id="ticks")
        yield Detail(id="detail")

    @property
    def schedules(self) -> ScheduleTable:
        """The list."""
        return self.query_one(ScheduleTable)

    @property
    def ticks(self) -> TickTable:
        """The last ticks of the schedule under the cursor."""
        return self.query_one(TickTable)

    @property
    def chosen(self) -> ScheduleLine | None:
        """The schedule under the cursor."""
        return self.schedules.selection.row

    def adopt(self, snapshot: Snapshot, restart: bool = False) -> None:
        """Read the schedules again: no snapshot holds them."""
        self.schedules.read()
        self.show_schedule()
        if self.stage == "detail":
            self.query_one(Detail).refresh_if_changed()

    def missing(self) -> frozenset[str]:
        """A schedule cannot be marked; a job has no ticks to pause."""
        gone = super().missing()
        return gone | {"pause", "trigger"} if self.pane is self.query_one(Detail) else gone

    def flush(self) -> None:
        """A schedule may have become late."""
        self.query_one(ScheduleFacts).about(self.chosen)

    def finished(self, report: Report) -> None:
        """What an operation did to the job of a tick is seen at once."""
        self.ticks.read()

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow the list."""
        field = unknown(where)
        if field:
            reason = f"schedules have no '{field}'; they have type, queue, priority, retries, payload and words"
            self.notice.show(reason, "warn")
        self.schedules.narrow_to(where, text)

    def narrowing(self) -> Filter:
        """The filter that holds."""
        return self.schedules.where

    @on(Table.Moved)
    def follow(self, message: Table.Moved) -> None:
        """Show the row under the cursor in the panes behind the table."""
        self.show_schedule()

    @on(ScheduleTable.Read)
    def show_schedule(self) -> None:
        """Show the schedule under the cursor, and its ticks where there is room for them."""
        self.query_one(ScheduleFacts).about(self.chosen)
        if not self.narrow or self.stage != "home":
            self.ticks.about(self.chosen)

    def pane_entered(self, pane: Pane) -> None:
        """Show the row under the cursor in the panes behind the list."""
        super().pane_entered(pane)
        self.show_schedule()

    def show_detail(self) -> None:
        """Show the job of the tick under the cursor."""
        row = self.ticks.selection.row
        if self.pane is self.ticks and row is not None and row.tick.job_id is not None:
            self.query_one(Detail).about(DetailSubject(row.tick.job_id))

    def show_item(self, item: str) -> None:
        """Go into one schedule."""
        self.schedules.seek(item)
        self.enter("schedule")

    # -- actions

    def do_open(self) -> None:
        """From the list to the schedule, to its ticks, to the job of one."""
        if self.pane is self.schedules:
            self.enter("schedule")
            self.show_schedule()
        elif self.pane is self.ticks:
            self.show_detail()
            self.enter("detail")
        elif isinstance(self.pane, ScheduleFacts):
            self.ticks.focus()

    def do_full(self) -> None:
        """The job of a tick on the whole screen; of a schedule, go into it."""
        if self.pane is self.ticks or self.stage == "detail":
            super().do_full()
        else:
            self.do_open()

    def do_resync(self) -> None:
        """Read everything again."""
        super().do_resync()
        self.ticks.read()

    def do_pause(self) -> None:
        """Let the schedule's ticks bring no jobs, or let it tick again."""
        line = self.chosen
        if line is not None:
            change(self, "pause", self._change, line.name, "resume" if line.planned.paused else "pause")

    def do_trigger(self) -> None:
        """Enqueue the schedule's job now, after a look."""
        line = self.chosen
        if line is not None:
            what = f"{line.label} brings one job {line.type} to queue {line.queue} now"
            self.app.push_screen(
                Offer(IMMEDIATE["schedule", "trigger"], what, command=("schedule", "trigger", line.name)),
                partial(self._trigger, line),
            )

    def _trigger(self, line: ScheduleLine, agreed: bool | None) -> None:
        if agreed:
            change(self, "trigger", self._change, line.name, "trigger")

    async def _change(self, name: str, verb: ScheduleVerb) -> None:
        try:
            self.notice.show(await self.console.operator.schedule(name, verb), "good")
        except QueueCoreError as error:
            self.notice.fail(error)
        await self.schedules.read_through()
