"""The heartbeat of a program that claims by itself: only when it prolongs a lease, or looks for what it was given."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence

from queue_core.store import Beat, BeatReply, Doubt, Heart, JobStore, WorkerBeat
from queue_core.worker import lives
from queue_core.worker.asked import version
from queue_core.worker.claims import Claims


class ManualHeart:
    """One entry among the workers, with the queues of the claims that were prolonged."""

    def __init__(self, store: JobStore, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._heart: Heart | None = None
        # a heart serves one thread at a time
        self._beating = asyncio.Lock()
        self._queues: set[str] = set()
        self.claims = Claims()

    async def beat(self, queue: str, lease: float, leases: Sequence[Beat], doubts: Sequence[Doubt] = ()) -> BeatReply:
        """Prolong leases, and ask for what claims in doubt have given."""
        self._queues.add(queue)
        # It announces no types: what a dispatcher hands out is for workers.
        entry = WorkerBeat(
            worker=self._worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version(),
            queues=tuple(sorted(self._queues)),
            types=(),
            concurrency=1,
            busy=1,
            quiet=False,
            lease=lease,
            interval=lease,
            leases=leases,
            place=lives.place(),
            process=lives.process(),
            doubts=doubts,
        )
        async with self._beating:
            if self._heart is None:
                self._heart = self._store.heart()
            return await asyncio.to_thread(self._heart.beat, entry)

    async def close(self) -> None:
        """Give the connection back."""
        if self._heart is not None:
            await asyncio.to_thread(self._heart.close)

    async def retire(self) -> None:
        """Remove the entry."""
        await self._store.retire(self._worker, lives.place())
