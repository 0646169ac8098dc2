"""The columns of schedules and of their ticks."""

from __future__ import annotations

from jobconsole.core import humanize
from jobconsole.core.columns import Column, Moment, Spans, state
from jobconsole.core.timetable import ScheduleLine, TickLine, moment_at
from queue_core.states import Status

STATE_TONES = {"open": "good", "paused": "warn", "late": "bad"}


def state_spans(word: str, moment: Moment) -> Spans:
    """Return glyph and word of a schedule's state in its tone."""
    glyphs = moment.glyphs
    glyph = {"open": glyphs.dot, "paused": glyphs.pause, "late": glyphs.alert}[word]
    return ((f"{glyph} {word}", STATE_TONES[word]),)


def until(seconds: float) -> str:
    """Return how long until something: in 4s, in 12m, in 3h; now."""
    age = humanize.age(max(0.0, seconds))
    return age if age == "now" else f"in {age}"


def _next(line: ScheduleLine, moment: Moment) -> Spans:
    if line.planned.paused:
        return (("-", "faint"),)
    left = line.planned.next_tick - moment.now.timestamp()
    late = line.state(moment.now) == "late"
    return ((f"due {humanize.age(-left)}", "bad"),) if late else ((until(left), "strong"),)


def _last(line: ScheduleLine, moment: Moment) -> Spans:
    if line.planned.last_tick is None:
        return (("never", "faint"),)
    seconds = humanize.seconds_between(moment_at(line.planned.last_tick), moment.now)
    # A tick without a job is worth a look.
    return ((humanize.age(seconds), "muted" if line.planned.last_job else "warn"),)


SCHEDULES: tuple[Column[ScheduleLine], ...] = (
    Column("SCHEDULE", 16, lambda line, moment: ((line.label, "strong"),), flex=True),
    Column("STATE", 8, lambda line, moment: state_spans(line.state(moment.now), moment)),
    Column("NEXT", 7, _next, right=True),
    Column("LAST", 5, _last, right=True, need=1),
    Column("CRON", 14, lambda line, moment: ((line.cron, "accent"),)),
    Column("ZONE", 16, lambda line, moment: ((line.zone, "muted"),), need=4),
    Column("TYPE", 14, lambda line, moment: ((line.type, "text"),), need=2),
    Column("QUEUE", 10, lambda line, moment: ((line.queue, "muted"),), need=3),
)


def _became(line: TickLine, moment: Moment) -> Spans:
    if line.job is not None:
        return state(line.job.status, moment)
    return (("no job", "warn"),) if line.tick.job_id is None else (("not kept", "faint"),)


def _why(line: TickLine, moment: Moment) -> Spans:
    if line.tick.job_id is None:
        return (("its queue was full, or a hook refused it", "muted"),)
    if line.job is None:
        return (("removed with the history", "faint"),)
    if line.job.status is Status.COMPLETED:
        ran = humanize.seconds_between(line.job.started_at, line.job.completed_at or line.job.updated_at)
        return ((f"after {humanize.duration(ran)}" if ran is not None else "", "muted"),)
    return ((line.job.error or line.job.message, "text"),)


def _time(line: TickLine, moment: Moment) -> Spans:
    return ((humanize.moment_of(moment_at(line.tick.tick), moment.now), "muted"),)


def _id(line: TickLine, moment: Moment) -> Spans:
    job_id = line.tick.job_id or ""
    return ((f"{job_id[:8]}{moment.glyphs.ellipsis}{job_id[-4:]}" if job_id else "", "faint"),)


TICKS: tuple[Column[TickLine], ...] = (
    Column("TICK", 16, _time),
    Column("JOB", 11, _became),
    Column("WHAT CAME OF IT", 16, _why, flex=True),
    Column("ID", 13, _id, need=1),
)
