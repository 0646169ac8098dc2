"""Schedules in memory: the reference that every other store is compared with."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace

from queue_core.errors import QueueClosed, QueueFull
from queue_core.model.job import Inserted
from queue_core.model.schedule import Announcement, PassedTick, Planned, Planning, Tick
from queue_core.stores.memory.records import ScheduleRow
from queue_core.stores.memory.store import MemoryStore


class MemorySchedules:
    """See queue_core.ports.schedules.ScheduleStore for what each method does."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._state = store.state
        self._rows = store.state.schedules

    async def close(self) -> None:
        """The schedules stay until the store itself goes."""

    async def announce(self, announcements: Sequence[Announcement]) -> None:
        """Write schedules, each in the place of the one of its name."""
        with self._state.lock:
            for schedule, next_tick in announcements:
                row = self._rows.get(schedule.name)
                if row is None:
                    self._rows[schedule.name] = ScheduleRow(Planned(schedule, next_tick))
                    continue
                before = row.planned.schedule
                same = (before.cron, before.tz, before.type) == (schedule.cron, schedule.tz, schedule.type)
                kept = row.planned.next_at if same else next_tick
                row.planned = replace(row.planned, schedule=schedule, next_at=kept)

    async def planning(self) -> Planning:
        with self._state.lock:
            planned = tuple(self._rows[name].planned for name in sorted(self._rows))
            return Planning(self._state.clock.now(), planned)

    async def until_tick(self) -> float | None:
        """Return the seconds until the next tick of a schedule that is not paused."""
        with self._state.lock:
            times = [row.planned.next_at for row in self._rows.values() if not row.planned.paused]
            return min(times) - self._state.clock.now() if times else None

    async def fire(self, tick: Tick) -> Inserted | None:
        """Record a tick and insert its job, unless another caller was first."""
        with self._state.lock:
            row = self._rows.get(tick.schedule)
            if row is None or row.planned.paused or row.planned.next_at != tick.due:
                return None
            if any(passed.at == tick.due for passed in row.ticks):
                row.planned = replace(row.planned, next_at=tick.following)
                return None
            try:
                inserted = None if tick.job is None else self._store.write([tick.job])[0]
            except (QueueFull, QueueClosed):
                _pass(row, tick, None)
                raise
            _pass(row, tick, None if inserted is None else inserted.id)
            return inserted

    async def pause(self, name: str) -> bool:
        """Let no tick of a schedule bring a job."""
        with self._state.lock:
            row = self._rows.get(name)
            if row is None or row.planned.paused:
                return False
            row.planned = replace(row.planned, paused=True)
            return True

    async def resume(self, name: str, next_tick: float) -> bool:
        """Let a paused schedule tick again, next at this time."""
        with self._state.lock:
            row = self._rows.get(name)
            if row is None or not row.planned.paused:
                return False
            row.planned = replace(row.planned, paused=False, next_at=next_tick)
            return True

    async def remove(self, name: str) -> bool:
        """Forget a schedule and its ticks."""
        with self._state.lock:
            return self._rows.pop(name, None) is not None

    async def ticks(self, name: str, limit: int) -> list[PassedTick]:
        """Return the ticks that have passed, the newest first."""
        with self._state.lock:
            row = self._rows.get(name)
            return [] if row is None else row.ticks[::-1][: max(limit, 0)]


def _pass(row: ScheduleRow, tick: Tick, job_id: str | None) -> None:
    row.planned = replace(row.planned, next_at=tick.following, last_at=tick.due, last_job=job_id)
    insort(row.ticks, PassedTick(tick.due, job_id), key=lambda passed: passed.at)
