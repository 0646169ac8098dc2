"""Trap 9: jobs that nobody can run now do not keep workers and Redis busy."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from queue_core.model.job import Ready
from queue_core.ports.store import JobStore
from queue_core.queue import JobQueue
from queue_core.worker.worker import Worker
from tests.around import Around
from tests.redis.conftest import announce

PATIENCE = 60.0


class CountingStore(Around):
    """The store, counting what it is asked."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.called = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        self.called.set()
        return getattr(self._store, name)

    async def until(self, name: str, count: int) -> None:
        """Wait until a method has been called this often from now on."""
        wanted = self.calls[name] + count
        async with asyncio.timeout(PATIENCE):
            while self.calls[name] < wanted:
                self.called.clear()
                await self.called.wait()


@pytest.fixture
def counted(jobs: JobQueue) -> CountingStore:
    """The store of the queue object, counted from now on."""
    store = CountingStore(jobs.store)
    jobs._backend = jobs._backend._replace(store=store)  # type: ignore[arg-type]

    @jobs.task
    async def known() -> str:
        return "done"

    return store


@asynccontextmanager
async def working(jobs: JobQueue) -> AsyncIterator[Worker]:
    worker = Worker(jobs, concurrency=10)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(task, PATIENCE)


async def queued(jobs: JobQueue) -> int:
    return sum(queue.queued for queue in (await jobs.inspector.overview()).queues)


async def claims_in_three_audits(jobs: JobQueue, counted: CountingStore) -> int:
    """Return how often the store is asked for a claim while the audit looks three times."""
    # The first audit is in the middle of the start, whose own claims are no looking again.
    await counted.until("ready_queues", 2)
    before = counted.calls["claim"]
    await counted.until("ready_queues", 3)
    return counted.calls["claim"] - before


async def test_trap_9_unknown_types_are_not_asked_for_again_and_again(jobs: JobQueue, counted: CountingStore) -> None:
    await jobs.enqueue_many("unknown", [{}] * 20)
    async with working(jobs):
        assert await claims_in_three_audits(jobs, counted) <= 3
        handle = await jobs.enqueue("known")
        assert await handle.result(PATIENCE) == "done"
    assert await queued(jobs) == 20


async def test_trap_9_can_fail(jobs: JobQueue, counted: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """If whatever is not claimed were offered again, it would come back for ever."""

    async def all_of_them(queue: str, ids: Sequence[str]) -> list[Ready]:
        return [Ready(job_id, queue, 1) for job_id in ids]

    monkeypatch.setattr(counted, "filter_claimable", all_of_them, raising=False)
    await jobs.enqueue_many("unknown", [{}] * 20)
    async with working(jobs):
        assert await claims_in_three_audits(jobs, counted) > 6


async def test_trap_9_a_paused_queue_is_left_alone_and_comes_back(jobs: JobQueue, counted: CountingStore) -> None:
    await jobs.enqueue("known", delay="1h")
    await jobs.operations.pause_queue("default")
    handles = await jobs.enqueue_many("known", [{}] * 20)
    async with working(jobs):
        assert await claims_in_three_audits(jobs, counted) <= 3
        assert await queued(jobs) == 20
        await jobs.operations.resume_queue("default")
        for handle in handles:
            assert await handle.result(PATIENCE) == "done"


async def test_trap_9_a_type_of_other_workers_is_given_back_at_a_measured_pace(
    jobs: JobQueue, counted: CountingStore
) -> None:
    """They are asleep here, so that the jobs come round: some ten times a second, and the own jobs still run."""
    announce(counted, "others", worker="asleep")  # type: ignore[arg-type]
    await jobs.enqueue_many("others", [{}] * 20)
    loop = asyncio.get_running_loop()
    async with working(jobs):
        await counted.until("ready_queues", 1)
        started, before = loop.time(), counted.calls["claim"]
        await counted.until("ready_queues", 3)
        # Two claims a round: of what was nominated, and of what else there is for this worker.
        assert counted.calls["claim"] - before <= 2 * 12 * (loop.time() - started) + 5
        assert await (await jobs.enqueue("known")).result(PATIENCE) == "done"


async def test_trap_9_a_type_of_a_worker_of_other_queues_is_nobodys(jobs: JobQueue, counted: CountingStore) -> None:
    """That somebody has the type helps nothing as long as he looks into other queues."""
    announce(counted, "others", worker="elsewhere", queues=("mail",))  # type: ignore[arg-type]
    await jobs.enqueue_many("others", [{}] * 20)
    async with working(jobs):
        assert await claims_in_three_audits(jobs, counted) <= 3
