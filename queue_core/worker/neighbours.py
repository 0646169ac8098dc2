"""Takes back the jobs of workers on this machine whose processes are gone, long before their leases end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from queue_core.errors import QueueCoreError
from queue_core.store import JobStore, Neighbour
from queue_core.worker import lives

LOOK = 0.25
"""Seconds between two looks whether the others are still there: a question to the system for each of them."""
AGAIN = (0.0, 0.5, 2.0, 10.0)
"""Seconds after which a worker is written off, each time: a server may carry out its last calls after its end."""

logger = logging.getLogger("queue_core.worker")


class Neighbours:
    """The other workers at this place. Each of them watches all the others, so that one that is left suffices."""

    def __init__(self, store: JobStore, reclaim: Callable[[], Awaitable[int]]) -> None:
        self._store = store
        self._reclaim = reclaim
        # worker -> its process
        self._known: dict[str, str] = {}
        # (seconds of time.monotonic at which it is due, worker)
        self._gone: list[tuple[float, str]] = []

    def learn(self, neighbours: Sequence[Neighbour]) -> None:
        """Take note of who is there now, as the store knows it."""
        self._known = dict(neighbours)

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    async def look(self) -> None:
        """Write those off that are gone since the last look, and those again that are due."""
        now = time.monotonic()
        for worker in [worker for worker, process in self._known.items() if lives.is_gone(process)]:
            logger.warning("the process of worker %s is gone; its jobs are taken back", worker)
            del self._known[worker]
            self._gone += [(now + wait, worker) for wait in AGAIN]
        due = sorted({worker for at, worker in self._gone if at <= now})
        if not due:
            return
        self._gone = [(at, worker) for at, worker in self._gone if at > now]
        try:
            await write_off(self._store, self._reclaim, due)
        except QueueCoreError as error:
            logger.warning("the jobs of %s wait for the store: %s", ", ".join(due), error)
            self._gone += [(now + AGAIN[1], worker) for worker in due]


async def write_off(store: JobStore, reclaim: Callable[[], Awaitable[int]], workers: Sequence[str]) -> None:
    """Take the jobs back that these workers held, whose processes are gone.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    await store.write_off(workers, lives.place())
    await reclaim()
