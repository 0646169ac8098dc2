"""Delivery by PostgreSQL alone: NOTIFY tells the workers of each process which queues to look into."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from typing import Any

from queue_core.delivery.hints import Hints
from queue_core.dispatch import DispatchUnavailable, Taken
from queue_core.errors import StoreUnavailable
from queue_core.job import Ready
from queue_core.settings import PostgresSettings
from queue_core.stores.postgres.listening import Notifications
from queue_core.stores.postgres.ranks import LAST, named, spell

GATHER = 0.02
"""Seconds for which further offers of a queue ride on the notification that was just sent: NOTIFY takes a global lock,
and a worker that was woken looks until nothing is left."""
LOOK = 90.0
"""Seconds between two looks of a process into its queues while notifications arrive, with jitter. Where they do not,
workers look every 0.05 to 1 s."""

START = 1.0
"""Seconds that the first looks of a process wait for notifications to arrive."""


class PostgresDispatcher:
    """See queue_core.dispatch.Dispatcher for what each method does. It holds no jobs, so there is nothing to lose."""

    def __init__(self, settings: PostgresSettings, notifications: Notifications | None = None) -> None:
        self._notifications = notifications or Notifications(settings)
        self._hints = Hints()
        self._notifications.on("ready", self._hear)
        self._notifications.on("committed", self._hear)
        self._notifications.on_gap(self._hints.hint_all)
        # seconds of time.monotonic at which all queues are looked into, whatever was heard
        self._look_at = float("-inf")
        # by queue: the last place in the order of arrival that was offered, and earlier ranks that are to be told of
        self._newest: dict[str, int] = {}
        self._back: dict[str, list[int]] = {}
        # seconds of time.monotonic at which each queue was last notified of
        self._told: dict[str, float] = {}
        self._late: set[str] = set()
        self._late_task: asyncio.Task[None] | None = None

    def _hear(self, queue: str) -> None:
        self._hints.hint([queue])

    def _note(self, job: Ready) -> None:
        """Keep the rank of a job that may stand where claims have passed already."""
        place, newest = job.rank & LAST, self._newest.get(job.queue, -1)
        if place > newest:
            self._newest[job.queue] = place
        else:
            self._back.setdefault(job.queue, []).append(job.rank)

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Tell all processes of the queues of these jobs, at once or riding on a moment's others."""
        now = time.monotonic()
        for job in ready:
            self._note(job)
        queues = {job.queue for job in ready}
        at_once = [queue for queue in queues if now - self._told.get(queue, float("-inf")) >= GATHER]
        self._late |= queues.difference(at_once)
        if self._late and (self._late_task is None or self._late_task.done()):
            self._late_task = asyncio.create_task(self._tell_late())
        await self._tell(at_once)

    async def _tell_late(self) -> None:
        # Counted from the last notification: counted from the offer, one that comes late makes the next one late, too.
        while self._late:
            now = time.monotonic()
            due = {queue: self._told.get(queue, now) + GATHER for queue in self._late}
            if (first := min(due.values())) > now:
                await asyncio.sleep(first - now)
                continue
            ready = sorted(queue for queue in self._late if due[queue] <= now)
            self._late.difference_update(ready)
            with contextlib.suppress(DispatchUnavailable):  # the audit tells of them again
                await self._tell(ready)

    async def _tell(self, queues: Sequence[str]) -> None:
        if not queues:
            return
        now = time.monotonic()
        self._told.update(dict.fromkeys(queues, now))
        back = [("ranks", spell(named(self._back.pop(queue)), queue)) for queue in queues if queue in self._back]
        try:
            # Who is woken looks at once, so the ranks come first.
            await self._notifications.send_each([*back, *(("ready", queue) for queue in queues)])
        except StoreUnavailable as error:
            raise DispatchUnavailable(str(error)) from error

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Taken | None:
        """Wait until one of the queues may have ready jobs; the store is to be asked for them.

        Raises:
            DispatchUnavailable: notifications do not arrive.
        """
        self._notifications.start()
        if not self._notifications.arriving and (queue := self._hints.pick(queues)) is not None:
            return Taken(queue, None)
        if not self._notifications.arriving and not await self._begun(min(timeout, START)):
            raise DispatchUnavailable(self._notifications.reason or "it is not known yet whether notifications arrive")
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK * random.uniform(0.75, 1.25)
            self._hints.hint_all()
        return await self._hints.take(queues, min(timeout, self._look_at - now))

    async def _begun(self, seconds: float) -> bool:
        return self._notifications.lost_since is None and await self._notifications.known(seconds)

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Do nothing: no ids are held."""

    async def lacking(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return the first ready job of each queue: whoever is idle should look, in case a notification was lost."""
        return list({job.queue: job for job in reversed(heads)}.values())

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return nothing: there is nothing to lose."""
        return []

    async def mark(self, queue: str) -> None:
        """Do nothing: it was never in doubt."""

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        try:
            return await self._notifications.ping()
        except StoreUnavailable as error:
            raise DispatchUnavailable(str(error)) from error

    async def facts(self) -> dict[str, Any]:
        """Return nothing: the inspector tells all about the server."""
        return {}

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        if self._late_task is not None:
            await asyncio.gather(self._late_task, return_exceptions=True)
        await self._notifications.close()
