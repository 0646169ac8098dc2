"""What stands behind a row, drawn: the facts of a job or a group, and what its tabs show."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobconsole.core.columns import Moment
from jobconsole.core.humanize import moment_of, plural
from jobconsole.core.lives import retried_before
from jobconsole.tui.drawing.facts import GroupNotes, group_brief, job_brief, job_lines, signature_lines
from jobconsole.tui.drawing.history import diff_lines, timeline_lines
from jobconsole.tui.drawing.log import log_lines
from jobconsole.tui.drawing.payload import json_lines
from jobconsole.tui.drawing.spans import Line
from jobconsole.tui.drawing.traceback import peek_lines, traceback_lines
from queue_core.inspection import LogPage, SignatureInfo
from queue_core.job import Attempt, Job
from queue_core.operations import Operation

TABS = ("Traceback", "Payload", "Logs", "Timeline", "Diff")
SHORT_TABS = ("Trace", "Data", "Logs", "Time", "Diff")
"""The same where there is little room."""
TRACEBACK, PAYLOAD, LOGS, TIMELINE, DIFF = range(len(TABS))


@dataclass(frozen=True, slots=True)
class Subject:
    """What a detail is about: a job, or a group with one of its jobs as a sample."""

    job_id: str = ""
    group: SignatureInfo | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What must change for the pane to start at its top again."""
        return (self.group.signature if self.group else "", "" if self.group else self.job_id)


@dataclass(slots=True)
class Loaded:
    """A job as it was read, with its failed attempts; with its log where that is shown."""

    job: Job
    attempts: list[Attempt] = field(default_factory=list)
    log: LogPage | None = None
    # those that have changed it, where its timeline is shown
    operations: list[Operation] = field(default_factory=list)
    # of a group: what became of the retries of this console; "" when there were none
    retried: str = ""

    def earlier(self, group: SignatureInfo, moment: Moment) -> str:
        """Return what became of earlier retries: of this console's, else of those that the sample's attempts tell."""
        before = [] if self.retried else retried_before(self.attempts)
        if not before:
            return self.retried
        ends = [*(attempt.finished_at for attempt in before[-3:]), group.last_seen]
        died = ", ".join(moment_of(end, moment.now) for end in ends)
        return f"{plural(len(before), 'time')}, its newest job died at {died}"


@dataclass(frozen=True, slots=True)
class Sight:
    """How somebody looks at it."""

    tab: int = TRACEBACK
    all_frames: bool = False
    # how many pairs of attempts before the last one are compared
    back: int = 0


def tab_lines(loaded: Loaded, sight: Sight, moment: Moment, width: int) -> list[Line]:
    """Return what a tab shows."""
    job = loaded.job
    if sight.tab == PAYLOAD:
        return _values(job, width)
    if sight.tab == LOGS:
        return log_lines(loaded.log, moment, width)
    if sight.tab == TIMELINE:
        return timeline_lines(job, loaded.attempts, loaded.operations, moment, width)
    if sight.tab == DIFF:
        return diff_lines(loaded.attempts, sight.back, width)
    return traceback_lines(job.traceback or job.error or "", width, moment.glyphs, sight.all_frames)


def _values(job: Job, width: int) -> list[Line]:
    lines = json_lines(job.payload, job.payload_text, width)
    if job.result is None:
        return lines
    return [*lines, (), (("result", "muted"),), *json_lines(job.result, "", width)]


def head_lines(subject: Subject, loaded: Loaded | None, notes: GroupNotes, moment: Moment, width: int) -> list[Line]:
    """Return the facts that stand above the tabs."""
    if subject.group is not None:
        return signature_lines(subject.group, moment, width, notes)
    return job_lines(loaded.job, moment, width) if loaded else [((subject.job_id, "muted"),)]


def brief_lines(
    subject: Subject, loaded: Loaded, notes: GroupNotes, moment: Moment, width: int, height: int
) -> list[Line]:
    """Return the heart of the matter in a few lines."""
    job = loaded.job
    below = group_brief(subject.group, notes) if subject.group else job_brief(job, moment, width)
    lines = peek_lines(job.traceback or "", job.error or "", width, height - len(below), moment.glyphs)
    if not lines or not (job.error or job.traceback):
        lines = [((job.progress_message or "no error", "muted"),)]
    return [*lines, *below]
