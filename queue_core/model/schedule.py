"""Schedules: jobs that come whenever a cron expression is due, by the clocks of a time zone.

The store keeps each schedule with the time of its next tick. A process that finds it due moves it on and inserts the
job in one transaction: of several that try, one does it, so each tick makes one job, also after a crash.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from queue_core.errors import ConfigurationError
from queue_core.model.job import NewJob

if TYPE_CHECKING:
    from cronsim import CronSimError


# When a cron expression ticks next, by the clocks of a time zone.
#
# Expressions and the changes of the clocks are those of Debian's cron (the library cronsim): five fields, or six with
# the seconds in front. Where minute and hour are fixed ("30 2 * * *"), a time that the clocks leave out ticks at the
# first moment after the gap, and one that comes twice ticks the first time only; the library does that for five fields
# alone. Where the minute or the hour begins with * ("*/30 * * * *"), it ticks by the time that passes: not in the gap,
# and in both passes of an hour that comes twice.

MAX_EXPRESSION_LENGTH = 200
"""Characters of an expression."""


def check_cron(cron: object, tz: object, now: float) -> tuple[str, str]:
    """Return an expression with single spaces, and its zone, if they tick at all after this time.

    Raises:
        ConfigurationError: the expression cannot be read, never ticks, or there is no such zone.
    """
    if not isinstance(cron, str) or not cron.isprintable() or len(cron) > MAX_EXPRESSION_LENGTH:
        raise ConfigurationError(
            f"a cron expression is a text of at most {MAX_EXPRESSION_LENGTH} characters, not {cron!r:.220}"
        )
    if not isinstance(tz, str):
        raise ConfigurationError(f"tz is the name of a time zone, such as Europe/Paris, not {tz!r}")
    next_tick(cron, tz, now)
    return " ".join(cron.split()), tz


def next_tick(cron: str, tz: str, after: float) -> float:
    """Return the first tick after a time, in seconds since the epoch.

    Raises:
        ConfigurationError: as `check_cron`.
    """
    from cronsim import CronSim, CronSimError

    zone = _zone(tz)
    start = datetime.fromtimestamp(after, zone)
    minute_and_hour = cron.split()[-5:-3]
    fixed = not any(field.startswith("*") for field in minute_and_hour)
    try:
        for tick in CronSim(cron, start.replace(tzinfo=None) if fixed else start):
            at = _first_moment(tick, zone) if fixed else tick.timestamp()
            # In the second pass of an hour, what ticks in the first one only is given once more.
            if at > after:
                return at
    except CronSimError as error:
        raise ConfigurationError(f"the cron expression '{cron}' cannot be read: {_problem(error)}") from None
    raise ConfigurationError(f"the cron expression '{cron}' never ticks")


def _first_moment(local: datetime, zone: tzinfo) -> float:
    """Return when the clocks of a zone first show a time, or a later one if they leave it out."""
    while True:
        moment = local.replace(tzinfo=zone).timestamp()
        if datetime.fromtimestamp(moment, zone).replace(tzinfo=None) == local:
            return moment
        # Gaps end at a whole minute.
        local = local.replace(second=0) + timedelta(minutes=1)


def _problem(error: CronSimError) -> str:
    reason = str(error)
    if reason.startswith("Bad "):
        return f"its field {reason.removeprefix('Bad ')} is wrong"
    return "it has five fields (minute, hour, day of month, month, day of week), or six with the seconds in front"


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    # Wrong names are no keys, lead out of the folder, are folders of zones, or other files.
    except (KeyError, ValueError, OSError):
        raise ConfigurationError(_unknown(name)) from None


def _unknown(name: str) -> str:
    known = available_timezones()
    if not known:
        return f"the time zone '{name}' is not known, for this machine has no zones: install the package tzdata"
    near = difflib.get_close_matches(name, known, n=1)
    return f"there is no time zone {name!r}" + (f"; did you mean '{near[0]}'?" if near else "")


class Schedule(NamedTuple):
    """When which job comes; everything in it has been validated."""

    name: str
    # five fields, or six with the seconds in front
    cron: str
    # an IANA zone, such as Europe/Paris
    tz: str
    type: str
    # JSON object of parameter names, as text
    payload: str
    queue: str
    priority: int = 5
    max_retries: int = 3
    # that of its queue, where all jobs have one
    ordering_key: str | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule as the store has it; its times are by the store's clock."""

    schedule: Schedule
    # when it ticks next, in seconds since the epoch; without meaning while it is paused
    next_at: float
    paused: bool = False
    # the last tick that has passed, however late, in seconds since the epoch; None: none yet
    last_at: float | None = None
    # the job of that tick; None: its queue was full, or a hook refused it
    last_job: str | None = None

    @property
    def next_tick(self) -> datetime | None:
        """When it ticks next; None while it is paused."""
        return None if self.paused else datetime.fromtimestamp(self.next_at, UTC)

    @property
    def last_tick(self) -> datetime | None:
        """The last tick that has passed, however late; None: none yet."""
        return None if self.last_at is None else datetime.fromtimestamp(self.last_at, UTC)


class Planning(NamedTuple):
    """Every schedule, by name, as of one moment of the store's clock."""

    # seconds since the epoch
    now: float
    schedules: tuple[Planned, ...]


class Announcement(NamedTuple):
    """A schedule as a program has it."""

    schedule: Schedule
    # seconds since the epoch; counts unless the store knows the schedule with the same cron, tz and type
    next_tick: float


class Tick(NamedTuple):
    """A tick that is to pass. Times are seconds since the epoch."""

    schedule: str
    # what the store has as its next tick; when it has another one, this tick has passed already
    due: float
    # the next tick from now on
    following: float
    # None: the tick passes without a job
    job: NewJob | None


class PassedTick(NamedTuple):
    """A tick that has passed."""

    # seconds since the epoch
    at: float
    # None: without a job
    job_id: str | None

    @property
    def tick(self) -> datetime:
        """When it was due."""
        return datetime.fromtimestamp(self.at, UTC)
