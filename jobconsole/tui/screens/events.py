"""Events: what happens, as it happens, with the job behind each."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from jobconsole.core.events import unknown
from jobconsole.core.snapshot import Snapshot
from jobconsole.present.job import DetailSubject
from jobconsole.tui.screens.view import View
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.events import EventTable
from jobconsole.tui.widgets.pane import Pane
from jobconsole.tui.widgets.table import Table
from queue_core.model.filters import Filter

FOLLOWS = "the list follows what happens: move its cursor to hold it and to see a job here"


class EventsView(View):
    """The tail, and the job of the event under its cursor."""

    PLACE = "events"
    STAGES: ClassVar[dict[str, str]] = {"events": "home", "detail": "detail"}
    ORDER: ClassVar[tuple[str, ...]] = ("home", "detail")

    def panes(self) -> ComposeResult:
        """The tail; the detail beside it."""
        yield EventTable(id="events")
        detail = Detail(id="detail")
        detail.empty = FOLLOWS
        yield detail

    @property
    def events(self) -> EventTable:
        """The tail."""
        return self.query_one(EventTable)

    def flush(self) -> None:
        """Show what came in."""
        self.events.flush()

    def adopt(self, snapshot: Snapshot, restart: bool = False) -> None:
        """The detail follows its job."""
        self.events.flush()
        if self.stage == "detail":
            self.query_one(Detail).refresh_if_changed()

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow the tail."""
        field = unknown(where)
        if field:
            self.notice.show(
                f"events have no '{field}'; they have type, queue, id, worker, signature and error", "warn"
            )
        self.events.narrow(where, text)

    @on(Table.Moved)
    def follow(self, message: Table.Moved) -> None:
        """The detail shows the job once the tail is held: before, it changes too fast to be read."""
        self.show_detail()

    def pane_entered(self, pane: Pane) -> None:
        super().pane_entered(pane)
        self.show_detail()

    def show_detail(self) -> None:
        """Show the job of the event under the cursor."""
        row, detail = self.events.selection.row, self.query_one(Detail)
        if self.pane is detail:
            detail.refresh_if_changed()
        elif row is not None and row.type and self.events.held is not None:
            detail.about(DetailSubject(row.id))
        else:
            detail.about(DetailSubject())

    def do_open(self) -> None:
        """Into the job."""
        row = self.events.selection.row
        if self.pane is self.events and row is not None:
            self.query_one(Detail).about(DetailSubject(row.id))
            self.enter("detail")
