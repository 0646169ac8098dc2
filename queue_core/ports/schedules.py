"""The store of schedules and their ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from queue_core.model.job import Inserted
from queue_core.model.schedule import Announcement, PassedTick, Planning, Tick


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
