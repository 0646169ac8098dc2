"""A producer that a test kills: `python -m tests.faults.producer` enqueues batches until it is hit."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from queue_core import JobQueue
from queue_core.model.events import Event
from queue_core.model.job import Inserted, NewJob, Ready
from tests.around import Around
from tests.faults.impatience import settings
from tests.faults.ledger import Pen
from tests.faults.target import come_to


class HitStore(Around):
    """The store, with points before and after what it writes."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        come_to("before_commit")
        inserted: list[Inserted] = await self._store.insert(jobs)
        come_to("before_offer")
        return inserted


class HitDispatcher(Around):
    """The dispatcher, with a point behind each offer."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    async def offer(self, ready: Sequence[Ready]) -> None:
        await self._dispatcher.offer(ready)
        come_to("after_offer")

    async def announce(self, ready: Sequence[Ready], events: Sequence[Event]) -> None:
        await self._dispatcher.announce(ready, events)
        come_to("after_offer")


async def produce() -> None:
    jobs = JobQueue(
        settings=settings(os.environ["FAULTS_POSTGRES"], os.environ["FAULTS_REDIS"], os.environ["FAULTS_PREFIX"])
    )
    backend = jobs._backend._replace(store=HitStore(jobs.store), dispatcher=HitDispatcher(jobs.dispatcher))  # type: ignore[arg-type]
    jobs._enqueuer._backend = backend
    pen = Pen(Path(os.environ["FAULTS_FOLDER"]))
    async with jobs:
        for number in range(1, 1000):
            tag = f"producer-{os.getpid()}-{number}"
            pen.batch(tag, 7)
            handles = await jobs.enqueue_many("work", [{}] * 7, tags=[tag])
            pen.write("enqueued", tag, *(handle.id for handle in handles))


if __name__ == "__main__":
    asyncio.run(produce())
    sys.exit("nobody has hit this producer")
