"""A schedule, drawn: when it ticks, by the store's clock and by its own zone, and which job it brings."""

from __future__ import annotations

from datetime import datetime

from jobconsole.core import humanize
from jobconsole.core.columns import Moment
from jobconsole.core.schedulecolumns import state_spans, until
from jobconsole.core.timetable import ScheduleLine, coming_ticks, moment_at, payload_of
from jobconsole.tui.drawing.facts import LABEL
from jobconsole.tui.drawing.payload import json_lines
from jobconsole.tui.drawing.spans import Line, wrap
from queue_core.text import safe

NO_WORKER = "its tick is due and has not passed: no worker that looks after schedules is running"
PAUSED = "P lets it tick again; ticks that fall into the pause bring no job"
NEVER = "it has not ticked yet"


def schedule_lines(line: ScheduleLine, moment: Moment, width: int) -> list[Line]:
    """Return everything that is known about a schedule but the jobs that it brought."""
    one = line.planned.schedule
    lines = [*_head(line, moment, width), (), *tick_lines(line, moment, width), *_last(line, moment, width), ()]
    lines += _labelled("cron", f"{line.cron}  in {line.zone}", width, "accent")
    lines += _labelled("job", f"{line.type} on queue {line.queue}", width)
    retries = humanize.plural(one.max_retries, "retry", "retries")
    lines += _labelled("options", f"priority {one.priority}, at most {retries}", width)
    if one.ordering_key:
        lines += _labelled("order", f"key {safe(one.ordering_key)}: one after the other", width)
    return [*lines, (), (("payload", "muted"),), *json_lines(payload_of(one), one.payload, width)]


def brief_lines(line: ScheduleLine, moment: Moment, width: int, height: int) -> list[Line]:
    """Return the heart of the matter in a few lines."""
    return [*tick_lines(line, moment, width), *_last(line, moment, width)][:height]


def tick_lines(line: ScheduleLine, moment: Moment, width: int) -> list[Line]:
    """Return the next ticks, one a line: in UTC, how long until then, and by the clocks of the schedule's zone."""
    now = moment.now.timestamp()
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
                (f"{'' if number else label:<{LABEL}} ", "muted"),
                (f"{at:%Y-%m-%d %H:%M:%S} UTC ", tone),
                (f"{left:>8}", "bad" if tick < now and line.state(moment.now) == "late" else "muted"),
                ("" if problem else _there(at, line), "faint" if line.planned.paused else "accent"),
            )
        )
    return [*lines, *_labelled("" if ticks else label, problem, width, "warn")] if problem else lines


def _there(at: datetime, line: ScheduleLine) -> str:
    """Return a moment by the clocks of the schedule's zone, where those are not UTC's."""
    zone = line.planned.schedule.tz
    if zone.upper() == "UTC":
        return ""
    from zoneinfo import ZoneInfo

    return f"  {at.astimezone(ZoneInfo(zone)):%a %H:%M %Z}"


def _head(line: ScheduleLine, moment: Moment, width: int) -> list[Line]:
    word = line.state(moment.now)
    lines: list[Line] = [(*state_spans(word, moment), ("  ", "text"), (line.label, "strong"))]
    said = {"late": NO_WORKER, "paused": PAUSED}.get(word, "")
    return [*lines, *(((part, "bad" if word == "late" else "muted"),) for part in wrap(said, width) if part)]


def _last(line: ScheduleLine, moment: Moment, width: int) -> list[Line]:
    at = moment_at(line.planned.last_tick)
    if at is None:
        return _labelled("last", NEVER, width, "muted")
    ago = f"{humanize.age(humanize.seconds_between(at, moment.now))} ago".replace("now ago", "just now")
    brought = "" if line.planned.last_job else ", without a job: its queue was full, or a hook refused it"
    text = f"{at:%Y-%m-%d %H:%M:%S} UTC, {ago}{brought}"
    return _labelled("last", text, width, "warn" if brought else "text")


def _labelled(label: str, text: str, width: int, tone: str = "text") -> list[Line]:
    parts = wrap(text, max(8, width - LABEL - 1))
    return [((f"{'' if number else label:<{LABEL}} ", "muted"), (part, tone)) for number, part in enumerate(parts)]
