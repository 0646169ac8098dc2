"""One master of a cluster is lost and has no successor: the queues of the others go on, those on it wait for it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from redis.crc import key_slot

from queue_core import JobQueue, Worker
from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim
from queue_core.model.settings import JobsSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.redis.store import RedisStore
from tests.conformance.working import working
from tests.redis_topology.conftest import MakeSettings
from tests.redis_topology.load import PATIENCE
from tests.redis_topology.rig import Cluster
from tests.redis_topology.test_cluster import QUEUES, a_master_without_successor, owner_of

LEASE = 6.0
SHARED = ("leaders", "workers", "queues", "schedules")
"""Keys that belong to no queue. Those of hints and of operations are with QUEUES[0] and QUEUES[2]."""


def settings_where(
    cluster: Cluster, make_settings: MakeSettings, redis_prefix: str, queue: str, there: tuple[str, ...]
) -> JobsSettings:
    """Return settings under whose prefix the master of a queue has these of the shared keys, and no others."""
    for number in range(1000):
        settings = make_settings("redis", cluster.url, timeout=2.0, prefix=f"{redis_prefix}{number}:")
        _, master = owner_of(cluster, settings, queue)
        owners = {name: cluster.owner(key_slot(f"{settings.redis.prefix}{name}".encode())) for name in SHARED}
        if {name for name, owner in owners.items() if owner is master} == set(there):
            return settings
    raise AssertionError("no prefix is like that")


@asynccontextmanager
async def losing(cluster: Cluster, settings: JobsSettings, queue: str) -> AsyncIterator[set[str]]:
    """Lose the master of a queue while the event loop goes on; yield its queues."""
    losing = a_master_without_successor(cluster, settings, queue)
    lost = await asyncio.to_thread(losing.__enter__)
    try:
        yield lost
    finally:
        await asyncio.to_thread(losing.__exit__, None, None, None)


class Ledger:
    """What handlers did, kept outside the store."""

    def __init__(self) -> None:
        self.started: Counter[str] = Counter()
        self.stopped: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def run(self, name: str, work: Awaitable[object]) -> None:
        """Note the start and the end of a handler."""
        await self._note(self.started, name)
        try:
            await work
        except asyncio.CancelledError:
            await self._note(self.stopped, name)
            raise
        await self._note(self.ended, name)

    async def _note(self, counter: Counter[str], name: str) -> None:
        counter[name] += 1
        async with self._changed:
            self._changed.notify_all()

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds of what is noted."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(holds)


async def statuses(jobs: JobQueue, ids: dict[str, str]) -> dict[str, str]:
    """Return the status of jobs, given as id → queue, by asking those queues alone."""
    store = jobs.store
    assert isinstance(store, RedisStore)
    found = await store._link.read(
        {queue: [one for one in ids if ids[one] == queue] for queue in ids.values()}, ["status"]
    )
    return {job_id: row[0] for (_, job_id), row in found.items()}


async def until_completed(jobs: JobQueue, ids: dict[str, str]) -> None:
    """Wait until the ends of jobs are stored."""
    async with asyncio.timeout(PATIENCE):
        while set((await statuses(jobs, ids)).values()) != {"completed"}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("home", "there"), [("q1", ()), ("q2", ("workers",))], ids=["alone", "with shared keys"])
async def test_the_queues_of_other_masters_go_on(
    cluster: Cluster,
    make_settings: MakeSettings,
    redis_prefix: str,
    home: str,
    there: tuple[str, ...],
) -> None:
    settings = settings_where(cluster, make_settings, redis_prefix, home, there)
    ledger = Ledger()
    async with JobQueue(settings=settings) as jobs:
        finish, go_on = asyncio.Event(), {queue: asyncio.Event() for queue in QUEUES}

        @jobs.task(timeout=0)
        async def long(queue: str) -> None:
            await ledger.run(f"long {queue}", go_on[queue].wait())

        @jobs.task(timeout=0)
        async def waiting(queue: str) -> None:
            await ledger.run(f"waiting {queue}", finish.wait())

        @jobs.task
        async def short(name: str) -> None:
            await ledger.run(name, asyncio.sleep(0))

        worker = Worker(jobs, queues=QUEUES, concurrency=50, lease=f"{LEASE:g}s", grace=1)
        running = asyncio.create_task(worker.run())
        ids: dict[str, str] = {}
        for queue in QUEUES:
            ids[(await long.options(queue=queue).enqueue(queue)).id] = queue
            ids[(await waiting.options(queue=queue).enqueue(queue)).id] = queue
        await ledger.until(lambda: ledger.started.total() == 2 * len(QUEUES))
        async with losing(cluster, settings, home) as lost:
            lost_at = time.monotonic()
            good = [queue for queue in QUEUES if queue not in lost]
            assert lost
            assert good
            finish.set()
            # Ends are stored and jobs start and end meanwhile, for longer than a lease lasts.
            rounds = 0
            while time.monotonic() - lost_at < 1.5 * LEASE or not rounds:
                rounds += 1
                fresh = {}
                for queue in good:
                    fresh[(await short.options(queue=queue).enqueue(f"short {queue} {rounds}")).id] = queue
                await ledger.until(lambda: all(ledger.ended[f"short {queue} {rounds}"] for queue in good))  # noqa: B023
                await until_completed(jobs, fresh)
                ids |= fresh
            await ledger.until(lambda: all(ledger.stopped[f"long {queue}"] for queue in lost))
            assert not any(ledger.stopped[f"long {queue}"] for queue in good), "their leases are renewed"
            for event in go_on.values():
                event.set()
            await ledger.until(lambda: all(ledger.ended[f"long {queue}"] for queue in good))
            await until_completed(jobs, {job_id: queue for job_id, queue in ids.items() if queue in good})
        await until_completed(jobs, ids)
        worker.stop()
        await running
    assert ledger.ended == {name: 1 for name in ledger.started} | {
        # Its lease was over when its end could be stored: the leader may have taken it back before.
        f"waiting {queue}": ledger.started[f"waiting {queue}"]
        for queue in lost
    }
    again = {name for name, count in ledger.started.items() if count > 1}
    assert again <= {f"{kind} {queue}" for kind in ("long", "waiting") for queue in lost}
    assert ledger.started == ledger.ended + ledger.stopped


async def test_candidates_of_a_lost_queue_hold_up_no_others(
    cluster: Cluster, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may have taken some just before: then it can claim none of them."""
    async with JobQueue(settings=make_settings("redis", cluster.url)) as jobs:
        ran, tried, real = asyncio.Event(), asyncio.Event(), jobs.store.claim

        async def claim(request: ClaimRequest) -> list[Claim]:
            if request.queue == "q1":
                tried.set()
                raise StoreUnavailable("redis", "its master is away")
            return await real(request)

        monkeypatch.setattr(jobs.store, "claim", claim)

        @jobs.task
        async def work() -> None:
            ran.set()

        async with working(jobs, queues=["q1", "q2"]):
            await work.options(queue="q1").enqueue()
            async with asyncio.timeout(PATIENCE):
                await tried.wait()
                await work.options(queue="q2").enqueue()
                await ran.wait()
