"""Delivery by PostgreSQL alone: NOTIFY names the queues that each process's workers should claim from."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from typing import Any

from queue_core.delivery.local import QueueHints
from queue_core.errors import StoreUnavailable
from queue_core.model.events import Event
from queue_core.model.job import Ready
from queue_core.model.settings import PostgresSettings
from queue_core.ports.delivery import DispatchUnavailable, Nomination
from queue_core.stores.postgres.delivery.events import PostgresEventBus
from queue_core.stores.postgres.scans.ranks import LAST_IN_BAND, named, spell
from queue_core.stores.postgres.session.listening import Notifications

GATHER_SECONDS = 0.02
"""Seconds for which further offers of a queue ride on the notification that was just sent: NOTIFY takes a global lock,
and a worker that was woken claims until nothing is left."""
POLL_INTERVAL = 90.0
"""Seconds between two polls of a process of its queues while notifications arrive, with jitter. Where they do not,
workers poll every 0.05 to 1 s."""

MAX_KEPT_RANKS = 10_000
"""Ranks of a queue that are kept for its next notification where one could not be sent."""

FIRST_POLL_WAIT = 1.0
"""Seconds that the first polls of a process wait for notifications to arrive."""


class PostgresDispatcher:
    """See queue_core.ports.delivery.Dispatcher for what each method does. It holds no jobs, so there is nothing to
    lose."""

    holds_ids = False

    def __init__(
        self,
        settings: PostgresSettings,
        notifications: Notifications | None = None,
        bus: PostgresEventBus | None = None,
    ) -> None:
        self._notifications = notifications or Notifications(settings)
        self._bus = bus
        self._hints = QueueHints()
        self._notifications.on("ready", self._hear)
        self._notifications.on("committed", self._hear)
        self._notifications.on_gap(self._hints.hint_all)
        # time.monotonic at which all queues are read, regardless of notifications
        self._poll_at = float("-inf")
        # by queue: the last place in the order of arrival that was offered, and earlier ranks to notify of
        self._newest: dict[str, int] = {}
        self._back: dict[str, list[int]] = {}
        # seconds of time.monotonic at which each queue was last notified of
        self._notified_at: dict[str, float] = {}
        self._late: set[str] = set()
        # that go out with the next notification
        self._events: list[Event] = []
        self._late_task: asyncio.Task[None] | None = None

    def _hear(self, queue: str) -> None:
        self._hints.hint([queue])

    def _note(self, job: Ready) -> None:
        """Keep the rank of a job that claims may already have passed."""
        place, newest = job.rank & LAST_IN_BAND, self._newest.get(job.queue, -1)
        if place > newest:
            self._newest[job.queue] = place
        else:
            self._back.setdefault(job.queue, []).append(job.rank)

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Notify all processes of the queues of these jobs, at once or together with those of the next moment.

        A worker of this process does not wait for that moment: else the jobs of one ordering key, each of which becomes
        ready when the one before it is settled, would start that far apart. While notifications do not arrive, workers
        poll, all queues in turn.
        """
        if at_once := self._at_once(ready):
            await self._notify(at_once)

    async def announce(self, ready: Sequence[Ready], events: Sequence[Event]) -> None:
        """Offer jobs and publish events in one statement, so that a process that listens is woken once.

        Events that come with a late offer wait for it: what is enqueued one after the other takes 50 notifications a
        second, and not three times as many.
        """
        at_once = self._at_once(ready)
        self._events += events
        if at_once or not self._late:
            await self._notify(at_once)

    def _at_once(self, ready: Sequence[Ready]) -> list[str]:
        """Note jobs, let the workers of this process know, and return the queues to notify others of now."""
        now = time.monotonic()
        for job in ready:
            self._note(job)
        queues = {job.queue for job in ready}
        if self._notifications.arriving:
            self._hints.hint(queues)
        at_once = [queue for queue in queues if now - self._notified_at.get(queue, float("-inf")) >= GATHER_SECONDS]
        self._late |= queues.difference(at_once)
        if self._late and (self._late_task is None or self._late_task.done()):
            self._late_task = asyncio.create_task(self._notify_late())
        return at_once

    async def _notify_late(self) -> None:
        # Counted from the last notification: counted from the offer, one that comes late makes the next one late, too.
        while self._late:
            now = time.monotonic()
            due = {queue: self._notified_at.get(queue, now) + GATHER_SECONDS for queue in self._late}
            if (first := min(due.values())) > now:
                await asyncio.sleep(first - now)
                continue
            ready = sorted(queue for queue in self._late if due[queue] <= now)
            self._late.difference_update(ready)
            with contextlib.suppress(DispatchUnavailable):  # the audit offers them again
                await self._notify(ready)

    async def _notify(self, queues: Sequence[str]) -> None:
        """Notify of queues, and of the events that wait."""
        events, self._events = self._events, []
        others = self._bus.messages(events) if self._bus is not None else []
        if not queues and not others:
            return
        now = time.monotonic()
        self._notified_at.update(dict.fromkeys(queues, now))
        back = {queue: self._back.pop(queue) for queue in queues if queue in self._back}
        names = [("ranks", spell(named(ranks), queue)) for queue, ranks in back.items()]
        try:
            # A woken worker claims at once, so the ranks come first.
            await self._notifications.notify_each([*names, *(("ready", queue) for queue in queues), *others])
        except StoreUnavailable as error:
            # They go with the queue's next notification: nothing else names them.
            for queue, ranks in back.items():
                self._back[queue] = [*ranks, *self._back.get(queue, ())][-MAX_KEPT_RANKS:]
            if self._bus is not None:
                self._bus.report_gap({event.queue for event in events})
            raise DispatchUnavailable(str(error)) from error

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        """Wait until one of the queues may have ready jobs; the store is to be asked for them.

        Raises:
            DispatchUnavailable: notifications do not arrive.
        """
        self._notifications.start()
        if not self._notifications.arriving and (queue := self._hints.pick(queues)) is not None:
            return Nomination(queue, None)
        if not self._notifications.arriving and not await self._arriving_within(min(timeout, FIRST_POLL_WAIT)):
            raise DispatchUnavailable(self._notifications.reason or "it is not known yet whether notifications arrive")
        now = time.monotonic()
        if now >= self._poll_at:
            self._poll_at = now + POLL_INTERVAL * random.uniform(0.75, 1.25)
            self._hints.hint_all()
        return await self._hints.take(queues, min(timeout, self._poll_at - now))

    async def _arriving_within(self, seconds: float) -> bool:
        return self._notifications.lost_since is None and await self._notifications.known(seconds)

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Do nothing: no ids are held."""

    async def missing(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return the first ready job of each queue: idle workers should claim, in case a notification was lost."""
        return list({job.queue: job for job in reversed(heads)}.values())

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return nothing: there is nothing to lose."""
        return []

    async def mark_current(self, queue: str) -> None:
        """Do nothing: it was never in doubt."""

    async def ping(self) -> float:
        try:
            return await self._notifications.ping()
        except StoreUnavailable as error:
            raise DispatchUnavailable(str(error)) from error

    async def facts(self) -> dict[str, Any]:
        """Return nothing: the inspector has the server's facts."""
        return {}

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        if self._late_task is not None:
            await asyncio.gather(self._late_task, return_exceptions=True)
        await self._notifications.close()
