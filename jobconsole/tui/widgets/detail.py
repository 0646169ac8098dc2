"""What stands behind the row under the cursor: a job or a group of dead jobs, with traceback, payload and attempts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

from textual import events
from textual.message import Message

from jobconsole.core.columns import Spans, state
from jobconsole.core.humanize import moment_of
from jobconsole.core.operations import Target, Verb
from jobconsole.tui.background import replace
from jobconsole.tui.drawing.facts import attempt_lines, group_brief, job_brief, job_lines, signature_lines
from jobconsole.tui.drawing.payload import json_lines
from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.drawing.traceback import peek_lines, traceback_lines
from jobconsole.tui.widgets.pane import Extent, Pane
from queue_core.errors import QueueCoreError
from queue_core.inspection import CHANGES_FROM, SignatureInfo
from queue_core.job import Attempt, Job
from queue_core.states import FINAL

TABS = ("Traceback", "Payload", "Attempts")
GLANCE = 9
"""Lines up to which the pane shows only the heart of the matter."""
WHEEL = 3
"""Lines that one notch of a mouse wheel moves."""

LASTING_SECONDS = 5.0
"""After which a finished job is read again."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the pane is about: a job, or a group with one of its jobs as a sample."""

    job_id: str = ""
    group: SignatureInfo | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What must change for the pane to start at its top again."""
        return (self.group.signature if self.group else "", "" if self.group else self.job_id)


@dataclass(slots=True)
class Loaded:
    """A job as it was read, with its failed attempts."""

    job: Job
    attempts: list[Attempt] = field(default_factory=list)


class Detail(Pane):
    """The detail of a subject; its job is read when the subject changes or the job does."""

    NEVER: ClassVar[dict[str, str]] = {
        "open": "this is the innermost pane; Esc goes back",
        "filter": "go back to a list to filter it",
    }

    class Read(Message, bubble=False):
        """A job has been read; `problem` says why not."""

        def __init__(self, job_id: str, loaded: Loaded | None, problem: str = "") -> None:
            super().__init__()
            self.job_id = job_id
            self.loaded = loaded
            self.problem = problem

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.subject = Subject()
        self.tab = 0
        self.all_frames = False
        self.top = 0
        self._loaded: Loaded | None = None
        self._problem = ""
        self._height = 0
        self._read_at = 0.0
        # taking a traceback apart is too much for four times a second: kept until what it depends on changes
        self._drawn_for: tuple[object, ...] = ()
        self._tab_drawn: list[Line] = []

    @property
    def glance(self) -> bool:
        """Whether there is room for a few lines only."""
        return self.size.height <= GLANCE

    @property
    def reachable(self) -> bool:
        """A glance only accompanies the list that it is about."""
        return not self.glance

    def heading(self) -> Spans:
        """The tabs; of a glance, what it is about."""
        if self.glance:
            group = self.subject.group
            what, name = ("Signature", group.signature) if group else ("Job", self.subject.job_id)
            what = what if name else "Detail"
            return ((what, "title"), (f"  {name}", "muted"))
        spans: list[tuple[str, str]] = []
        for index, tab in enumerate(TABS):
            here = index == self.tab
            spans += [(f"[{tab}]" if here else f" {tab} ", "title" if here else "muted")]
        return tuple(spans)

    def note(self) -> Spans:
        """How the frames are shown; of a glance, when it was."""
        if self.glance:
            return self._glance_note()
        return (("all frames", "muted"),) if self.tab == 0 and self.all_frames else ()

    def extent(self) -> Extent | None:
        """Which lines are shown."""
        return Extent(self.top, self.inner_height, self._height)

    def body(self, width: int, height: int) -> list[Line]:
        """The lines in view."""
        lines = self._glance(width, height) if self.glance else self._content(width)
        self._height = len(lines)
        self.top = max(0, min(self.top, len(lines) - height))
        return lines[self.top : self.top + height]

    def about(self, subject: Subject) -> None:
        """Show another subject, or the same one with newer numbers."""
        same_job = subject.job_id == self.subject.job_id
        if subject.key != self.subject.key:
            self.top = 0
        self.subject = subject
        if not same_job:
            self._loaded, self._problem = None, ""
            self.read(0.08)
        self.repaint()

    def read(self, delay: float = 0.0) -> None:
        """Read the job again; `delay` seconds later, so that a moving cursor reads only where it stops."""
        if self.subject.job_id:
            replace(self, "detail", self._read, self.subject.job_id, delay)

    def refresh_if_changed(self) -> None:
        """Read the job again unless it has come to an end: then it changes only by an operator, and rarely."""
        job = self._loaded.job if self._loaded else None
        if job is None or job.status not in FINAL or self._age() > LASTING_SECONDS:
            self.read()

    def _age(self) -> float:
        return time.monotonic() - self._read_at

    async def _read(self, job_id: str, delay: float) -> None:
        await self.console.pause(delay)
        try:
            job, attempts = await self.console.refresher.job(job_id)
        except QueueCoreError as error:
            self.post_message(self.Read(job_id, None, str(error)))
        else:
            self.post_message(self.Read(job_id, Loaded(job, attempts)))

    def on_detail_read(self, message: Read) -> None:
        if message.job_id == self.subject.job_id:
            self._problem = message.problem
            # A job that cannot be read for the moment stays on the screen.
            self._loaded = message.loaded or self._loaded
            self._read_at = time.monotonic()
            self.repaint()

    def _content(self, width: int) -> list[Line]:
        if not self.subject.job_id:
            return [(("nothing is chosen", "muted"),)]
        lines = self._facts(width)
        if self._problem:
            lines += [((self._problem, "warn"),)]
        if self._loaded is None:
            return lines if self._problem else [*lines, (), (("reading ...", "muted"),)]
        rule = self.console.glyphs.rule * width
        needs = (id(self._loaded), self.tab, width, self.all_frames)
        if needs != self._drawn_for:
            self._drawn_for, self._tab_drawn = needs, self._tab_lines(self._loaded, width)
        return [*lines, ((rule, "line"),), *self._tab_drawn]

    def _glance_note(self) -> Spans:
        group, moment = self.subject.group, self.console.moment()
        if group is not None:
            first, last = moment_of(group.first_seen, moment.now), moment_of(group.last_seen, moment.now)
            return ((f"first {first}  last {last}", "muted"),)
        return state(self._loaded.job.status, moment) if self._loaded else ()

    def _glance(self, width: int, height: int) -> list[Line]:
        """What was raised and where; below it how to repair it, or what it concerns."""
        if self._loaded is None:
            return [((self._problem or ("reading ..." if self.subject.job_id else "nothing is chosen"), "muted"),)]
        job, group = self._loaded.job, self.subject.group
        below = (
            group_brief(group, self.console.hint_for(group), width)
            if group
            else job_brief(job, self.console.moment(), width)
        )
        lines = peek_lines(job.traceback or "", job.error or "", width, height - len(below), self.console.glyphs)
        if not lines or not (job.error or job.traceback):
            lines = [((job.progress_message or "no error", "muted"),)]
        return [*lines, *below]

    def _facts(self, width: int) -> list[Line]:
        moment = self.console.moment()
        if self.subject.group is not None:
            return signature_lines(self.subject.group, moment, width, self.console.hint_for(self.subject.group))
        return job_lines(self._loaded.job, moment, width) if self._loaded else [((self.subject.job_id, "muted"),)]

    def _tab_lines(self, loaded: Loaded, width: int) -> list[Line]:
        job = loaded.job
        if self.tab == 1:
            lines = json_lines(job.payload, job.payload_text, width)
            result: list[Line] = (
                [] if job.result is None else [(), (("result", "muted"),), *json_lines(job.result, "", width)]
            )
            return lines + result
        if self.tab == 2:
            return attempt_lines(loaded.attempts, self.console.moment(), width)
        return traceback_lines(job.traceback or job.error or "", width, self.console.glyphs, self.all_frames)

    def target(self, verb: Verb) -> Target | None:
        """The job that is shown; a group is chosen in its list."""
        if self._loaded is None or self.subject.group is not None:
            return None
        job = self._loaded.job
        return Target(f"{job.type} {job.id}", ids=(job.id,), about=1, keys=(job.id,))

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this job."""
        if action not in CHANGES_FROM:
            return ""
        if self.subject.group is not None:
            return "choose the signature in its list first (Tab)"
        if self._loaded is None:
            return "nothing is chosen"
        status = self._loaded.job.status
        return "" if status in CHANGES_FROM[action] else f"this job is {status}"

    def scroll(self, lines: int) -> None:
        """Move the content."""
        self.top = max(0, self.top + lines)
        self.repaint()

    def turn(self, step: int) -> None:
        """Show another tab."""
        self.tab = (self.tab + step) % len(TABS)
        self.top = 0
        self.repaint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll(-WHEEL)

    def do_up(self) -> None:
        """One line up."""
        self.scroll(-1)

    def do_down(self) -> None:
        """One line down."""
        self.scroll(1)

    def do_page_up(self) -> None:
        """One page up."""
        self.scroll(1 - self.inner_height)

    def do_page_down(self) -> None:
        """One page down."""
        self.scroll(self.inner_height - 1)

    def do_half_up(self) -> None:
        """Half a page up."""
        self.scroll(-(self.inner_height // 2))

    def do_half_down(self) -> None:
        """Half a page down."""
        self.scroll(self.inner_height // 2)

    def do_top(self) -> None:
        """To the first line."""
        self.scroll(-self.top)

    def do_bottom(self) -> None:
        """To the last line."""
        self.scroll(self._height)

    def do_copy(self) -> None:
        """Copy the id of the job."""
        if self.subject.job_id:
            self.console.copy(self.subject.group.signature if self.subject.group else self.subject.job_id)
