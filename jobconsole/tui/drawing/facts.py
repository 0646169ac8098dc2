"""What is known about a job, its attempts, or a group of dead jobs, in a few lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobconsole.core import humanize
from jobconsole.core.columns import STATE_TONES, Moment, Spans
from jobconsole.core.rows import LINE, NAME
from jobconsole.core.windows import word
from jobconsole.tui.drawing.spans import Line, wrap
from queue_core.inspection import SignatureInfo
from queue_core.job import Job
from queue_core.text import safe

LABEL = 10
"""Cells of a label."""


def job_lines(job: Job, moment: Moment, width: int) -> list[Line]:
    """Return state, place, times and worker of a job."""
    glyph = moment.glyphs.states[job.status]
    trash = "  in the trash" if job.trashed_at else ""
    head: Line = (
        (f"{glyph} {job.status}", STATE_TONES[job.status]),
        (trash, "warn"),
        ("  ", "text"),
        (safe(job.type, NAME), "strong"),
    )
    lines: list[Line] = [head, (("", "text"),)]
    lines += _labelled("id", job.id, width)
    lines += _labelled("queue", f"{safe(job.queue, NAME)}, priority {job.priority}", width)
    tries = f"{job.retry_count} of {job.max_retries} retries used"
    tries += f", {humanize.plural(job.losses, 'loss', 'losses')}" if job.losses else ""
    tries += f", {humanize.plural(job.crashes, 'crash', 'crashes')}" if job.crashes else ""
    lines += _labelled("tries", tries, width)
    lines += _labelled("times", _times(job, moment), width)
    if job.worker:
        lines += _labelled("worker", safe(job.worker, NAME), width)
    if job.tags:
        lines += _labelled("tags", ", ".join(safe(tag, NAME) for tag in job.tags), width)
    for label, key in (("order", job.ordering_key), ("unique", job.unique_key)):
        if key:
            lines += _labelled(label, safe(key, NAME), width)
    if job.progress_message or job.progress:
        lines += _labelled("progress", f"{job.progress}% {safe(job.progress_message, LINE)}", width)
    return lines


@dataclass(frozen=True, slots=True)
class GroupNotes:
    """What is known about a group of dead jobs beside what the store says of it."""

    # seconds over which its growth was counted
    window: float = 0.0
    # how to repair it; "" when nobody said
    hint: str = ""
    # what became of earlier retries; "" when none is known
    retried: str = ""


def signature_lines(info: SignatureInfo, moment: Moment, width: int, notes: GroupNotes) -> list[Line]:
    """Return what a group of dead jobs has in common, what was tried, and how to repair it where that is known."""
    lines: list[Line] = [((part, "bad"),) for part in wrap(info.title, width)]
    seen = f"{_when(info.first_seen, moment)} to {_when(info.last_seen, moment)}"
    lines.append(
        (
            (humanize.plural(info.count, "job"), "strong"),
            (f"  +{humanize.exact(info.grown)} in {word(notes.window)}" if info.grown else "", "warn"),
            (f"  {seen}", "muted"),
        )
    )
    types = ", ".join(f"{name} {humanize.exact(number)}" for name, number in info.types[:4])
    more = f" and {len(info.types) - 4} more types" if len(info.types) > 4 else ""
    lines += _labelled("types", types + more, width)
    lines += _labelled("queues", ", ".join(info.queues[:6]), width)
    lines += _labelled("signature", info.signature, width)
    if notes.retried:
        lines += _labelled("retried", notes.retried, width, "warn")
    if notes.hint:
        lines += _labelled("repair", notes.hint, width, "accent")
    return lines


def group_brief(info: SignatureInfo, notes: GroupNotes) -> list[Line]:
    """Return in one line what became of earlier retries of a group, how to repair it, or what it concerns."""
    if notes.hint or notes.retried:
        retried = f"{notes.retried}  " if notes.retried else ""
        repair = (("repair ", "muted"), (notes.hint, "accent")) if notes.hint else ()
        return [(("retried ", "muted") if retried else ("", "muted"), (retried, "warn"), *repair)]
    types = ", ".join(name for name, _ in info.types[:3])
    return [(("type ", "muted"), (types, "text"), ("  queue ", "muted"), (", ".join(info.queues[:3]), "text"))]


def job_brief(job: Job, moment: Moment, width: int) -> list[Line]:
    """Return a job's queue, tries and times in one line."""
    tries = f"  {job.retry_count}/{job.max_retries} retries  "
    return [(("queue ", "muted"), (safe(job.queue, NAME), "text"), (tries, "muted"), (_times(job, moment), "text"))]


def _times(job: Job, moment: Moment) -> str:
    parts = [f"enqueued {_when(job.created_at, moment)}"]
    if job.started_at:
        parts.append(f"started {_when(job.started_at, moment)}")
    if job.completed_at:
        ran = humanize.duration(humanize.seconds_between(job.started_at, job.completed_at))
        parts.append(f"ended {_when(job.completed_at, moment)}" + (f" after {ran}" if ran else ""))
    elif job.run_at > moment.now:
        parts.append(f"due {_when(job.run_at, moment)}")
    return ", ".join(parts)


def _when(at: datetime, moment: Moment) -> str:
    return humanize.moment_of(at, moment.now)


def _labelled(label: str, text: str, width: int, tone: str = "text") -> list[Line]:
    first: Spans = ((f"{label:<{LABEL}}", "muted"),)
    rest: Spans = ((" " * LABEL, "text"),)
    return [(*(rest if number else first), (part, tone)) for number, part in enumerate(wrap(text, width - LABEL))]
