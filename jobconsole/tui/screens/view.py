"""The base of every view: how a key finds its pane, the handling of messages, the actions that all views have."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, cast

from textual import on

from jobconsole.actions.plan import Choice, Plan, Report, Target, Verb
from jobconsole.actions.states import SignatureChoice
from jobconsole.actions.verbs import sentence, tone_of
from jobconsole.core.connection import CONNECTING
from jobconsole.core.progress import succeeded
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.words import outcome_phrase
from jobconsole.present.job import BREAKDOWN, COMPARE
from jobconsole.tui.base.bindings import Action
from jobconsole.tui.base.host import Host, displayed
from jobconsole.tui.base.links import Link
from jobconsole.tui.base.messages import Adopted, Finished, Flush, Operating, Progressed, ServersChanged
from jobconsole.tui.screens.frame import ViewFrame
from jobconsole.tui.sheets.change import ChangeSheet
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.filterline import FilterLine
from jobconsole.tui.widgets.footer import KeyBar, Notice
from jobconsole.tui.widgets.header import Header
from jobconsole.tui.widgets.jobs import JobTable
from jobconsole.tui.widgets.table import Table
from queue_core.client.operations import this_author
from queue_core.model.filters import Filter, render
from queue_core.model.operation import VERBS

NAMED_UNDO = 120
"""Columns from which the key bar names what would be undone."""
UNREAD_SECONDS, POLL_SECONDS = 1.0, 0.02
"""Seconds for which keys wait for a list that is being read, and between two looks at it."""
DETAIL_ACTIONS = frozenset({"frames", "next_tab", "previous_tab", "next_match", "previous_match"})


class RowActions:
    """Actions on the rows of some panes. A view holds it; what it can do are its methods `do_<action>`."""

    def __init__(self, view: View) -> None:
        self.view = view

    @property
    def console(self) -> Host:
        """The application."""
        return self.view.console

    @property
    def notice(self) -> Notice:
        """The line for sentences."""
        return self.view.notice

    def missing(self) -> frozenset[str]:
        """Actions that there are none of now."""
        return frozenset()

    def refuses(self, action: str) -> str:
        """Why an action that nothing else speaks against is off; "" when it is on."""
        return ""

    def search(self, where: Filter) -> None:
        """Search the texts that a filter of the view asks for, from the newest death on."""

    def search_on(self) -> None:
        """Go on with that search; where it has ended, search again."""

    def search_again(self) -> None:
        """Search the same again, from the newest death on."""


class View(ViewFrame):
    """A frame whose keys find the pane that they are about."""

    # when the rows under the cursor were first seen to be unread, by the steady clock
    _unread_at: float | None = None

    # how a link names the view
    PLACE: ClassVar[str]
    # what can be done with its rows
    ROWS: ClassVar[tuple[Callable[[View], RowActions], ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.rows = tuple(actions(self) for actions in self.ROWS)

    # -- from key to pane

    async def prepared(self) -> None:
        """Wait until the list with the focus is read: a key behind one that opens a list, or filters it, is for that.

        For a second at most: a key that is off by then shows why.
        """
        while isinstance(self.focused, Table) and self.focused.unread and self.console.connection.usable:
            self._unread_at = self._unread_at or time.monotonic()
            if time.monotonic() > self._unread_at + UNREAD_SECONDS:
                return
            await self.console.pause(POLL_SECONDS)
        self._unread_at = None

    def owner(self, action: str) -> object | None:
        """Return what carries an action out: the pane with the focus, what the view holds, itself, the application."""
        owners = (self.pane, *self.rows, self, self.console, self.console.navigation)
        return next((one for one in owners if one is not None and hasattr(one, f"do_{action}")), None)

    def missing(self) -> frozenset[str]:
        """Actions that there are none of on this screen now."""
        here = frozenset() if displayed(self.query_one(Detail)) else DETAIL_ACTIONS
        return here.union(*(rows.missing() for rows in self.rows))

    def perform(self, action: str) -> None:
        """Carry an action out that is on."""
        owner = self.owner(action)
        if owner is not None:
            cast(Callable[[], None], getattr(owner, f"do_{action}"))()
            self.query_one(KeyBar).repaint()

    def label_of(self, action: Action, width: int) -> str:
        """Name what the key would undo, where that is this console's last change and there is room."""
        named = action.id == "undo" and width >= NAMED_UNDO and self.owner("undo") is self.console
        last = self.console.operator.undoable if named else None
        verb = "" if last is None else last.name
        return f"{action.label} {verb}" if verb else action.label

    # -- what comes in

    def on_mouse_down(self) -> None:
        self.console.touched = True

    def on_flush(self, message: Flush) -> None:
        if self.console.frozen:
            self.query_one(Header).repaint()
            self.notice.repaint()
            return
        self.flush()
        for widget in self.line_widgets():
            widget.repaint()

    def on_adopted(self, message: Adopted) -> None:
        snapshot = self.console.model.snapshot
        if snapshot is None:
            return
        self.console.alarm(snapshot)
        if not self.console.frozen:
            self.adopt(snapshot)

    def on_servers_changed(self, message: ServersChanged) -> None:
        connection = self.console.connection
        if connection.usable:
            self.notice.drop(f"{connection.store.name} cannot be reached")
            self.notice.drop(CONNECTING)
        self.repaint_all()

    def on_operating(self, message: Operating) -> None:
        self._offer_resolving()
        if not self.console.frozen:
            self.operating()

    def _offer_resolving(self) -> None:
        """Offer to resolve the signature of a retry of this user whose jobs have all completed, once."""
        console = self.console
        for line in console.model.active_operations.lines:
            one = line.operation
            if line.number in console.offered or not succeeded(line) or one.request.author.user != this_author().user:
                continue
            console.offered.add(line.number)
            console.offer = SignatureChoice(one.request.signatures, line.label, 0)
            self.notice.show(f"#{line.number}: {outcome_phrase(one)}; V resolves {line.label}", "good")

    def on_progressed(self, message: Progressed) -> None:
        self.notice.repaint()

    def on_finished(self, message: Finished) -> None:
        report = message.report
        self.notice.show(sentence(report), tone_of(report))
        for rows in self.query(Table) if not report.processed else ():
            rows.selection.expect_stay(report.plan.keys)
        # Jobs in the same state stay in the list, unless its filter is about what they had.
        for table in self.query(JobTable) if not VERBS[report.plan.verb].keeps_state and report.finished else ():
            table.forget(report.changed)
        self.finished(report)
        self.console.refresher.resync()

    def on_screen_resume(self) -> None:
        if self.console.model.snapshot is not None:
            self.adopt(self.console.model.snapshot, restart=True)
        self.repaint_all()

    def adopt(self, snapshot: Snapshot, restart: bool = False) -> None:
        """Show a snapshot; `restart` sorts it as it came."""

    def operating(self) -> None:
        """Show the progress of operations."""

    def flush(self) -> None:
        """Show what events have changed."""

    def finished(self, report: Report) -> None:
        """An operation of this console has ended."""

    def link(self) -> Link:
        """The place of the view itself."""
        return Link(self.PLACE, render(self.narrowing()))

    def narrowing(self) -> Filter:
        """The filter that holds for the view's own place."""
        return Filter()

    def show_item(self, item: str) -> None:
        """Show one thing, where a link can lead to one in this view."""

    def show_detail(self) -> None:
        """Show the details of the row under the cursor."""

    # -- actions of every view

    def can_go_back(self) -> bool:
        """Whether there is something to go back from."""
        pane = self.pane
        marked = isinstance(pane, Table) and bool(pane.selection.marks or pane.selection.everything)
        return marked or self.stage != self.ORDER[0] or bool(self.filter_line.text) or self.filter_line.is_open

    def do_back(self) -> None:
        """Out of the marks, the stage, the filter."""
        pane = self.pane
        if self.filter_line.is_open:
            self.filter_line.cancel()
        elif isinstance(pane, Table) and (pane.selection.marks or pane.selection.everything):
            self.unmark()
        elif self.stage != self.ORDER[0] or self.has_class("-full"):
            self.leave()
        elif self.filter_line.text:
            self.filter_line.clear()

    def begin(self, plan: Plan) -> None:
        """Take the marks away of what a verb was chosen for, and await that the jobs go."""
        self.unmark()
        if plan.verb != "cancel":
            self.expect_gone(plan.keys)

    def unmark(self) -> None:
        """Take the marks of the focused table away, so that a later verb acts on what is chosen then."""
        pane = self.pane
        if isinstance(pane, Table):
            pane.selection.clear_marks()
            pane.repaint()

    def do_next_pane(self) -> None:
        """The next pane on the screen."""
        self._turn(1)

    def do_previous_pane(self) -> None:
        """The previous pane on the screen."""
        self._turn(-1)

    def _turn(self, step: int) -> None:
        shown = self.shown()
        if shown:
            self.forget_visited()
            at = shown.index(self.pane) if self.pane in shown else -step
            shown[(at + step) % len(shown)].focus()

    def do_next_tab(self) -> None:
        """The detail's next tab."""
        self.query_one(Detail).turn(1)

    def do_previous_tab(self) -> None:
        """The detail's previous tab."""
        self.query_one(Detail).turn(-1)

    def do_full(self) -> None:
        """Show what is under the cursor on the whole screen, or go back to its list."""
        if self.has_class("-full"):
            self.leave()
            return
        self.show_detail()
        if self.query_one(Detail).subject.group is not None:
            self.query_one(Detail).turn_to(BREAKDOWN)
        self.add_class("-full")
        if self.stage == "detail":
            self.query_one(Detail).focus()
        else:
            self.enter("detail")

    def do_compare(self) -> None:
        """Show the payload of the job under the cursor beside the last one that succeeded."""
        self.show_detail()
        self.query_one(Detail).turn_to(COMPARE)
        if self.stage != "detail":
            self.enter("detail")

    def do_frames(self) -> None:
        """Show or fold the frames of libraries."""
        self.notice.show(self.query_one(Detail).fold(), "muted")

    def do_resync(self) -> None:
        """Read everything again."""
        self.console.refresher.resync()
        if self.console.model.snapshot is not None:
            self.adopt(self.console.model.snapshot, restart=True)
        for table in self.query(JobTable):
            table.read_again()
        self.notice.show("reading everything again", "muted")
        for rows in self.rows:
            rows.search_again()

    def do_filter(self) -> None:
        """Write a filter."""
        self.filter_line.open()

    @on(FilterLine.Changed)
    def narrow_to(self, message: FilterLine.Changed) -> None:
        """A filter was written that can be understood."""
        self.filtered(message.where, message.text)

    @on(FilterLine.Again)
    def search_on(self) -> None:
        """Search on where a search of texts has not ended, else again."""
        for rows in self.rows:
            rows.search_on()

    def searched(self, words: str) -> None:
        """Show beside the filter of what a search of texts is; "" when the filter asks for no text."""

    def search(self, where: Filter) -> None:
        """Search the texts that a filter asks for, for a while; lists show what is found as it comes."""
        for rows in self.rows:
            rows.search(where)

    @on(FilterLine.Closed)
    def leave_filter(self) -> None:
        """The filter line has been left."""
        if self._last_pane is not None:
            self._last_pane.focus()
        self.call_after_refresh(self.keep_focus)

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow the lists."""

    def do_retry(self) -> None:
        """Retry what is chosen, after a look."""
        self._propose("retry")

    def do_delete(self) -> None:
        """Delete what is chosen, after a look; what is in the trash goes for good."""
        self._propose("purge" if self.pane is not None and self.pane.in_trash else "delete")

    def do_restore(self) -> None:
        """Bring what is chosen back from the trash, after a look."""
        self._propose("restore")

    def do_cancel(self) -> None:
        """Cancel what is chosen, after a look."""
        self._propose("cancel")

    def _propose(self, verb: Verb) -> None:
        target = self.target(verb)
        if target is not None:
            self.app.push_screen(ChangeSheet(verb, target), self.console.run_plan)

    def do_export(self) -> None:
        """Write what is chosen into a file."""
        target = self.target("export")
        if target is None:
            self.notice.show("move the cursor to jobs or to a signature: that is what is exported", "warn")
        else:
            self.console.navigation.export(target)

    def target(self, verb: Choice) -> Target | None:
        """Return what a verb would act on: the target of the focused pane; None when it has none."""
        pane = self.pane
        return pane.target(verb) if pane is not None else None
