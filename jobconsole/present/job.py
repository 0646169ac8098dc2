"""What a screen shows of a job: its facts, its payload, its log, and which of them a pane shows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobconsole.core.latency import word
from jobconsole.core.rows import LONGEST_NAME, retried_before
from jobconsole.format import humanize
from jobconsole.format.humanize import moment_of, plural, size
from jobconsole.format.spans import STATE_TONES, Line, RenderContext, Span, width_of, wrap
from jobconsole.present.facts import Fact, Facts, but, of_group, of_job, only
from jobconsole.present.history import diff_lines, peek_lines, timeline_lines, traceback_lines
from jobconsole.present.layout import fact_line, fact_lines
from jobconsole.present.release import LiveSince, trend_lines
from jobconsole.present.signature import of_state
from jobconsole.present.stack import LiveStack, stack_lines
from queue_core.model.job import MAX_LOG_LINE_BYTES, Attempt, Job, LogEntry
from queue_core.model.operation import Operation
from queue_core.model.report import LogPage, SignatureInfo
from queue_core.model.text import safe
from queue_core.model.triage.signatures import SignatureState


def earlier_lives(attempts: Sequence[Attempt], died: datetime, now: datetime) -> str:
    """Return how often the newest job of a signature was retried and when it died; "" when it never was.

    `died`: when it died last.
    """
    before = retried_before(attempts)
    if not before:
        return ""
    ends = ", ".join(moment_of(end, now) for end in (*(attempt.finished_at for attempt in before[-3:]), died))
    return f"{plural(len(before), 'time')}, its newest job died at {ends}"


def job_lines(job: Job, context: RenderContext, width: int) -> list[Line]:
    """Return state, type and run time of a job, and its facts but the error, which the traceback begins with."""
    glyph = context.glyphs.states[job.status]
    ran = humanize.duration(humanize.seconds_between(job.started_at, job.completed_at)) if job.completed_at else ""
    head: Line = (
        (f"{glyph} {job.status}", STATE_TONES[job.status]),
        ("  in the trash" if job.trashed_at else "", "warn"),
        ("  ", "text"),
        (safe(job.type, LONGEST_NAME), "strong"),
        (f"  after {ran}" if ran else "", "muted"),
    )
    return [head, (("", "text"),), *fact_lines(but(of_job(job), "type", "status", "error"), context, width)]


@dataclass(frozen=True, slots=True)
class GroupNotes:
    """What is known about a group of dead jobs beside the store's own record of it."""

    # seconds over which its growth was counted
    window: float = 0.0
    # how to repair it; "" when there is no hint
    hint: str = ""
    # the outcome of earlier retries; "" when none is known
    retried: str = ""
    # its state; None: it is not known yet
    state: SignatureState | None = None
    # the releases that went live, for its trend
    deployments: tuple[LiveSince, ...] = ()

    def facts(self, now: datetime | None = None) -> Facts:
        """What there is to show of it; moments of the same day as `now` as their times alone."""
        state = self.state
        touched = state is not None and (state.word != "known" or state.since or state.facts.changes or state.rule)
        known = of_state(state, now) if state is not None and touched else ()
        return (*known, Fact("retried", self.retried, "warn"), Fact("repair", self.hint, "accent"))


def signature_lines(info: SignatureInfo, context: RenderContext, width: int, notes: GroupNotes) -> list[Line]:
    """Return what a group of dead jobs has in common, what was tried, and how to repair it where that is known."""
    title: list[Line] = [((part, "bad"),) for part in wrap(info.title, width)]
    facts = but(of_group(info, word(notes.window) if notes.window else ""), "error")
    known = fact_lines(notes.facts(context.now), context, width)
    return [
        *title,
        *fact_lines(facts, context, width),
        *trend_lines(info, notes.window, notes.deployments, context, width),
        *known,
    ]


def group_brief(info: SignatureInfo, notes: GroupNotes, context: RenderContext) -> list[Fact]:
    """Return the outcome of earlier retries of a group, how to repair it, or what it concerns."""
    return but(notes.facts(context.now)) or only(of_group(info), "types", "queues")


def job_brief(job: Job) -> list[Fact]:
    """Return a job's queue, attempts and times."""
    return only(of_job(job), "queue", "attempts", "due", "started", "ended")


def packed(facts: Sequence[Fact], context: RenderContext, width: int, height: int) -> list[Line]:
    """Return facts in as few lines as hold them; what does not fit in `height` lines is cut at the end of the last."""
    lines: list[list[Fact]] = [[]]
    for fact in facts:
        wider = width_of(fact_line([*lines[-1], fact], context)) > width
        if lines[-1] and wider and len(lines) < height:
            lines.append([])
        lines[-1].append(fact)
    return [fact_line(line, context) for line in lines]


HEAD_LINES = 3
"""Lines of the facts above a breakdown and a comparison, at most."""
STAMP_CELLS = 9
"""Cells of the time and the blank behind it."""
_ENTRY_ROWS = 40
"""Rows of one entry; the command line has all of them."""


def log_lines(page: LogPage | None, context: RenderContext, width: int) -> list[Line]:
    """Return the lines with their times; a rule separates the lines of one attempt from those of the next."""
    if page is None:
        return [(("reading ...", "muted"),)]
    if not page.entries:
        return [(("the handler wrote no lines", "muted"),)]
    lines: list[Line] = []
    earlier = page.entries[0].number - 1
    if earlier > 0:
        lines.append(((f"{humanize.plural(earlier, 'earlier line')}", "muted"),))
    token = page.entries[0].token
    for entry in page.entries:
        if entry.token != token:
            token = entry.token
            lines.append(((f"{context.glyphs.rule * 2} next attempt", "faint"),))
        lines += _entry(entry, max(1, width - STAMP_CELLS))
    return lines


def _entry(entry: LogEntry, width: int) -> list[Line]:
    text = safe(entry.text, MAX_LOG_LINE_BYTES, newlines=True).rstrip("\n")
    rows = [part for line in text.split("\n") for part in wrap(line, width)]
    if len(rows) > _ENTRY_ROWS:
        rows = [*rows[: _ENTRY_ROWS - 1], f"... {len(rows) - _ENTRY_ROWS + 1} more rows"]
    stamp = f"{humanize.clock(entry.at):<{STAMP_CELLS}}"
    return [((" " * STAMP_CELLS if number else stamp, "muted"), (row, "text")) for number, row in enumerate(rows)]


SHOWN_JSON = 64 << 10
"""Characters of a JSON text that are shown."""
_TOKEN = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*"(?=:))|(?P<text>"(?:[^"\\]|\\.)*")|(?P<other>-?\d[\d.eE+-]*|true|false|null)'
)
_TONES = {"name": "accent", "text": "good", "other": "warn"}


def json_lines(value: Any, text: str, width: int) -> list[Line]:
    """Return the lines of a value; of the stored text where it is no JSON."""
    raw = text if value is None and text else json.dumps(value, indent=2, ensure_ascii=False)
    shown = safe(raw, limit=SHOWN_JSON, newlines=True)
    lines: list[Line] = []
    for line in shown.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        for number, part in enumerate(wrap(line[indent:], max(8, width - indent - 2))):
            lines.append(((" " * (indent + (2 if number else 0)), "text"), *_toned(part)))
    if len(raw) > SHOWN_JSON:
        lines.append(((f"cut: the whole has {size(len(raw.encode(errors='replace')))}", "muted"),))
    return lines


def _toned(line: str) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for match in _TOKEN.finditer(line):
        if match.start() > at:
            spans.append((line[at : match.start()], "muted"))
        spans.append((match[0], _TONES[match.lastgroup or "other"]))
        at = match.end()
    return [*spans, (line[at:], "muted")] if at < len(line) else spans


TABS = ("Traceback", "Breakdown", "Compare", "Payload", "Logs", "Timeline", "Diff", "Stack")
SHORT_TABS = ("Trace", "Part", "Cmp", "Data", "Log", "Time", "Dif", "Stack")
"""The same where there is little room."""
TRACEBACK, BREAKDOWN, COMPARE, PAYLOAD, LOGS, TIMELINE, DIFF, STACK = range(len(TABS))
CAUSES = (BREAKDOWN, COMPARE)
"""Tabs that read for themselves."""


@dataclass(frozen=True, slots=True)
class DetailSubject:
    """What a detail is about: a job, or a group with one of its jobs as a sample."""

    job_id: str = ""
    group: SignatureInfo | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What must change for the pane to start at its top again."""
        return (self.group.signature if self.group else "", "" if self.group else self.job_id)


@dataclass(slots=True)
class DetailData:
    """A job as it was read, with its failed attempts; with its log where that is shown."""

    job: Job
    attempts: list[Attempt] = field(default_factory=list)
    log: LogPage | None = None
    # those that have changed it, where its timeline is shown
    operations: list[Operation] = field(default_factory=list)
    # those that were taken while it ran, the newest first, where they are shown
    stacks: list[LiveStack] | None = None
    # of a group: the outcome of the retries of this console; "" when there were none
    retried: str = ""

    def earlier(self, group: SignatureInfo, context: RenderContext) -> str:
        """Return the outcome of earlier retries: of this console's, else of those in the sample's attempts."""
        return self.retried or earlier_lives(self.attempts, group.last_seen, context.now)


@dataclass(frozen=True, slots=True)
class DetailState:
    """How a job is displayed."""

    tab: int = TRACEBACK
    all_frames: bool = False
    # how many pairs of attempts before the last one are compared
    back: int = 0


def tab_lines(data: DetailData, state: DetailState, context: RenderContext, width: int) -> list[Line]:
    """Return what a tab shows."""
    job = data.job
    if state.tab == PAYLOAD:
        return _values(job, width)
    if state.tab == LOGS:
        return log_lines(data.log, context, width)
    if state.tab == TIMELINE:
        return timeline_lines(job, data.attempts, data.operations, context, width)
    if state.tab == STACK:
        return stack_lines(data.stacks, state.all_frames, context, width)
    if state.tab == DIFF:
        return diff_lines(data.attempts, state.back, width)
    return traceback_lines(job.traceback or job.error or "", width, context.glyphs, state.all_frames)


def _values(job: Job, width: int) -> list[Line]:
    lines = json_lines(job.payload, job.payload_text, width)
    if job.result is None:
        return lines
    return [*lines, (), (("result", "muted"),), *json_lines(job.result, "", width)]


def head_lines(
    subject: DetailSubject, data: DetailData | None, notes: GroupNotes, context: RenderContext, width: int
) -> list[Line]:
    """Return the facts that are shown above the tabs."""
    if subject.group is not None:
        return signature_lines(subject.group, context, width, notes)
    return job_lines(data.job, context, width) if data else [((subject.job_id, "muted"),)]


def cause_lines(
    subject: DetailSubject, data: DetailData | None, context: RenderContext, width: int,
    notes: GroupNotes | None = None, first: datetime | None = None,
) -> list[Line]:  # fmt: skip
    """Return what a breakdown or a comparison is about, in two lines; with `notes` the trend and the releases, too.

    `first`: when the first of the dead jobs died, where that is known.
    """
    if subject.group is None:
        return job_lines(data.job, context, width)[:1] if data else [((subject.job_id, "muted"),)]
    facts, last = of_group(subject.group), moment_of(subject.group.last_seen, context.now)
    begin = moment_of(first, context.now) if first is not None else ""
    died = last if begin == last else f"{begin} to {last}" if begin else f"until {last}"
    counted = (Fact("jobs", humanize.exact(subject.group.count), "strong"), Fact("died", died))
    lines: list[Line] = [
        *(((part, "bad"),) for part in wrap(subject.group.title, width, 1, context.glyphs.ellipsis)),
        *packed((*counted, *only(facts, "types")), context, width, HEAD_LINES),
    ]
    if notes is None:
        return lines
    since = fact_lines(only(notes.facts(context.now), "since"), context, width)
    return [*lines, *trend_lines(subject.group, notes.window, notes.deployments, context, width), *since]


def brief_lines(
    subject: DetailSubject, data: DetailData, notes: GroupNotes, context: RenderContext, width: int, height: int
) -> list[Line]:
    """Return the heart of the matter in a few lines."""
    job = data.job
    facts = group_brief(subject.group, notes, context) if subject.group else job_brief(job)
    lines = peek_lines(job.traceback or "", job.error or "", width, height - 1, context.glyphs)
    if not lines or not (job.error or job.traceback):
        lines = [((job.progress_message or "no error", "muted"),)]
    return [*lines, *packed(facts, context, width, height - len(lines))]
