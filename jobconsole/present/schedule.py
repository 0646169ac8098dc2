"""A schedule, drawn: when it ticks, by the store's clock and by its own zone, and which job it enqueues."""

from __future__ import annotations

from datetime import datetime

from jobconsole.core.schedules import ScheduleLine, TickLine, coming_ticks, moment_at, payload_of
from jobconsole.format import humanize
from jobconsole.format.spans import LABEL, Line, RenderContext, Spans, labelled, wrap
from jobconsole.present.columns import state
from jobconsole.present.facts import Facts, but, of_schedule, only
from jobconsole.present.job import json_lines
from jobconsole.present.layout import Column, fact_lines
from queue_core.model.states import Status

STATE_TONES = {"open": "good", "paused": "warn", "late": "bad"}


def state_spans(word: str, context: RenderContext) -> Spans:
    """Return glyph and word of a schedule's state in its tone."""
    glyphs = context.glyphs
    glyph = {"open": glyphs.dot, "paused": glyphs.pause, "late": glyphs.alert}[word]
    return ((f"{glyph} {word}", STATE_TONES[word]),)


def until(seconds: float) -> str:
    """Return how long until something: in 4s, in 12m, in 3h; now."""
    left = humanize.remaining(seconds)
    return left if left == "now" else f"in {left}"


def _next(line: ScheduleLine, context: RenderContext) -> Spans:
    if line.planned.paused:
        return (("-", "faint"),)
    left = line.planned.next_at - context.now.timestamp()
    late = line.state(context.now) == "late"
    return ((f"due {humanize.age(-left)}", "bad"),) if late else ((until(left), "strong"),)


def _last_cell(line: ScheduleLine, context: RenderContext) -> Spans:
    if line.planned.last_at is None:
        return (("never", "faint"),)
    seconds = humanize.seconds_between(moment_at(line.planned.last_at), context.now)
    # A tick without a job is worth a look.
    return ((humanize.age(seconds), "muted" if line.planned.last_job else "warn"),)


SCHEDULES: tuple[Column[ScheduleLine], ...] = (
    Column("SCHEDULE", 16, lambda line, context: ((line.label, "strong"),), flex=True),
    Column("STATE", 8, lambda line, context: state_spans(line.state(context.now), context)),
    Column("NEXT", 7, _next, right=True),
    Column("LAST", 5, _last_cell, right=True, need=3),
    Column("CRON", 14, lambda line, context: ((line.cron, "accent"),), need=2),
    Column("ZONE", 16, lambda line, context: ((line.zone, "muted"),), need=6),
    Column("TYPE", 14, lambda line, context: ((line.type, "text"),), need=4),
    Column("QUEUE", 10, lambda line, context: ((line.queue, "muted"),), need=5),
)


def _became(line: TickLine, context: RenderContext) -> Spans:
    if line.job is not None:
        return state(line.job.status, context)
    return (("no job", "warn"),) if line.tick.job_id is None else (("not kept", "faint"),)


def _why(line: TickLine, context: RenderContext) -> Spans:
    if line.tick.job_id is None:
        return (("its queue was full, or a hook refused it", "muted"),)
    if line.job is None:
        return (("removed with the history", "faint"),)
    if line.job.status is Status.COMPLETED:
        ran = humanize.seconds_between(line.job.started_at, line.job.completed_at or line.job.updated_at)
        return ((f"after {humanize.duration(ran)}" if ran is not None else "", "muted"),)
    return ((line.job.error or line.job.message, "text"),)


def _time(line: TickLine, context: RenderContext) -> Spans:
    return ((humanize.moment_of(moment_at(line.tick.at), context.now), "muted"),)


def _id(line: TickLine, context: RenderContext) -> Spans:
    job_id = line.tick.job_id or ""
    return ((f"{job_id[:8]}{context.glyphs.ellipsis}{job_id[-4:]}" if job_id else "", "faint"),)


TICKS: tuple[Column[TickLine], ...] = (
    Column("TICK", 16, _time),
    Column("JOB", 11, _became),
    Column("OUTCOME", 16, _why, flex=True),
    Column("ID", 13, _id, need=2),
)


NO_WORKER = "its tick is due and has not passed: no worker is running schedules"
PAUSED = "P lets it tick again; ticks that fall into the pause bring no job"


def schedule_lines(line: ScheduleLine, context: RenderContext, width: int) -> list[Line]:
    """Return everything that is known about a schedule but the jobs that it brought."""
    one = line.planned.schedule
    facts = but(_facts(line, context), "name", "state", "next")
    lines = [*_head(line, context, width), (), *tick_lines(line, context, width), *fact_lines(facts, context, width)]
    return [*lines, (), (("payload", "muted"),), *json_lines(payload_of(one), one.payload, width)]


def brief_lines(line: ScheduleLine, context: RenderContext, width: int, height: int) -> list[Line]:
    """Return the heart of the matter in a few lines."""
    last = only(_facts(line, context), "last", "last job")
    return [*tick_lines(line, context, width), *fact_lines(last, context, width)][:height]


def _facts(line: ScheduleLine, context: RenderContext) -> Facts:
    return of_schedule(line.planned, context.now.timestamp())


def tick_lines(line: ScheduleLine, context: RenderContext, width: int) -> list[Line]:
    """Return the next ticks, one a line: in UTC, how long until then, and by the clocks of the schedule's zone."""
    now = context.now.timestamp()
    ticks, problem = coming_ticks(line.planned, now)
    label = "if resumed" if line.planned.paused else "next"
    tone = "faint" if line.planned.paused else "text"
    lines: list[Line] = []
    for number, tick in enumerate(ticks):
        at = moment_at(tick)
        assert at is not None
        left = f"due {humanize.age(now - tick)}" if tick < now else until(tick - now)
        lines.append(
            (
                (f"{'' if number else label:<{LABEL}}", "muted"),
                (f"{at:%Y-%m-%d %H:%M:%S} UTC ", tone),
                (f"{left:>8}", "bad" if tick < now and line.state(context.now) == "late" else "muted"),
                ("" if problem else _there(at, line), "faint" if line.planned.paused else "accent"),
            )
        )
    return [*lines, *labelled([("" if ticks else label, problem, "warn")], width)] if problem else lines


def _there(at: datetime, line: ScheduleLine) -> str:
    """Return a moment by the clocks of the schedule's zone, where those are not UTC's."""
    zone = line.planned.schedule.tz
    if zone.upper() == "UTC":
        return ""
    from zoneinfo import ZoneInfo

    return f"  {at.astimezone(ZoneInfo(zone)):%a %H:%M %Z}"


def _head(line: ScheduleLine, context: RenderContext, width: int) -> list[Line]:
    word = line.state(context.now)
    lines: list[Line] = [(*state_spans(word, context), ("  ", "text"), (line.label, "strong"))]
    text = {"late": NO_WORKER, "paused": PAUSED}.get(word, "")
    return [*lines, *(((part, "bad" if word == "late" else "muted"),) for part in wrap(text, width) if part)]
