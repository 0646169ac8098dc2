"""Schedules: jobs that come at times which a cron expression tells. The store's protocol and its records.

The store keeps each schedule with the time of its next tick. Whoever finds that time come moves it on and inserts the
job in one step, which succeeds for one of any number of schedulers. What time comes next, `queue_core.cron` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from queue_core.job import Inserted, NewJob


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
    """A schedule as the store has it. Times are seconds since the epoch by the store's clock."""

    schedule: Schedule
    # when it ticks next; without meaning while it is paused
    next_tick: float
    paused: bool = False
    # the last tick that has passed, however late; None: none yet
    last_tick: float | None = None
    # the job of that tick; None: its queue was full, or a hook refused it
    last_job: str | None = None


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
    tick: float
    # None: without a job
    job_id: str | None


class ScheduleStore(Protocol):
    """The schedules of a store; every method raises `StoreUnavailable` when the store cannot be reached."""

    async def announce(self, announcements: Sequence[Announcement]) -> None:
        """Write schedules, each in the place of the one of its name, which stays paused if it was.

        The next tick stays as it is, unless cron, tz or type have changed.
        """
        ...

    async def planning(self) -> Planning:
        """Return every schedule and the store's clock."""
        ...

    async def until_tick(self) -> float | None:
        """Return the seconds until the next tick of a schedule that is not paused, 0 or less when due, or None."""
        ...

    async def fire(self, tick: Tick) -> Inserted | None:
        """Let a tick pass and insert its job, both or neither; None: without a job, or somebody else was sooner.

        A tick passes once: of a time that has passed before, when clocks or definitions moved, no second job comes.
        Nothing happens when the schedule is paused or gone.

        Raises:
            QueueFull: the tick has passed without its job.
        """
        ...

    async def pause(self, name: str) -> bool:
        """Let no tick of a schedule bring a job; False when it was paused already, or there is none of this name."""
        ...

    async def resume(self, name: str, next_tick: float) -> bool:
        """Let a paused schedule tick again, next at this time; False when it was not paused."""
        ...

    async def remove(self, name: str) -> bool:
        """Forget a schedule and its ticks; False when there is none of this name."""
        ...

    async def ticks(self, name: str, limit: int) -> list[PassedTick]:
        """Return the ticks that have passed, the newest first; they are kept as long as completed jobs are."""
        ...

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        ...
