"""Schedules as a screen shows them: which are open, late or paused, when each ticks, the jobs of past ticks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobconsole.core.rows import LONGEST_NAME, JobLine
from queue_core.errors import ConfigurationError
from queue_core.model.filters import Filter, Term, contains, payload_holds
from queue_core.model.schedule import PassedTick, Planned, Schedule
from queue_core.model.text import safe

LATE_SECONDS = 10.0
"""Seconds after which a tick that has not passed is late: no worker processes schedules."""
FIELDS = ("type", "queue", "priority", "retries")
"""What a filter can ask of a schedule, beside words and payload.<path>."""
STATES = ("late", "open", "paused")


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """One schedule as a list shows it, its texts harmless."""

    planned: Planned
    label: str
    type: str
    queue: str
    cron: str
    zone: str

    @property
    def name(self) -> str:
        """As the store knows it: what verbs use, and a cursor holds on to."""
        return self.planned.schedule.name

    def state(self, now: datetime) -> str:
        """Return open, paused or late."""
        return state_of(self.planned, now.timestamp())


@dataclass(frozen=True, slots=True)
class TickLine:
    """A tick that has passed, with the job that it enqueued."""

    tick: PassedTick
    # None: without a job, or it is not kept any more
    job: JobLine | None

    @property
    def key(self) -> str:
        """What a cursor holds on to: a tick passes once."""
        return repr(self.tick.tick)


def schedule_line(planned: Planned) -> ScheduleLine:
    """Return the schedule as a list shows it."""
    one = planned.schedule
    texts = (safe(text, LONGEST_NAME) for text in (one.name, one.type, one.queue, one.cron, one.tz))
    return ScheduleLine(planned, *texts)


def state_of(planned: Planned, now: float) -> str:
    """Return open, paused, or late: due and not passed. `now`: seconds since the epoch by the store's clock."""
    if planned.paused:
        return "paused"
    return "late" if now - planned.next_at > LATE_SECONDS else "open"


def coming_ticks(planned: Planned, now: float, number: int = 5) -> tuple[list[float], str]:
    """Return the next ticks in seconds since the epoch, and why there are no more; those of a paused one as if resumed.

    A due tick that has not passed is first: it passes as soon as a worker looks.
    """
    from queue_core.model.schedule import next_tick

    one = planned.schedule
    ticks = [] if planned.paused else [planned.next_at]
    try:
        while len(ticks) < number:
            ticks.append(next_tick(one.cron, one.tz, max([now, *ticks[-1:]])))
    except ConfigurationError as error:
        return ticks, str(error)
    return ticks, ""


def moment_at(seconds: float | None) -> datetime | None:
    """Return a moment in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def payload_of(schedule: Schedule) -> Any:
    """Return the payload; None where it is no JSON."""
    try:
        return json.loads(schedule.payload)
    except ValueError:
        return None


# -- orders and filters

ORDERS: tuple[tuple[str, Callable[[ScheduleLine], tuple[float | str, ...]]], ...] = (
    ("name", lambda line: (line.name,)),
    ("next tick", lambda line: (float(line.planned.paused), line.planned.next_at, line.name)),
    ("last tick", lambda line: (-(line.planned.last_at or 0.0), line.name)),
)
"""What schedules can be sorted by."""


def unknown(where: Filter) -> str:
    """Return the field of a filter that schedules do not have; "" when they have all."""
    names = (term.field for term in where.terms)
    return next((name for name in names if name not in (*FIELDS, "word") and not name.startswith("payload.")), "")


def matching(lines: Iterable[ScheduleLine], where: Filter, now: datetime) -> Sequence[ScheduleLine]:
    """Return the schedules that meet all terms; what they do not have matches nothing."""
    return [line for line in lines if all(_holds(line, term, now) is not term.negated for term in where.terms)]


def _holds(line: ScheduleLine, term: Term, now: datetime) -> bool:
    one = line.planned.schedule
    if term.field == "word":
        words = (one.name, one.type, one.queue, one.cron, one.tz, one.payload, line.state(now))
        return any(contains(word, term.value) for word in words)
    if term.field in {"type", "queue"}:
        found: str = getattr(one, term.field)
        return contains(found, term.value) if term.operator == "~" else found == term.value
    if term.field in {"priority", "retries"}:
        return _compares(one.priority if term.field == "priority" else one.max_retries, term)
    head, _, path = term.field.partition(".")
    return head == "payload" and payload_holds(payload_of(one), path, term)


def _compares(number: int, term: Term) -> bool:
    wanted = int(term.value)
    return number < wanted if term.operator == "<" else number > wanted if term.operator == ">" else number == wanted
