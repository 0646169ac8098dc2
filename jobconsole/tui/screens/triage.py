"""Triage, the first view: dead letters by error, the jobs of one, what runs, how fast."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.actions.plan import Choice, Target, dead_of, dead_only
from jobconsole.core.snapshot import Snapshot
from jobconsole.present.columns import DEAD_JOBS, FIELD, QUEUES_SMALL, ROOMY, dead_columns
from jobconsole.present.job import DetailSubject
from jobconsole.tui.base.causes import Causes
from jobconsole.tui.screens.filter_actions import FilterActions
from jobconsole.tui.screens.row_actions import JobActions, QueueActions
from jobconsole.tui.screens.signature_actions import SignatureActions
from jobconsole.tui.screens.view import View
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.jobs import JobTable
from jobconsole.tui.widgets.live import HOUR_SECONDS, Chart, QueueTable, Releases, RunningTable
from jobconsole.tui.widgets.operations import OperationStrip
from jobconsole.tui.widgets.pane import Pane
from jobconsole.tui.widgets.signatures import SignatureTable
from jobconsole.tui.widgets.table import Table
from queue_core.model.filters import Filter, Term, render
from queue_core.model.text import safe

IDLE_SECONDS = 20.0
"""Seconds without a key after which signatures are sorted again; the cursor stays on its signature."""


class TriageView(View):
    """Signatures, then the jobs of one, then one job; beside them queues, running jobs, throughput."""

    # operations on the signature that is shown, with their states as they were last seen
    _retrying: frozenset[tuple[int, str]] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        # what the list of jobs knows of the signature, where the detail is about something else
        self._causes = Causes(self, self.show_jobs)

    PLACE = "triage"
    ROWS = (JobActions, QueueActions, SignatureActions, FilterActions)
    STAGES: ClassVar[dict[str, str]] = {
        "signatures": "home",
        "running": "home",
        "queues": "home",
        "jobs": "jobs",
        "detail": "detail",
    }
    ORDER: ClassVar[tuple[str, ...]] = ("home", "jobs", "detail")

    def panes(self) -> ComposeResult:
        """Signatures come first: they have the focus at the start."""
        yield SignatureTable(id="signatures")
        yield JobTable(DEAD_JOBS, "Jobs", id="jobs")
        yield Detail(id="detail")
        yield RunningTable(id="running")
        with Vertical(id="side"):
            yield QueueTable(QUEUES_SMALL, id="queues")
            yield Releases(id="releases")
            yield Chart(HOUR_SECONDS, id="chart")

    def foot(self) -> ComposeResult:
        """What operations do."""
        yield OperationStrip(id="strip")

    @property
    def signatures(self) -> SignatureTable:
        """The dead letters by error."""
        return self.query_one(SignatureTable)

    @property
    def jobs(self) -> JobTable:
        """The jobs of the signature under the cursor."""
        return self.query_one("#jobs", JobTable)

    def adopt(self, snapshot: Snapshot, restart: bool = False) -> None:
        """Show a snapshot; the list of jobs reads for itself."""
        self.signatures.behind = snapshot.behind
        if snapshot.needs.where == dead_only(self.signatures.where):
            idle = time.monotonic() - self.console.last_key > IDLE_SECONDS
            self.signatures.states = snapshot.states
            self.signatures.take(snapshot.signatures, snapshot.needs.window, restart or idle)
            if beside := self.console.operator.states.overtaken(snapshot.states):
                self.notice.show(beside, "warn")
        elif snapshot.behind:
            self.signatures.repaint()
        self.query_one(QueueTable).show(snapshot.queues)
        self.set_class(bool(snapshot.releases), "-releases")
        if restart:
            self.query_one(RunningTable).sort()
        self.show_jobs()
        if self.jobs.window is not None and (self.jobs.window.loaded or self.jobs.failed):
            self.jobs.read()
        self.show_detail()

    def operating(self) -> None:
        """Operations that have not ended have a strip below the rest; only the running jobs make room for it."""
        strip = self.query_one(OperationStrip)
        self.set_class(strip.needed, "-operating")
        strip.repaint()
        self._follow_retries()

    def _follow_retries(self) -> None:
        """Read the outcome of the retries of the shown signature again."""
        detail = self.query_one(Detail)
        group = detail.subject.group
        lines = [
            line for line in self.console.model.active_operations.lines if group and line.concerns(group.signature)
        ]
        states = frozenset((line.number, str(line.operation.state)) for line in lines)
        if group is not None and states != self._retrying:
            detail.read()
        elif states:
            detail.refresh_if_changed()
        self._retrying = states

    def flush(self) -> None:
        """Running jobs follow the events; while there are none, the signatures have their lines."""
        running = self.query_one(RunningTable)
        running.flush()
        self.set_class(running.idle, "-idle")

    def filtered(self, where: Filter, text: str) -> None:
        """Narrow the signatures, and with them the jobs."""
        self.signatures.where, self.signatures.filter_text = where, text
        self.signatures.selection.clear_marks()
        self.search(dead_only(where))
        self.console.refresher.narrow(dead_only(where))
        self.show_jobs()
        self.signatures.repaint()

    def searched(self, words: str) -> None:
        """Show beside the filter of what a search of texts is."""
        self.signatures.searched = words
        self.signatures.repaint()

    @on(Table.Moved)
    def follow(self, message: Table.Moved) -> None:
        """Show the row under the cursor in the panes behind the table."""
        if message.table_id == "signatures":
            self.show_jobs()
        self.show_detail()

    def pane_entered(self, pane: Pane) -> None:
        """Show the row under the focused table's cursor in the detail."""
        super().pane_entered(pane)
        self.show_detail()

    def show_jobs(self) -> None:
        """List the jobs of the signature under the cursor, unless the screen shows no list."""
        group = self.signatures.selection.row
        fields = self._fields(group.signature) if group is not None and self.size.width >= ROOMY else ()
        self.jobs.columns = dead_columns(self.size.width, [safe(name, FIELD) for name in fields])
        if group is None:
            self.jobs.list_nothing()
        elif not self.narrow or self.stage != "home":
            self.jobs.list_jobs(dead_of(group.signature, self.signatures.where), group.count)
            self.jobs.show_fields(fields)

    def _fields(self, signature: str) -> tuple[str, ...]:
        """Return the fields of payloads that distinguish best, as soon as a breakdown is read."""
        detail = self.query_one(Detail)
        if detail.causes.known(signature):
            return detail.causes.fields_of(signature)
        if not self._causes.known(signature):
            self._causes.read_breakdown(signature)
        return self._causes.fields_of(signature)

    def show_detail(self) -> None:
        """Show the job or group under the cursor."""
        detail = self.query_one(Detail)
        pane = self.pane
        if pane is detail:
            shown = detail.subject.group
            rows = self.signatures.selection.rows if shown is not None else ()
            if group := next((one for one in rows if shown and one.signature == shown.signature), None):
                # With newer numbers; the job that is its sample stays.
                detail.about(DetailSubject(detail.subject.job_id, group))
            detail.refresh_if_changed()
            return
        if isinstance(pane, RunningTable) and pane.selection.row is not None:
            detail.about(DetailSubject(pane.selection.row.id))
        elif pane is self.jobs and self.jobs.selection.rows:
            # While the cursor is adrift, the job that is gone stays.
            if self.jobs.selection.row is not None:
                detail.about(DetailSubject(self.jobs.selection.row.id))
        elif (group := self.signatures.selection.row) is not None:
            detail.about(DetailSubject(group.sample_id, group))
        else:
            detail.about(DetailSubject())

    def target(self, verb: Choice) -> Target | None:
        """Return the target of the focused pane; the group that the detail is about, where it shows one."""
        group = self.query_one(Detail).subject.group
        if isinstance(self.pane, Detail) and group is not None:
            return self.signatures.target_of([group])
        return super().target(verb)

    def narrowing(self) -> Filter:
        """The filter that holds."""
        return self.signatures.where

    def show_item(self, item: str) -> None:
        """Narrow the signatures to one."""
        where = Filter((Term("signature", "=", item),))
        self.filter_line.hold(where, safe(render(where)))

    def do_open(self) -> None:
        """From signatures to jobs, from jobs to the job."""
        pane = self.pane
        if isinstance(pane, SignatureTable):
            self.enter("jobs")
            self.show_jobs()
        elif isinstance(pane, JobTable | RunningTable):
            self.show_detail()
            self.enter("detail")
