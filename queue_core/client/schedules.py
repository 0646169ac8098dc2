"""Schedules for programs and operators: registered in code, written by workers, paused by operators."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Unpack

from queue_core.client.operating.guarded import Guarded
from queue_core.client.results import JobHandle
from queue_core.client.tasks import EnqueueArguments, EnqueueOptions, TaskRegistry
from queue_core.errors import ConfigurationError, InvalidArgument, ScheduleNotFound
from queue_core.model.codec import encode_payload
from queue_core.model.rules import Priority, PriorityName, parse_priority, rules_of
from queue_core.model.schedule import Announcement, PassedTick, Planned, Planning, Schedule, check_cron, next_tick
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import check_name, check_queue_name
from queue_core.ports.schedules import ScheduleStore


class Registered(NamedTuple):
    """A schedule as registered by a program; None values come from its task or from the defaults."""

    name: str
    cron: str
    tz: str
    type: str
    payload: Mapping[str, Any]
    queue: str | None
    priority: int | None


class Owner(Protocol):
    """The methods of a queue object that schedules need."""

    settings: JobsSettings
    tasks: TaskRegistry

    @property
    def schedule_store(self) -> ScheduleStore:
        """Return the store's schedules."""
        ...

    async def enqueue(
        self, type_: str, payload: Mapping[str, Any] | None = None, **options: Unpack[EnqueueArguments]
    ) -> JobHandle[Any]:
        """Enqueue a job by the name of its type."""
        ...


class Schedules(Guarded):
    """The schedules of a queue object: `add` registers one here, workers `announce` them, the rest is for operators.

    The operators' verbs act on every schedule of the store, regardless of which program announced it. A name that is
    no text raises `InvalidArgument`.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._registered: dict[str, Registered] = {}

    def add(
        self,
        name: str,
        cron: str,
        type_: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tz: str = "UTC",
        queue: str | None = None,
        priority: int | PriorityName | Priority | None = None,
    ) -> None:
        """Register a schedule; see `JobQueue.schedule`.

        Raises:
            ConfigurationError: the expression or the zone is wrong, or the name is taken.
            InvalidJob: its job would be invalid.
        """
        name = check_name(name, "the schedule's name")
        if name in self._registered:
            raise ConfigurationError(f"there is a schedule named '{name}' already; give one of them another name")
        cron, tz = check_cron(cron, tz, time.time())
        registered = Registered(
            name,
            cron,
            tz,
            check_name(type_, "the type's name"),
            {} if payload is None else payload,
            None if queue is None else check_queue_name(queue),
            None if priority is None else parse_priority(priority),
        )
        self._schedule(registered)  # raises errors now, not when a worker starts
        self._registered[name] = registered

    async def announce(self) -> None:
        """Write the registered schedules to the store. Workers do this when they start.

        Raises:
            InvalidJob: a payload does not fit a task that was registered after the schedule.
            StoreUnavailable: the store did not answer in time.
        """
        self._check("schedule announce")
        if not self._registered:
            return
        store = self._owner.schedule_store
        now = (await store.planning()).now
        schedules = [self._schedule(registered) for registered in self._registered.values()]
        await store.announce([Announcement(one, next_tick(one.cron, one.tz, now)) for one in schedules])

    def _schedule(self, registered: Registered) -> Schedule:
        """Return a registered schedule, completed with the present options of its task."""
        name, cron, tz, type_, payload, queue, priority = registered
        tasks, settings = self._owner.tasks, self._owner.settings
        known = tasks.get(type_).options if type_ in tasks else EnqueueOptions()
        (stored,) = tasks.dumped(type_, [payload])
        queue = (known.queue or "default") if queue is None else queue
        wanted = known.priority if priority is None else priority
        return Schedule(
            name,
            cron,
            tz,
            type_,
            encode_payload(stored, settings.limits.payload),
            queue,
            int(Priority.NORMAL) if wanted is None else parse_priority(wanted),
            settings.defaults.max_retries if known.max_retries is None else known.max_retries,
            rules_of(settings.rules, queue).key_of(None),
        )

    # -- for operators

    async def list(self) -> Planning:
        """Return every schedule of the store, by name, and the store's clock."""
        return await self._owner.schedule_store.planning()

    async def ticks(self, name: str, limit: int = 100) -> Sequence[PassedTick]:
        """Return the recorded ticks of a schedule, newest first, with the jobs that they inserted.

        Raises:
            ScheduleNotFound: no schedule has this name.
        """
        await self.get(name)
        return await self._owner.schedule_store.ticks(name, limit)

    async def get(self, name: str) -> Planned:
        """Return a schedule.

        Raises:
            ScheduleNotFound: no schedule has this name.
        """
        return _named(name, await self.list())

    async def pause(self, name: str) -> bool:
        """Pause a schedule: its ticks insert no job; return False when it was already paused.

        Raises:
            ScheduleNotFound: no schedule has this name.
        """
        self._check("schedule pause")
        await self.get(name)
        return await self._owner.schedule_store.pause(name)

    async def resume(self, name: str) -> bool:
        """Resume a schedule, with its next tick at the first time from now; return False when it was not paused.

        Raises:
            ScheduleNotFound: no schedule has this name.
            ConfigurationError: this machine does not know its time zone.
        """
        self._check("schedule resume")
        planning = await self.list()
        schedule = _named(name, planning).schedule
        return await self._owner.schedule_store.resume(name, next_tick(schedule.cron, schedule.tz, planning.now))

    async def trigger(self, name: str) -> JobHandle[Any]:
        """Enqueue the job of a schedule now, paused or not; its next tick stays as it is.

        Raises:
            ScheduleNotFound: no schedule has this name.
            InvalidJob: its payload does not fit the task that is registered here.
            QueueFull, StoreUnavailable: nothing was written.
        """
        self._check("schedule trigger")
        one = (await self.get(name)).schedule
        return await self._owner.enqueue(
            one.type, json.loads(one.payload), queue=one.queue, priority=one.priority, max_retries=one.max_retries
        )

    async def remove(self, name: str) -> None:
        """Delete a schedule; a worker that still registers it announces it again when it starts.

        Raises:
            ScheduleNotFound: no schedule has this name.
        """
        self._check("schedule remove")
        await self.get(name)
        await self._owner.schedule_store.remove(name)


def _named(name: object, planning: Planning) -> Planned:
    if not isinstance(name, str):
        raise InvalidArgument(f"a schedule's name is a text, not {name!r}")
    found = {planned.schedule.name: planned for planned in planning.schedules}
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        raise ScheduleNotFound(name, near[0] if near else None)
    return found[name]
