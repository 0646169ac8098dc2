"""Schedules in PostgreSQL: a tick and its job are written in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queue_core.errors import QueueClosed, QueueFull
from queue_core.model.job import Inserted
from queue_core.model.schedule import Announcement, PassedTick, Planned, Planning, Schedule, Tick
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.dialect import plain_array, text_array
from queue_core.stores.postgres.session.bounds import LOCK_TIMEOUT_MS, Connection
from queue_core.stores.postgres.session.plans import Plan
from queue_core.stores.postgres.session.pool import ConnectionPool
from queue_core.stores.postgres.store import PostgresStore

LOCK_TIMEOUT = LOCK_TIMEOUT_MS / 1000
"""Seconds that a tick waits for a key or a limit that another transaction has taken: the leader has more to do, and a
frozen process has lost its locks by then."""


class PostgresSchedules:
    """See queue_core.ports.schedules.ScheduleStore for what each method does; connects when it is first used."""

    def __init__(self, settings: PostgresSettings, store: PostgresStore) -> None:
        self._pool = ConnectionPool(settings)
        self._store = store

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._pool.close()

    async def announce(self, announcements: Sequence[Announcement]) -> None:
        """Write schedules, each in the place of the one of its name."""
        # One statement writes no row twice.
        announcements = list({one.schedule.name: one for one in announcements}.values())
        schedules = [schedule for schedule, _ in announcements]
        params: dict[str, Any] = {
            name: text_array([getattr(schedule, name) for schedule in schedules])
            for name in ("name", "cron", "tz", "type", "payload", "queue", "ordering_key")
        }
        for name in ("priority", "max_retries"):
            params[name] = plain_array([getattr(schedule, name) for schedule in schedules])
        params["next_tick"] = plain_array([next_tick for _, next_tick in announcements])
        await self._pool.change("schedules/announce", params=params)

    async def planning(self) -> Planning:
        rows = await self._pool.rows("schedules/list")
        return Planning(rows[0][0], tuple(_planned(row[1:]) for row in rows if row[1] is not None))

    async def until_tick(self) -> float | None:
        """Return the seconds until the next tick of a schedule that is not paused."""
        seconds: float | None = (await self._pool.rows("schedules/next"))[0][0]
        return seconds

    async def fire(self, tick: Tick) -> Inserted | None:
        """Record a tick and insert its job, unless another process was first."""
        try:
            return await self._fire(tick)
        except (QueueFull, QueueClosed):
            await self._fire(tick._replace(job=None))
            raise

    async def _fire(self, tick: Tick) -> Inserted | None:
        passing = {
            "name": tick.schedule,
            "due": tick.due,
            "following": tick.following,
            "job_id": None if tick.job is None else tick.job.id,
        }

        jobs = [] if tick.job is None else [tick.job]
        queue_ids = await self._store.inserter.prepare(jobs)

        async def run(connection: Connection) -> Inserted | None:
            if not await self._pool.fetch(connection, "schedules/pass", passing):
                return None
            await self._pool.fetch(connection, "schedules/last", passing)
            return (await self._store.inserter.write_on(connection, jobs, queue_ids))[0] if jobs else None

        return await self._pool.transact(run, LOCK_TIMEOUT)

    async def pause(self, name: str) -> bool:
        """Let no tick of a schedule bring a job."""
        return bool(await self._pool.rows("schedules/pause", {"name": name}))

    async def resume(self, name: str, next_tick: float) -> bool:
        """Let a paused schedule tick again, next at this time."""
        return bool(await self._pool.rows("schedules/resume", {"name": name, "next_tick": next_tick}))

    async def remove(self, name: str) -> bool:
        """Forget a schedule and its ticks."""
        return bool(await self._pool.rows("schedules/remove", {"name": name}))

    async def ticks(self, name: str, limit: int) -> list[PassedTick]:
        """Return the ticks that have passed, the newest first."""
        rows = await self._pool.rows("schedules/ticks", {"name": name, "limit": max(limit, 0)})
        return [PassedTick(*row) for row in rows]


def _planned(row: tuple[Any, ...]) -> Planned:
    *schedule, next_tick, paused, last_tick, last_job = row
    return Planned(Schedule(*schedule), next_tick, paused, last_tick, last_job)


def rehearse_schedule(name: str) -> Plan[None]:
    """Run every change of a schedule, in a transaction that is rolled back."""
    texts = {column: text_array([name]) for column in ("name", "cron", "tz", "type", "payload", "queue")}
    numbers = {"priority": plain_array([5]), "max_retries": plain_array([0]), "next_tick": plain_array([0.0])}
    yield "schedules/announce", {**texts, **numbers, "ordering_key": text_array([None])}
    yield "schedules/pause", {"name": name}
    yield "schedules/resume", {"name": name, "next_tick": 0.0}
    yield "schedules/remove", {"name": name}
