"""The producer's process: enqueues the plan's jobs at the pace's times, and writes the ledger around it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from jobconsole.demo.ledger import LedgerWriter
from jobconsole.demo.material import Folder, Material, find_material, here
from jobconsole.demo.orders import orders
from queue_core import JobQueue
from queue_core.errors import QueueCoreError

log = logging.getLogger(__name__)


DRAIN_SECONDS = 3.0
"""How long the workers should have to do with one wave."""
PERIOD_SECONDS = 4.5
"""From one wave to the next: the rest is left to whatever else this machine does."""
FIRST, SMALLEST, LARGEST = 300, 40, 800
"""Jobs of a wave."""


class Pace:
    """Decides at each tick how many jobs come next; all times are seconds of one monotonic clock."""

    def __init__(self, rate: float | None = None) -> None:
        self.size = FIRST
        self._rate = rate
        # when the last wave came, and whether the workers have been seen to be done with it
        self._last: float | None = None
        self._drained = True
        # what the rate has allowed so far and has not been used
        self._since: float | None = None
        self._sent = 0

    def wave(self, now: float, queued: int) -> int:
        """Return how many small jobs to enqueue now as a wave, 0 for none; `queued` jobs are waiting to be run."""
        if self._last is not None:
            if not self._drained and queued < self.size // 5:
                self._drained = True
                self._adapt(now - self._last)
            if not self._drained or now - self._last < PERIOD_SECONDS:
                return 0
        self._last = now
        self._drained = False
        return self.size

    def _adapt(self, took: float) -> None:
        """Grow or shrink the waves by at most a factor of two, so that one slow moment does not decide."""
        factor = min(2.0, max(0.5, DRAIN_SECONDS / max(took, 0.1)))
        self.size = min(LARGEST, max(SMALLEST, round(self.size * factor)))

    def allowed(self, now: float) -> int:
        """Return how many jobs the rate still allows at this moment."""
        if self._rate is None:
            return LARGEST * 2
        self._since = now if self._since is None else self._since
        # One second is paid in advance: something happens at once.
        return int((now - self._since + 1.0) * self._rate) - self._sent

    def sent(self, count: int) -> None:
        """Note that so many jobs were enqueued."""
        self._sent += count


# Which jobs the producer enqueues: files in an order that mixes the folders, and each failing kind now and then.
#
# Nothing is drawn by chance: two runs on the same machine enqueue the same jobs in the same order.

BATCH = 100
"""The most jobs of one enqueue."""
SMALL_QUOTA = 64 * 1024
LARGE_QUOTA = 1 << 30
RECEIPTS = 3
"""Orders between two waves, twice a second."""
Payload = dict[str, Any]


class Order(NamedTuple):
    """Jobs of one type that are enqueued together."""

    type: str
    payloads: list[Payload]
    # seconds
    delay: float = 0.0


class LoadPlan:
    """Gives out orders without end."""

    def __init__(self, material: Material, folder: Folder, port: int) -> None:
        self._folder = folder
        self._port = port
        self._material = material
        self._waves = 0
        self._modules = _mixed(material.modules)
        self._paths = {
            "read_records": _mixed(material.records),
            "read_metadata": _mixed(material.metadata),
            "read_document": _mixed(material.documents),
            "thumbnail": _mixed(material.pictures),
        }
        self._folders = cycle(material.folders)
        self._larger_folders = cycle(material.larger_folders)
        self._bad_modules = cycle(material.bad_modules)
        self._binaries = cycle(material.binaries)
        self._orders = orders()

    def wave(self, size: int) -> list[Order]:
        """Return the orders of one wave: what fails first, then long work, then some `size` small jobs."""
        self._waves += 1
        return [*self._failing(), *self._long(), *self._small(size)]

    def trickle(self) -> list[Order]:
        """Return the few jobs that come between two waves."""
        return [
            self._order("thumbnail" if self._material.pictures else "parse_module", 1),
            self._order("count_words", 1),
            Order("write_receipt", list(islice(self._orders, RECEIPTS))),
        ]

    def _small(self, size: int) -> Iterator[Order]:
        shares = {
            "parse_module": 20,
            "tokenise_module": 16,
            "compile_module": 12,
            "compress_file": 16,
            "count_words": 8,
            "read_records": 4,
            "read_metadata": 4,
            "read_document": 3,
        }
        if self._material.pictures:
            shares |= {"thumbnail": 10, "draw_file": 5}
        for type_, share in shares.items():
            count = max(1, size * share // 100)
            for start in range(0, count, BATCH):
                yield self._order(type_, min(BATCH, count - start))
        for delay in (2.0, 5.0):
            yield self._order("compress_file", max(1, size // 25))._replace(delay=delay)

    def _order(self, type_: str, count: int) -> Order:
        paths = self._paths.get(type_, self._modules)
        return Order(type_, [{"path": next(paths)} for _ in range(count)])

    def _long(self) -> Iterator[Order]:
        yield Order("hash_folder", [{"folder": str(next(self._folders))} for _ in range(2)])
        yield Order("archive_folder", [{"folder": str(next(self._larger_folders))}])
        yield Order("pack_folder", [{"folder": str(next(self._folders)), "quota": LARGE_QUOTA}])

    def _failing(self) -> Iterator[Order]:
        """Every kind in the first wave; the expensive one in every second."""
        yield Order("parse_module", [{"path": str(next(self._bad_modules))}])
        yield Order("read_document", [{"path": str(self._folder.document)}])
        yield Order("count_words", [{"path": str(next(self._binaries))}])
        if self._material.pictures:
            yield Order("thumbnail", [{"path": str(self._folder.picture)}])
        yield Order("notify", [{"port": self._port, "subject": f"wave {self._waves}"} for _ in range(2)])
        yield Order("pack_folder", [{"folder": str(self._material.large_folder), "quota": SMALL_QUOTA}])
        if self._waves % 2:
            yield Order("archive_quickly", [{"folder": str(self._material.large_folder)}])


def shorten(orders: list[Order], most: int) -> list[Order]:
    """Return the first `most` jobs of the orders."""
    kept: list[Order] = []
    for order in orders:
        if most <= 0:
            break
        kept.append(order._replace(payloads=order.payloads[:most]))
        most -= len(kept[-1].payloads)
    return kept


def _mixed(paths: tuple[Path, ...]) -> Iterator[str]:
    """Go round all paths in an order that has nothing to do with their folders, and is always the same."""
    return cycle(sorted(map(str, paths), key=lambda path: zlib.crc32(path.encode(errors="surrogateescape"))))


TAG = "demo-"
"""What the tag of every batch begins with."""
TICK_SECONDS = 0.5


class Producer:
    """Enqueues batch after batch; a store that is away costs a tick, never a job."""

    def __init__(self, jobs: JobQueue, plan: LoadPlan, pace: Pace, ledger: LedgerWriter, most: int | None) -> None:
        self._jobs = jobs
        self._plan = plan
        self._pace = pace
        self._ledger = ledger
        self._left = most
        self._batches = 0

    @property
    def done(self) -> bool:
        """Return whether as many jobs were enqueued as were asked for."""
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
        # Whether or not it succeeds: after an error it is unknown whether it was committed.
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
    producer = Producer(jobs, LoadPlan(material, folder, port), Pace(rate), LedgerWriter(folder.ledger), most)
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
