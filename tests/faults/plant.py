"""A store, a Redis, a producer and a crew of workers, with the ledger of what they did."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.job import Ready
from tests.faults.crew import Crew
from tests.faults.findings import Findings, candidates, examine, strange_keys
from tests.faults.impatience import settings
from tests.faults.ledger import Ledger, Pen, read
from tests.waiting import eventually

SEED = int(os.environ.get("FAULTS_SEED", "1"))
"""Decides what is random here; the tests print it."""
LONG = bool(os.environ.get("FAULTS_LONG"))
"""More jobs and more faults, for some minutes instead of seconds."""
PATIENCE = 60.0
POINTS = ("after_pop", "after_claim", "in_handler", "before_settle", "after_settle", "before_event")
"""The steps of the protocol at which tests/faults/target.py can be hit."""


class Plant:
    """Everything of one test."""

    def __init__(self, folder: Path, postgres_url: str, redis_url: str, prefix: str) -> None:
        self.folder = folder
        self.postgres_url, self.redis_url, self.prefix = postgres_url, redis_url, prefix
        self.random = random.Random(SEED)
        self.jobs = JobQueue(settings=settings(postgres_url, redis_url, prefix))
        self.crew = Crew(
            folder,
            {
                "FAULTS_FOLDER": str(folder),
                "FAULTS_POSTGRES": postgres_url,
                "FAULTS_REDIS": redis_url,
                "FAULTS_PREFIX": prefix,
            },
        )
        self._pen = Pen(folder)
        self._batch = 0
        # how often its jobs may be retried
        self.retries = 3

    # -- what the test does

    async def enqueue(self, count: int, type_: str = "work", **payload: Any) -> list[str]:
        """Enqueue jobs of one type, with the ledger's lines before and after."""
        return await self._enqueue(type_, [payload] * count)

    async def enqueue_mixed(self, count: int, longest_ms: float = 20.0) -> list[str]:
        """Enqueue jobs of random lengths."""
        return await self._enqueue("work", [{"ms": self.random.uniform(0, longest_ms)} for _ in range(count)])

    async def _enqueue(self, type_: str, payloads: list[dict[str, Any]]) -> list[str]:
        self._batch += 1
        tag = f"batch-{self._batch}"
        self._pen.batch(tag, len(payloads))
        handles = await self.jobs.enqueue_many(type_, payloads, queue="default", tags=[tag], max_retries=self.retries)
        ids = [handle.id for handle in handles]
        self._pen.write("enqueued", tag, *ids)
        return ids

    @asynccontextmanager
    async def load(self, batch: int = 10, pause: float = 0.05, longest_ms: float = 20.0) -> AsyncIterator[None]:
        """Enqueue small batches as long as the block lasts, whatever fails."""

        async def produce() -> None:
            while True:
                # The batch stays open: whether it was written is asked at the end.
                with suppress(StoreUnavailable):
                    await self.enqueue_mixed(batch, longest_ms)
                await asyncio.sleep(pause)

        task = asyncio.create_task(produce())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def arm(self, point: str, what: str = "SIGKILL") -> None:
        """Let the first process that comes to this point of the protocol be hit there."""
        prepared = self.folder / f"arming-{point}"
        prepared.write_text(what)
        prepared.rename(self.folder / f"trap-{point}")

    async def take_back(self) -> None:
        """Do what a leader does about leases that have ended."""
        reclaimed = await self.jobs.store.reclaim(1000)
        for job in reclaimed:
            self._pen.write("back", job.id, job.token, "reclaimed")
        assert self.jobs.dispatcher is not None
        await self.jobs.dispatcher.offer([Ready(job.id, job.queue, job.rank) for job in reclaimed if job.rank])

    def open_gate(self, name: str) -> None:
        (self.folder / f"gate-{name}").touch()

    # -- what it waits for

    @property
    def ledger(self) -> Ledger:
        return read(self.folder)

    async def until_sprung(self, point: str) -> int:
        """Wait until somebody was hit, and return who."""
        assert await eventually(lambda: list(self.folder.glob(f"sprung-{point}-*"))), "nobody came to this point"
        (sprung,) = self.folder.glob(f"sprung-{point}-*")
        return int(sprung.name.rpartition("-")[2])

    async def until_started(self, count: int = 1, pid: int | None = None) -> None:
        """Wait until this many handlers have started, in one process or in all."""
        assert await eventually(lambda: self.started(pid) >= count), self.crew.log()[-4000:]

    def started(self, pid: int | None = None) -> int:
        """Return how many handlers have started, in one process or in all."""
        return sum(pid in {None, run.pid} for run in self.ledger.starts)

    async def until_back(self, count: int) -> None:
        """Wait until the store has given back this many attempts."""
        assert await eventually(lambda: len(self.ledger.back) >= count), self.crew.log()[-4000:]

    async def until_ended(self, count: int) -> None:
        """Wait until this many handlers have come to their end."""
        assert await eventually(lambda: len(self.ledger.ends) >= count), self.crew.log()[-4000:]

    async def until_quiet(self, dead: int = 0) -> None:
        """Wait until no job is unfinished and Redis agrees."""

        async def quiet() -> bool:
            with suppress(StoreUnavailable):
                totals = await self.jobs.inspector.conservation()
                return totals.unfinished == 0 and totals.dead == dead
            return False

        assert await eventually(quiet, 2 * PATIENCE), f"jobs stay unfinished: {self.crew.log()[-6000:]}"
        assert await eventually(lambda: candidates(self.redis_url, self.prefix) == 0), "Redis offers what is finished"

    # -- what must hold at the end of every test

    async def findings(self, name: str, since: float | None = None, **known: Any) -> Findings:
        """Let the workers end, compare everything with everything, and say what was found.

        `since`: when the fault came, in seconds of the monotonic clock; what had been enqueued by then counts for the
        time of recovery.
        """
        self.crew.drain()
        await self.jobs.close()
        ledger = self.ledger
        found = examine(ledger, self.postgres_url, **known)
        if keys := strange_keys(self.redis_url, self.prefix):
            found.problems.append(f"keys: {keys}")
        recovered = "" if since is None else f", all done {ledger.last_end(since) - since:.1f} s after the fault"
        print(f"[faults, seed {SEED}] {name}: {found}{recovered}")  # noqa: T201  what a fault costs is the result
        return found

    async def close(self) -> None:
        self.crew.close()
        await self.jobs.close()


def now() -> float:
    """Return the seconds of the clock that the ledger is written by."""
    return time.monotonic()
