"""Schedules in Redis: each has its queue's hash tag, so that one script fires a tick and inserts its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from queue_core.errors import StoreUnavailable
from queue_core.model.job import Inserted, NewJob
from queue_core.model.rules import Rules
from queue_core.model.schedule import Announcement, PassedTick, Planned, Planning, Schedule, Tick
from queue_core.model.settings import RedisSettings
from queue_core.redis.scripts import Call
from queue_core.stores.redis.capacity import check_room
from queue_core.stores.redis.delivery import TICKS
from queue_core.stores.redis.insert import ROOM_TRIES, RedisInserts, check_open, inserted
from queue_core.stores.redis.session import RedisLink, microseconds


class RedisSchedules:
    """See queue_core.ports.schedules.ScheduleStore for what each method does."""

    def __init__(self, settings: RedisSettings, rules: Rules | None = None) -> None:
        self._link = RedisLink(settings)
        self._rules = rules or {}
        self._inserter = RedisInserts(self._link, self._rules)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._link.close()

    async def announce(self, announcements: Sequence[Announcement]) -> None:
        """Write schedules, each in the place of the one of its name."""
        homes = await self._homes()
        for schedule, next_tick in announcements:
            name, queue = schedule.name, schedule.queue
            home = homes.get(name, queue)
            if home != queue:
                await self._move(name, home, queue)
            fields = (schedule.cron, schedule.tz, schedule.type, schedule.payload, schedule.priority)
            args = [name, *fields, schedule.max_retries, schedule.ordering_key or "", _us(next_tick)]
            await self._link.run("schedule_write", self._keys(queue, name)[:2], args)
            commands = self._link.batch()
            commands.hset(self._link.keys.schedules, name, queue)
            await self._link.send(commands)
        if announcements:
            await self._notify()

    async def _move(self, name: str, home: str, queue: str) -> None:
        """Take a schedule to another queue. Meanwhile it is in neither, so that no tick can pass in both."""
        fields, passed = await self._link.run("schedule_take", self._keys(home, name), [name])
        if not fields:
            return
        schedule, _, ticks = self._keys(queue, name)
        commands = self._link.batch()
        commands.hset(schedule, mapping=dict(zip(fields[::2], fields[1::2], strict=True)))
        if passed:
            commands.zadd(ticks, {member: member.partition(" ")[0] for member in passed})
        await self._link.send(commands)

    async def planning(self) -> Planning:
        homes = await self._homes()
        commands = self._link.batch()
        for name, queue in homes.items():
            commands.hgetall(self._keys(queue, name)[0])
        commands.time()
        *found, time = await self._link.send(commands)
        planned = [
            _planned(name, queue, fields) for (name, queue), fields in zip(homes.items(), found, strict=True) if fields
        ]
        return Planning(microseconds(time) / 1e6, tuple(planned))

    async def until_tick(self) -> float | None:
        """Return the seconds until the next tick of a schedule that is not paused."""
        tick = await first_tick(self._link)
        if tick is None:
            return None
        commands = self._link.batch()
        commands.time()
        (time,) = await self._link.send(commands)
        return (tick - microseconds(time)) / 1e6

    async def fire(self, tick: Tick) -> Inserted | None:
        """Record a tick and insert its job, unless another process was first.

        Raises:
            QueueFull, QueueClosed: the queue refuses the job; the tick has passed without it.
        """
        queue = (await self._homes()).get(tick.schedule)
        if queue is None:
            return None
        keys, args = self._keys(queue, tick.schedule), [tick.schedule, _us(tick.due), _us(tick.following)]
        if tick.job is None:
            await self._link.run("schedule_fire", keys, [*args, ""])
            return None
        return await self._fire(tick.job._replace(queue=queue), keys, args)

    async def _fire(self, job: NewJob, keys: Sequence[str], args: Sequence[Any]) -> Inserted | None:
        await self._inserter.name_queues({job.queue})
        for _ in range(ROOM_TRIES):
            check = self._inserter.check_capacity({job.queue: [job]})
            _, insert_keys, insert_args = self._inserter.call(job.queue, [job], check, [job.queue])
            call = Call("schedule_fire", [*keys, *insert_keys], [*args, job.id, *insert_args])
            *found_room, answers = await self._link.run_many([*check.calls, call], together=bool(check.calls))
            if answers is None:
                return None
            check_room(self._rules, check, found_room)
            check_open([job.queue], answers[0], answers[1:])
            if answers[0] == 0:
                await self._inserter.name(job.queue)
            if answers[0] != "ask":
                return inserted(job, answers[1])
        raise StoreUnavailable("redis", "it forgets its scripts all the time")

    async def pause(self, name: str) -> bool:
        """Let no tick of a schedule bring a job."""
        return await self._switch(name, "")

    async def resume(self, name: str, next_tick: float) -> bool:
        """Let a paused schedule tick again, next at this time."""
        return await self._switch(name, _us(next_tick))

    async def _switch(self, name: str, next_tick: str) -> bool:
        queue = (await self._homes()).get(name)
        if queue is None:
            return False
        done = await self._link.run("schedule_switch", self._keys(queue, name)[:2], [name, next_tick])
        await self._notify()
        return bool(done)

    async def remove(self, name: str) -> bool:
        """Forget a schedule and its ticks."""
        queue = (await self._homes()).get(name)
        if queue is None:
            return False
        fields, _ = await self._link.run("schedule_take", self._keys(queue, name), [name])
        commands = self._link.batch()
        commands.hdel(self._link.keys.schedules, name)
        await self._link.send(commands)
        return bool(fields)

    async def ticks(self, name: str, limit: int) -> list[PassedTick]:
        """Return the ticks that have passed, the newest first."""
        queue = (await self._homes()).get(name)
        if queue is None or limit <= 0:
            return []
        commands = self._link.batch()
        commands.zrange(self._keys(queue, name)[2], 0, limit - 1, desc=True)
        (members,) = await self._link.send(commands)
        parts = [member.partition(" ") for member in members]
        return [PassedTick(int(tick) / 1e6, job_id or None) for tick, _, job_id in parts]

    async def _homes(self) -> dict[str, str]:
        """Return the queue of each schedule, by name."""
        return await schedule_homes(self._link)

    async def _notify(self) -> None:
        """Notify the leader to read the ticks."""
        commands = self._link.batch()
        commands.publish(self._link.keys.notifications, TICKS)
        with suppress(StoreUnavailable):  # it finds them a little later
            await self._link.send(commands)

    def _keys(self, queue: str, name: str) -> list[str]:
        return schedule_keys(self._link, queue, name)


async def schedule_homes(link: RedisLink) -> dict[str, str]:
    """Return the queue of each schedule, by name."""
    commands = link.batch()
    commands.hgetall(link.keys.schedules)
    (homes,) = await link.send(commands)
    return dict(sorted(homes.items()))


async def first_tick(link: RedisLink) -> float | None:
    """Return the next tick of all schedules that are not paused, in microseconds."""
    queues = set((await schedule_homes(link)).values())
    commands = link.batch()
    for queue in queues:
        commands.zrange(link.keys.of(queue, "ticks"), 0, 0, withscores=True)
    found = await link.send(commands) if queues else []
    return min((tick for entries in found for _, tick in entries), default=None)


def schedule_keys(link: RedisLink, queue: str, name: str) -> list[str]:
    """Return the keys of a schedule: its hash, the queue's next ticks, its ticks that have passed."""
    return link.of(queue, (f"schedule:{name}", "ticks", f"fired:{name}"))


def _planned(name: str, queue: str, fields: Mapping[str, str]) -> Planned:
    cron, tz, type_, payload = (fields[field] for field in ("cron", "tz", "type", "payload"))
    numbers = int(fields["priority"]), int(fields["max_retries"])
    schedule = Schedule(name, cron, tz, type_, payload, queue, *numbers, fields["ordering_key"] or None)
    last = fields.get("last")
    return Planned(
        schedule,
        int(fields["next"]) / 1e6,
        "paused" in fields,
        None if last is None else int(last) / 1e6,
        fields.get("last_job") or None,
    )


def _us(seconds: float) -> str:
    return str(round(seconds * 1e6))
