"""Schedules in the file: a tick and its job are written in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queue_core.errors import QueueClosed, QueueFull
from queue_core.model.job import Inserted
from queue_core.model.rules import Rules
from queue_core.model.schedule import Announcement, PassedTick, Planned, Planning, Schedule, Tick
from queue_core.stores.sqlite import insert
from queue_core.stores.sqlite.session import SqliteFile, Transaction


class SqliteSchedules:
    """See queue_core.ports.schedules.ScheduleStore for what each method does; what it changes is on the disk."""

    def __init__(self, file: SqliteFile, rules: Rules | None = None) -> None:
        self._file = file
        self._rules = rules or {}

    async def close(self) -> None:
        """The file is closed by the store."""

    async def announce(self, announcements: Sequence[Announcement]) -> None:
        """Write schedules, each in the place of the one of its name."""
        rows = [(*schedule, next_tick) for schedule, next_tick in announcements]
        await self._file.write(lambda transaction: transaction.run_many("schedules/announce", rows))

    async def planning(self) -> Planning:
        return await self._file.read(
            lambda transaction: Planning(transaction.now, tuple(map(_planned, transaction.rows("schedules/list"))))
        )

    async def until_tick(self) -> float | None:
        """Return the seconds until the next tick of a schedule that is not paused."""

        def read(transaction: Transaction) -> float | None:
            ((tick,),) = transaction.rows("schedules/next")
            return None if tick is None else tick - transaction.now

        return await self._file.read(read)

    async def fire(self, tick: Tick) -> Inserted | None:
        """Record a tick and insert its job, unless another process was first."""
        try:
            return await self._file.write(lambda transaction: _fire(transaction, tick, self._rules))
        except (QueueFull, QueueClosed):
            passing = tick._replace(job=None)
            await self._file.write(lambda transaction: _fire(transaction, passing, self._rules))
            raise

    async def pause(self, name: str) -> bool:
        """Let no tick of a schedule bring a job."""
        return await self._file.write(
            lambda transaction: transaction.run("schedules/pause", {"name": name, "now": transaction.now}) > 0
        )

    async def resume(self, name: str, next_tick: float) -> bool:
        """Let a paused schedule tick again, next at this time."""
        params = {"name": name, "next_tick": next_tick}
        return await self._file.write(lambda transaction: transaction.run("schedules/resume", params) > 0)

    async def remove(self, name: str) -> bool:
        """Forget a schedule and its ticks."""

        def remove(transaction: Transaction) -> bool:
            transaction.run("schedules/remove_ticks", (name,))
            return transaction.run("schedules/remove", (name,)) > 0

        return await self._file.write(remove)

    async def ticks(self, name: str, limit: int) -> list[PassedTick]:
        """Return the ticks that have passed, the newest first."""
        return await self._file.read(
            lambda transaction: [PassedTick(*row) for row in transaction.rows("schedules/ticks", (name, max(limit, 0)))]
        )


def _fire(transaction: Transaction, tick: Tick, rules: Rules) -> Inserted | None:
    passing = {"name": tick.schedule, "due": tick.due, "now": transaction.now}
    passing["job_id"] = None if tick.job is None else tick.job.id
    if not transaction.run("schedules/move", {**passing, "following": tick.following}):
        return None
    if not transaction.run("schedules/tick", passing):
        return None
    transaction.run("schedules/last", passing)
    return None if tick.job is None else insert.insert(transaction, [tick.job], rules)[0]


def _planned(row: tuple[Any, ...]) -> Planned:
    *schedule, next_tick, paused, last_tick, last_job = row
    return Planned(Schedule(*schedule), next_tick, bool(paused), last_tick, last_job)
