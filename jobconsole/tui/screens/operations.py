"""Operations and audit: what operators did, when and why, the progress and the results."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.actions.plan import Report
from jobconsole.core.progress import OperationLine, unknown
from jobconsole.core.snapshot import Snapshot
from jobconsole.present.job import DetailSubject
from jobconsole.tui.screens.row_actions import OperationActions
from jobconsole.tui.screens.signature_actions import RetriedActions
from jobconsole.tui.screens.view import View
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.operations import MemberTable, OperationFacts, OperationTable
from jobconsole.tui.widgets.pane import Pane
from jobconsole.tui.widgets.table import Table
from queue_core.model.filters import Filter


class OperationsView(View):
    """The list; beside it one operation with some of its jobs, then one of these jobs."""

    PLACE = "operations"
    ROWS = (OperationActions, RetriedActions)
    STAGES: ClassVar[dict[str, str]] = {
        "operations": "home",
        "facts": "operation",
        "members": "operation",
        "detail": "detail",
    }
    ORDER: ClassVar[tuple[str, ...]] = ("home", "operation", "detail")

    def panes(self) -> ComposeResult:
        """The list; the operation under its cursor over its jobs; one of these."""
        yield OperationTable(id="operations")
        with Vertical(id="operation-side"):
            yield OperationFacts(id="facts")
            yield MemberTable(id="members")
        yield Detail(id="detail")

    @property
    def operations(self) -> OperationTable:
        """The list."""
        return self.query_one(OperationTable)

    @property
    def members(self) -> MemberTable:
        """Jobs of the operation under the cursor."""
        return self.query_one(MemberTable)

    @property
    def chosen(self) -> OperationLine | None:
        """The operation under the cursor."""
        return self.operations.selection.row

    def adopt(self, snapshot: Snapshot, restart: bool = False) -> None:
        """Read the newest operations again: no snapshot holds them."""
        self.operations.read()
        self.show_operation()
        if self.stage == "detail":
            self.query_one(Detail).refresh_if_changed()

    def operating(self) -> None:
        """Update the operations under way, which have been read."""
        self.operations.follow()
        self.show_operation()

    def missing(self) -> frozenset[str]:
        """An operation cannot be marked; a job cannot be paused."""
        gone = super().missing() | {"sort"}
        return gone | {"pause"} if self.pane in {self.query_one(Detail), self.members} else gone

    def finished(self, report: Report) -> None:
        """What an operation of this console came to is seen at once."""
        self.operations.read()
        self.query_one(OperationFacts).read()

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow the list."""
        field = unknown(where)
        if field:
            self.notice.show(f"operations have no '{field}'; they have sig: and words", "warn")
        self.operations.narrow_to(where, text)

    def narrowing(self) -> Filter:
        """The filter that holds."""
        return self.operations.where

    @on(Table.Moved)
    def follow(self, message: Table.Moved) -> None:
        """Show the row under the cursor in the panes behind the table."""
        self.show_operation()

    @on(OperationTable.Read)
    def show_operation(self) -> None:
        """Show the operation under the cursor."""
        self.members.await_jobs(self.chosen)
        self.query_one(OperationFacts).about(self.chosen)

    @on(OperationFacts.Read)
    def show_members(self) -> None:
        """Show the jobs that came with the operation."""
        facts = self.query_one(OperationFacts)
        if facts.detail is not None:
            self.members.take(facts.detail.line, facts.detail.members)

    def pane_entered(self, pane: Pane) -> None:
        """Show the row under the cursor in the panes behind the list."""
        super().pane_entered(pane)
        self.show_operation()

    def show_detail(self) -> None:
        """Show the job under the cursor."""
        if self.pane is self.members and self.members.selection.row is not None:
            self.query_one(Detail).about(DetailSubject(self.members.selection.row.id))

    def show_item(self, item: str) -> None:
        """Go into one operation."""
        self.operations.seek(int(item))
        self.enter("operation")
        # Before the next drawing there is no room for it yet.
        self.call_after_refresh(self.query_one(OperationFacts).focus)

    # -- actions

    def do_open(self) -> None:
        """From the list to the operation, to its jobs, to one of them."""
        if self.pane is self.operations:
            self.enter("operation")
            self.show_operation()
        elif self.pane is self.members:
            self.show_detail()
            self.enter("detail")
        elif isinstance(self.pane, OperationFacts):
            self.members.focus()

    def do_full(self) -> None:
        """A job on the whole screen; of an operation, go into it."""
        if self.pane is self.members or self.stage == "detail":
            super().do_full()
        else:
            self.do_open()

    def do_resync(self) -> None:
        """Read everything again."""
        super().do_resync()
        self.query_one(OperationFacts).read()
