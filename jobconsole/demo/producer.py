"""The producer's process: enqueues what the plan says when the pace says so, and writes the ledger around it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from jobconsole.demo.folder import here
from jobconsole.demo.ledger import LedgerWriter
from jobconsole.demo.material import find_material
from jobconsole.demo.pace import Pace
from jobconsole.demo.plan import Order, Plan, shorten
from queue_core import JobQueue
from queue_core.errors import QueueCoreError

TAG = "demo-"
"""What the tag of every batch begins with."""
TICK_SECONDS = 0.5
log = logging.getLogger(__name__)


class Producer:
    """Enqueues batch after batch; a store that is away costs a tick, never a job."""

    def __init__(self, jobs: JobQueue, plan: Plan, pace: Pace, ledger: LedgerWriter, most: int | None) -> None:
        self._jobs = jobs
        self._plan = plan
        self._pace = pace
        self._ledger = ledger
        self._left = most
        self._batches = 0

    @property
    def done(self) -> bool:
        """Answer whether as many jobs were enqueued as were asked for."""
        return self._left is not None and self._left <= 0

    async def tick(self, now: float, stopping: Callable[[], bool]) -> None:
        """Enqueue what is due at this moment of the monotonic clock."""
        overview = await self._jobs.inspector.overview()
        size = self._pace.wave(now, sum(queue.queued for queue in overview.queues))
        orders = self._plan.wave(size) if size else self._plan.trickle()
        most = self._pace.allowed(now)
        for order in shorten(orders, most if self._left is None else min(most, self._left)):
            if stopping():
                return
            await self._enqueue(order)

    async def _enqueue(self, order: Order) -> None:
        self._batches += 1
        tag, count = f"{TAG}{self._batches}", len(order.payloads)
        self._ledger.batch(tag, count)
        # Whether or not it succeeds: after an error nobody knows if it was committed.
        self._pace.sent(count)
        if self._left is not None:
            self._left -= count
        handles = await self._jobs.enqueue_many(order.type, order.payloads, delay=order.delay, tags=[tag])
        self._ledger.enqueued(tag, [handle.id for handle in handles])


async def produce(port: int, rate: float | None, most: int | None) -> None:
    """Enqueue until SIGTERM."""
    from jobconsole.demo.tasks import jobs

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    folder = here()
    material = find_material(folder.good / folder.document.name)
    producer = Producer(jobs, Plan(material, folder, port), Pace(rate), LedgerWriter(folder.ledger), most)
    async with jobs:
        while not stop.is_set():
            if not producer.done:
                try:
                    await producer.tick(time.monotonic(), stop.is_set)
                except QueueCoreError as problem:
                    log.warning("%s", problem)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TICK_SECONDS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as the producer's process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s")
    asyncio.run(produce(options.port, options.rate, options.jobs))


if __name__ == "__main__":
    main()
