"""A store that can be taken away, slowed down and broken, around one in memory; and a queue object that has it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.ports.store import HeartbeatReply, HeartbeatRequest, StoreHeartbeat
from tests.around import Around


class BreakingStore(Around):
    """Passes calls on, unless a test has said what becomes of them."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.away = False
        # what is raised instead of a call's answer, by its name
        self.failing: dict[str, Exception] = {}
        # what a call waits for before it is made, and before its answer comes back
        self.before: dict[str, asyncio.Event] = {}
        self.after: dict[str, asyncio.Event] = {}
        self.calls: Counter[str] = Counter()
        self.heart_hangs = threading.Event()
        self.heart_goes_on = threading.Event()
        self.on_beat: Callable[[HeartbeatRequest], None] = lambda beat: None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any) -> Any:
            self.calls[name] += 1
            self._check(name)
            if name in self.before:
                await self.before[name].wait()
                self._check(name)
            answer = await found(*args)
            if name in self.after:
                await self.after[name].wait()
            self._check(name)
            return answer

        return call

    def _check(self, name: str) -> None:
        if self.away:
            raise StoreUnavailable("memory", "somebody pulled the plug")
        if name in self.failing:
            raise self.failing[name]

    def open_heartbeat(self) -> StoreHeartbeat:
        return BreakingHeart(self, self._store.open_heartbeat())


class BreakingHeart:
    """The heart of such a store."""

    def __init__(self, store: BreakingStore, heart: StoreHeartbeat) -> None:
        self._store = store
        self._heart = heart

    def __getattr__(self, name: str) -> Any:
        return getattr(self._heart, name)

    def renew(self, request: HeartbeatRequest) -> HeartbeatReply:
        self._store.calls["renew"] += 1
        if self._store.heart_hangs.is_set():
            self._store.heart_goes_on.wait(60)
        if self._store.away:
            raise StoreUnavailable("memory", "somebody pulled the plug")
        if "renew" in self._store.failing:
            raise self._store.failing["renew"]
        self._store.on_beat(request)
        return self._heart.renew(request)

    def close(self) -> None:
        self._heart.close()


def breaking_queue() -> tuple[JobQueue, BreakingStore]:
    """Return a queue object in memory and its store."""
    jobs = JobQueue(memory=True)
    store = BreakingStore(jobs.store)
    jobs._backend = jobs._backend._replace(store=store)  # type: ignore[arg-type]
    jobs._results._backend = jobs._backend
    jobs._enqueuer._backend = jobs._backend
    return jobs, store
