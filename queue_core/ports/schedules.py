"""The store of schedules and their ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from queue_core.model.job import Inserted
from queue_core.model.schedule import Announcement, PassedTick, Planning, Tick


class ScheduleStore(Protocol):
    """The schedules of a store; every method raises `StoreUnavailable` when the store cannot be reached."""

    async def announce(self, announcements: Sequence[Announcement]) -> None:
        """Insert or replace schedules by name; a paused one stays paused.

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
        """Record a tick and insert its job, atomically; return None without a job, or when another process was first.

        A tick is recorded once: when clocks or definitions move back over its time, no second job is inserted.
        Nothing happens when the schedule is paused or removed.

        Raises:
            QueueFull, QueueClosed: the tick is recorded without its job.
            LockHeld: nothing was recorded; it is still due.
        """
        ...

    async def pause(self, name: str) -> bool:
        """Pause a schedule: its ticks insert no job; return False when it was paused or no schedule has this name."""
        ...

    async def resume(self, name: str, next_tick: float) -> bool:
        """Resume a paused schedule, with its next tick at this time; return False when it was not paused."""
        ...

    async def remove(self, name: str) -> bool:
        """Delete a schedule and its ticks; return False when no schedule has this name."""
        ...

    async def ticks(self, name: str, limit: int) -> list[PassedTick]:
        """Return recorded ticks, newest first; they are kept as long as completed jobs are."""
        ...

    async def close(self) -> None:
        """Disconnect; idempotent."""
        ...
