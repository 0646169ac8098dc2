"""The details of the row under the cursor: a job, or a group of dead jobs, and all that is known about it."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual.message import Message

from jobconsole.actions import edit
from jobconsole.actions.plan import ACTS_ON, NOT_CANCELLED, Choice, Target, one_job
from jobconsole.core.history import pairs
from jobconsole.format.humanize import moment_of
from jobconsole.format.spans import Line, Spans, around, wrap
from jobconsole.present.columns import state, trend_of
from jobconsole.present.job import (
    BREAKDOWN,
    CAUSES,
    COMPARE,
    DIFF,
    LOGS,
    SHORT_TABS,
    STACK,
    TABS,
    TIMELINE,
    TRACEBACK,
    DetailData,
    DetailState,
    DetailSubject,
    GroupNotes,
    brief_lines,
    cause_lines,
    head_lines,
    tab_lines,
)
from jobconsole.present.release import deployments
from jobconsole.tui.base.causes import Causes
from jobconsole.tui.base.host import Renewal
from jobconsole.tui.base.links import Link
from jobconsole.tui.widgets.scroll import ScrollPane
from queue_core.errors import QueueCoreError
from queue_core.model.filters import parse
from queue_core.model.states import FINAL, Status

LEAST_TREND = 18
"""Lines from which a breakdown shows the trend."""
ROOMY = 60
"""Cells that the tabs take with their whole names."""
LEAST_TAB = 3
"""Lines of a tab below the facts, with the rule between them; where there are fewer it is above them."""
FRAME = 6
"""Cells of the title line that are not for the tabs."""
LOG_SECONDS = 1.0
"""Between two looks at the log that is shown."""
LASTING_SECONDS = 5.0
"""After which a finished job is read again."""


class Detail(ScrollPane):
    """The detail of a subject; its job is read when the subject changes or the job does."""

    GLANCE = 9
    NEVER: ClassVar[dict[str, str]] = {"filter": "go back to a list to filter it"}

    class Read(Message, bubble=False):
        """A job has been read; `problem` is the reason when it was not."""

        def __init__(self, job_id: str, loaded: DetailData | None, problem: str = "") -> None:
            super().__init__()
            self.job_id = job_id
            self.loaded = loaded
            self.problem = problem

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.subject = DetailSubject()
        # shown while there is none
        self.empty = "nothing selected"
        self.tab = 0
        self.all_frames = False
        # how many pairs of attempts before the last one are compared
        self.back = 0
        # the end of the log stays in view until the user scrolls up
        self.follows = False
        # lines above a breakdown
        self._causes_at = 0
        self._loaded: DetailData | None = None
        self._problem = ""
        self._read_at = 0.0
        self._renewal = Renewal(self, "detail")
        # why jobs died, where that is shown
        self.causes = Causes(self, self.repaint)
        # taking a traceback apart is too much for four times a second: kept until what it depends on changes
        self._drawn_for: tuple[object, ...] = ()
        self._tab_drawn: list[Line] = []

    def on_mount(self) -> None:
        self.set_interval(LOG_SECONDS, self._read_log)

    @property
    def in_trash(self) -> bool:
        """Whether the job that is shown was deleted."""
        return self.subject.group is None and self._loaded is not None and self._loaded.job.trashed_at is not None

    def heading(self) -> Spans:
        """The tabs; of a glance, what it is about."""
        if self.glance:
            group = self.subject.group
            what, name = ("Signature", group.signature) if group else ("Job", self.subject.job_id)
            what = what if name else "Detail"
            return ((what, "title"), (f"  {name}", "muted"))
        spans: list[tuple[str, str]] = []
        names = TABS if self.inner_width > ROOMY else SHORT_TABS
        for index in self._tabs():
            here, tab = index == self.tab, names[index]
            spans += [(f"[{tab}]" if here else f" {tab} ", "title" if here else "muted")]
        return around(spans, self.size.width - FRAME, self.console.glyphs.ellipsis)

    def note(self) -> Spans:
        """How the frames are shown; of a glance, when it was."""
        if self.glance:
            return self._glance_note()
        return (("all frames", "muted"),) if self.tab in {TRACEBACK, STACK} and self.all_frames else ()

    def body(self, width: int, height: int) -> list[Line]:
        """The lines in view."""
        lines = self._glance(width, height) if self.glance else self.content(width)
        self._height = len(lines)
        last = len(lines) - height
        if self.tab == BREAKDOWN and not self.glance and self.causes.rows:
            at = self._causes_at + self.causes.place
            self.top = max(min(self.top, at), at - height + 1 if at >= height else 0)
        self.top = max(0, last if self.follows and self.tab == LOGS and not self.glance else min(self.top, last))
        return lines[self.top : self.top + height]

    def about(self, subject: DetailSubject) -> None:
        """Show another subject, or the same one with newer numbers."""
        same_job = subject.job_id == self.subject.job_id
        if subject.key != self.subject.key:
            self.top = self.back = 0
        self.causes.about(subject.key != self.subject.key)
        self.subject = subject
        if not same_job:
            self._loaded, self._problem = None, ""
            self.read(0.08)
        self.repaint()

    def read(self, delay: float = 0.0) -> None:
        """Read the job again; `delay` seconds later, so that a moving cursor reads only where it stops."""
        if self.subject.job_id:
            self._renewal.read(self.subject.job_id, partial(self._read, self.subject.job_id, delay))

    def refresh_if_changed(self) -> None:
        """Read the job again unless it has come to an end: then it changes only by an operator, and rarely."""
        job = self._loaded.job if self._loaded else None
        if job is None or job.status not in FINAL or self._age() > LASTING_SECONDS:
            self.read()

    def _read_log(self) -> None:
        """A handler writes lines without an event."""
        shown = self.tab == LOGS and self.screen.is_current and not self.glance
        if shown and not self.console.frozen:
            self.refresh_if_changed()

    def _age(self) -> float:
        return time.monotonic() - self._read_at

    async def _read(self, job_id: str, delay: float) -> None:
        await self.console.pause(delay)
        try:
            job, attempts = await self.console.refresher.job(job_id)
            log = await self.console.refresher.log(job_id) if self.tab == LOGS else None
            operations = await self.console.refresher.operations.of_job(job_id) if self.tab == TIMELINE else []
            stacks = await self.console.refresher.operations.stacks(job_id) if self.tab == STACK else None
            loaded = DetailData(job, attempts, log, operations, stacks, await self._outcome())
        except QueueCoreError as error:
            self.post_message(self.Read(job_id, None, str(error)))
        else:
            self.post_message(self.Read(job_id, loaded))

    async def _outcome(self) -> str:
        group = self.subject.group
        return await self.console.refresher.outcome(group.signature) if group else ""

    def on_detail_read(self, message: Read) -> None:
        if message.job_id == self.subject.job_id:
            self._problem = message.problem
            # A job that cannot be read for the moment stays on the screen.
            self._loaded = message.loaded or self._loaded
            self._read_at = time.monotonic()
            self.repaint()

    def content(self, width: int) -> list[Line]:
        """Facts, a rule, and what the tab shows."""
        if not self.subject.job_id:
            return [((part, "muted"),) for part in wrap(self.empty, width)]
        if self.tab in CAUSES:
            return self._causes(width)
        lines = self._facts(width)
        if self._problem:
            lines += [((self._problem, "warn"),)]
        if self._loaded is None:
            return lines if self._problem else [*lines, (), (("reading ...", "muted"),)]
        rule = self.console.glyphs.rule * width
        state = DetailState(self.tab, self.all_frames, self.back)
        needs = (self._loaded, state, width)
        if needs != self._drawn_for:
            self._drawn_for, self._tab_drawn = (
                needs,
                tab_lines(self._loaded, state, self.console.render_context(), width),
            )
        if self.screen.has_class("-low") or (self.compact and len(lines) + LEAST_TAB > self.inner_height):
            # Of a few lines the first show what went wrong.
            return [*self._tab_drawn, ((rule, "line"),), *lines]
        return [*lines, ((rule, "line"),), *self._tab_drawn]

    def _causes(self, width: int) -> list[Line]:
        """Why the jobs of the group died, or this one: what they have in common, or how its payload differs."""
        context, rule = self.console.render_context(), ((self.console.glyphs.rule * width, "line"),)
        notes = self._notes() if self.inner_height >= LEAST_TREND else None
        first = self.causes.first_death(self._signature)
        lines = [*cause_lines(self.subject, self._loaded, context, width, notes, first), rule]
        self._causes_at = len(lines)
        if self.tab == COMPARE:
            return lines + self.causes.comparison(self.subject.job_id, context, width)
        if self._signature is None:
            return [*lines, (("reading ...", "muted"),)]
        group = self.subject.group
        as_of = None if group is None else (group.count, group.last_seen)
        return lines + self.causes.breakdown(self._signature, context, width, as_of)

    @property
    def _signature(self) -> str | None:
        """Of the group, or of the job: "" where it has none; None while that is not known."""
        if self.subject.group is not None:
            return self.subject.group.signature
        return (self._loaded.job.signature or "") if self._loaded else None

    def _glance_note(self) -> Spans:
        group, context = self.subject.group, self.console.render_context()
        if group is not None:
            first, last = moment_of(group.first_seen, context.now), moment_of(group.last_seen, context.now)
            return (*trend_of(group, context.glyphs), (f"  first {first}  last {last}", "muted"))
        return state(self._loaded.job.status, context) if self._loaded else ()

    def _glance(self, width: int, height: int) -> list[Line]:
        """What was raised and where; below it how to repair it, or what it concerns."""
        if self._loaded is None:
            return [((self._problem or ("reading ..." if self.subject.job_id else "nothing selected"), "muted"),)]
        return brief_lines(
            self.subject, self._current(self._loaded), self._notes(), self.console.render_context(), width, height
        )

    def _current(self, loaded: DetailData) -> DetailData:
        """Return the job as it was read, updated by its events since then."""
        job = loaded.job
        going = job.status is Status.RUNNING
        running = self.console.model.running.progress_of(job.id, job.token, job.progress) if going else None
        if running is None:
            return loaded
        return replace(loaded, job=replace(job, progress=running[0], progress_message=running[1]))

    def _facts(self, width: int) -> list[Line]:
        loaded = self._current(self._loaded) if self._loaded else None
        return head_lines(self.subject, loaded, self._notes(), self.console.render_context(), width)

    def _notes(self) -> GroupNotes:
        """Return what is known about a group beside the store's own record of it."""
        group, snapshot, loaded = self.subject.group, self.console.model.snapshot, self._loaded
        if group is None or snapshot is None:
            return GroupNotes()
        retried = loaded.earlier(group, self.console.render_context()) if loaded else ""
        state = snapshot.states.get(group.signature)
        hint, found = self.console.hint_for(group), deployments(snapshot)
        return GroupNotes(snapshot.needs.window, hint, retried, state, found)

    def target(self, verb: Choice) -> Target | None:
        """The job that is shown; a group is chosen in its list."""
        if self._loaded is None or self.subject.group is not None:
            return None
        job = self._loaded.job
        return one_job(job.id, job.type, job.status)

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this job."""
        if action in {"next_match", "previous_match", "open", "stack"}:
            return self._refuses_here(action)
        if action not in ACTS_ON and action not in {"edit", "export"}:
            return ""
        if self.subject.group is not None:
            return NOT_CANCELLED if action == "cancel" else ""
        if self._loaded is None:
            return "nothing selected"
        if action == "export":
            return ""
        status = self._loaded.job.status
        if action == "edit":
            reason = edit.refusal(status)
            return f"not edited: {reason}" if reason else ""
        return "" if status in ACTS_ON[action] else f"this job is {status}"

    def _refuses_here(self, action: str) -> str:
        row, reason = self.causes.row, ""
        if action == "stack":
            running = self._loaded is not None and self._loaded.job.status is Status.RUNNING
            reason = "" if running and self.subject.group is None else "only a running job has a stack"
        elif action == "open":
            reason = "no filter chooses this value" if row is None or not row.where else ""
        elif self.tab not in {DIFF, COMPARE}:
            reason = "n and N work in Compare and Diff"
        return reason

    def do_open(self) -> None:
        """List the jobs that have the value under the cursor of the breakdown."""
        row, signature = self.causes.row, self._signature
        if row is not None and row.where and signature:
            text = f"status:dead sig:{signature} {row.where}"
            self.console.navigation.open_jobs(parse(text), text)

    def do_compare(self) -> None:
        """Show the payload beside the last one that succeeded."""
        self.turn_to(COMPARE)

    def fold(self) -> str:
        """Show or fold what is equal, or the frames of libraries; returns which of the two, in words."""
        if self.tab == COMPARE:
            self.causes.equal = not self.causes.equal
            words = f"equal fields are {'shown' if self.causes.equal else 'left out'}"
        else:
            self.all_frames = not self.all_frames
            self.tab = STACK if self.tab == STACK else TRACEBACK
            words = f"frames of libraries are {'shown' if self.all_frames else 'folded'}"
        self.repaint()
        return words

    def scroll(self, lines: int) -> None:
        """Move the content; in a breakdown the cursor."""
        if self.tab == BREAKDOWN and not self.glance and self.causes.rows:
            self.causes.move(lines)
            self.repaint()
            return
        self.top = max(0, self.top + lines)
        self.follows = lines > 0 and self.top >= self._height - self.inner_height
        self.repaint()

    def _tabs(self) -> list[int]:
        """The tabs: a group has a breakdown, a job has stacks; whatever is shown stays."""
        other = BREAKDOWN if self.subject.group is None else STACK
        return [tab for tab in range(len(TABS)) if tab != other or tab == self.tab]

    def turn(self, step: int) -> None:
        """Show another tab."""
        tabs = self._tabs()
        self.turn_to(tabs[(tabs.index(self.tab) + step) % len(tabs)])

    def turn_to(self, tab: int) -> None:
        """Show a tab."""
        self.tab = tab
        self.top = 0
        self.follows = tab == LOGS
        if tab in {LOGS, TIMELINE, STACK}:
            self.read()
        self.repaint()

    def do_next_match(self) -> None:
        """Compare the two attempts before."""
        self._compare(1)

    def do_previous_match(self) -> None:
        """Compare the two attempts after."""
        self._compare(-1)

    def _compare(self, step: int) -> None:
        if self.tab == COMPARE:
            self.causes.older(step)
            self.repaint()
            return
        most = pairs(self._loaded.attempts) - 1 if self._loaded else 0
        self.back = max(0, min(self.back + step, most))
        self.repaint()

    def link(self) -> Link | None:
        """The place of what is shown."""
        if self.subject.group is not None:
            return Link("signature", self.subject.group.signature)
        return Link("job", self.subject.job_id) if self.subject.job_id else None

    def do_copy(self) -> None:
        """Copy the id of the job; the runbook of a group, or its id."""
        if self.subject.group is not None:
            self.console.navigation.copy_signature(self.subject.group.signature)
        elif self.subject.job_id:
            self.console.navigation.copy(self.subject.group.signature if self.subject.group else self.subject.job_id)
