"""What a leader finds out in few commands: what there is to do, which queues have ready jobs; and that it leads."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from queue_core.errors import StoreRefused
from queue_core.settings import RedisSettings
from queue_core.store import Look
from queue_core.stores.redis.hinting import Hints
from queue_core.stores.redis.link import Link
from queue_core.stores.redis.news import LEADER, ORDER, News
from queue_core.stores.redis.presence import Presence
from queue_core.stores.redis.schedules import first_tick

SWEEP = "sweep"
"""The duty whose leader all processes hear of."""
TICKS_KNOWN = 10.0
"""Seconds for which the next tick is known while news of changed schedules arrive."""


class Leading:
    """Of one process, whether it leads or not."""

    def __init__(self, link: Link, settings: RedisSettings) -> None:
        self._link = link
        self.hints = self._hints = Hints(link)
        self.news = self._news = News(settings)
        self._pending = Presence(link, "pending")
        self._paused = Presence(link, "paused")
        # the names of all queues, as of the last repair or round of the audit
        self._names: list[str] | None = None
        # the worker of this process that leads the sweeps, as far as is known, and until which time.monotonic
        self._leader, self._leads_until = "", 0.0
        # the next tick in microseconds of the server's clock, and the time.monotonic at which it was read
        self._tick: tuple[float | None, float] = (None, float("-inf"))

    async def close(self) -> None:
        """Stop listening, and put back what was taken; doing it twice is safe."""
        await self.news.close()
        await self.hints.settled()

    async def lead(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty for some seconds; False when another worker holds it."""
        told = ["", ""]
        if duty == SWEEP:
            self._news.start()
            told = [self._link.keys.news, f"{LEADER} {worker}"]
        args, sent = [duty, worker, round(seconds * 1e6), *told], time.monotonic()
        leads = bool(await self._link.run("lead", [self._link.keys.leaders], args))
        if duty == SWEEP:
            # The one before may have been killed between a change and its hint.
            anew = leads and (self._leader != worker or sent > self._leads_until)
            self._hints.doubtful = self._hints.doubtful or anew
            self._leader, self._leads_until = worker if leads else "", sent + seconds
        return leads

    async def resign(self, worker: str, place: str) -> None:
        """Give up what a worker leads; the others hear of it, and those at its place that it has gone."""
        news = self._link.keys.news
        await self._link.run("resign", [self._link.keys.leaders], [worker, SWEEP, news, f"{LEADER} "])
        commands = self._link.batch()
        commands.publish(news, f"{ORDER} {place}")
        with suppress(StoreRefused):  # not allowed: then nobody rests who would have to hear of it
            await self._link.send(commands)

    async def look(self) -> Look:
        """Return what a leader has to do."""
        if self._names is None or self._hints.doubtful:
            await self.repair()
        commands = self._link.batch()
        commands.zcard(self._link.keys.operations_in("unfinished"))
        # At a time: a job that is due waits for this.
        (now, due, lease), busy, (operations,) = await asyncio.gather(
            self._hints.first(), self._pending.any(self._names or []), self._link.send(commands)
        )
        tick = await self._next_tick(now)
        return Look(_until(due, now), _until(tick, now), busy, False, operations > 0, _until(lease, now))

    async def _next_tick(self, now: int) -> float | None:
        tick, read_at = self._tick
        known = self._news.hears() and not self._news.ticks_changed and time.monotonic() - read_at < TICKS_KNOWN
        if known and (tick is None or tick > now):
            return tick
        self._news.ticks_changed = False
        tick = await first_tick(self._link)
        self._tick = tick, time.monotonic()
        return tick

    async def repair(self) -> None:
        """Learn the names of all queues, and note what has lost its hint."""
        self._names, _ = await self._link.look()
        await self._hints.repair(self._names)

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready jobs."""
        self._names, _ = await self._link.look()
        ready = sorted(await self._pending.find(self._names))
        paused = await self._paused.find(ready, whole=True) if ready else set()
        return [queue for queue in ready if queue not in paused]

    async def queues(self) -> dict[str, bool]:
        """Return every queue's name and whether it is paused."""
        names, _ = await self._link.look()
        paused = await Presence(self._link, "paused").find(names, whole=True)
        return {name: name in paused for name in names}


def _until(at: float | None, now: int) -> float | None:
    return None if at is None else (at - now) / 1e6
