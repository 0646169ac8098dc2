"""A worker that other workers were faster than asks again: with a backlog it waits for no notification.

A claim takes its snapshot before it locks rows. It locks what another claim commits between both, and cannot have it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from queue_core import JobQueue, Worker
from queue_core.model.job import Claim
from queue_core.model.rules import QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.delivery.dispatcher import PostgresDispatcher
from queue_core.stores.postgres.session.listening import Notifications
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job
from tests.postgres.traps.hands import Hand

RIVAL = """
    INSERT INTO leases (id, token, queue_id, worker, started_at, expires_at, started, claim, release)
    SELECT id, 1, queue_id, 'rival', now(), now() + interval '1 hour', true, 1, 0 FROM jobs ORDER BY rank LIMIT %(n)s
"""
"""As a claim whose commit comes late: without the locks that another one would leave out."""
BLOCKED = "SELECT pid FROM pg_stat_activity WHERE %(pid)s = ANY (pg_blocking_pids(pid))"
PATIENCE = 60


class Process:
    """What a worker asks for jobs with."""

    def __init__(self, url: str, rules: QueueRules) -> None:
        settings = PostgresSettings(url=url)
        notifications = Notifications(settings)
        self.store = PostgresStore(settings, rules={QUEUE: rules}, notifications=notifications)
        self.dispatcher = PostgresDispatcher(settings, notifications)

    async def claim(self, limit: int) -> list[Claim]:
        return await self.store.claim(ClaimRequest(QUEUE, "worker-1", (TYPE,), limit, LEASE))

    async def is_asked_again(self) -> bool:
        """Return whether the queue is named to a worker that waits."""
        taken = await self.dispatcher.take([QUEUE], 10, 2)
        return taken is not None and taken.queue == QUEUE

    async def settle_down(self) -> None:
        """Wait until no notification is on its way."""
        while await self.dispatcher.take([QUEUE], 10, 0.5):
            pass


async def opened(url: str, rules: QueueRules) -> AsyncIterator[Process]:
    process = Process(url, rules)
    await process.store.open()
    yield process
    await process.dispatcher.close()
    await process.store.close()


@pytest.fixture(params=[QueueRules(), QueueRules(aging="5m"), QueueRules(concurrency=100, rate="1000/s")])
async def process(postgres_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Process]:
    async for process in opened(postgres_url, request.param):
        yield process


async def lose(process: Process, url: str, limit: int, to_rival: int) -> list[Claim]:
    """Claim while another worker's claim of the first jobs is about to be committed."""
    with Hand(url) as rival, Hand(url) as watcher:
        rival.do('SET search_path = "jobconsole"')
        with rival.transaction():
            rival.do(RIVAL, {"n": to_rival})
            claiming = asyncio.create_task(process.claim(limit))
            while not watcher.do(BLOCKED, {"pid": rival.pid}):
                assert not claiming.done(), "the claim was to wait for the rival's"
                await asyncio.sleep(0)
        return await claiming


@pytest.mark.parametrize("to_rival", [3, 5])
async def test_who_loses_some_or_all_asks_again(process: Process, postgres_url: str, to_rival: int) -> None:
    await process.store.acquire_leadership("sweep", "leader", 0)
    await process.store.insert([new_job() for _ in range(20)])
    await process.settle_down()
    assert len(await lose(process, postgres_url, 5, to_rival)) == 5 - to_rival
    assert await process.is_asked_again()
    assert len(await process.claim(5)) == 5
    assert not await process.is_asked_again()


async def test_who_finds_nothing_does_not(process: Process) -> None:
    await process.store.acquire_leadership("sweep", "leader", 0)
    await process.store.insert([new_job() for _ in range(3)])
    await process.settle_down()
    assert len(await process.claim(10)) == 3
    assert await process.claim(10) == []
    assert not await process.is_asked_again()


async def test_before_there_is_an_epoch_a_worker_asks_again_until_there_is_one(process: Process) -> None:
    """So it is in a new database and after a crash of the server, until a leader has raised it."""
    await process.store.insert([new_job() for _ in range(5)])
    await process.settle_down()
    for _ in range(2):
        assert await process.claim(5) == []
        assert await process.is_asked_again()
    await process.store.acquire_leadership("sweep", "leader", 0)
    assert len(await process.claim(5)) == 5


async def test_every_worker_works_until_a_backlog_is_done(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three workers drain what was there before them; each is at work in the last part, too."""
    monkeypatch.setenv("JOBS__POSTGRES__URL", postgres_url)
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "postgres")
    total, ran = 6_000, []
    done = asyncio.Event()

    def made(number: int) -> JobQueue:
        jobs = JobQueue.from_settings()

        @jobs.task(name="note")
        async def note() -> None:
            ran.append(number)
            if len(ran) >= total:
                done.set()

        return jobs

    queues = [made(number) for number in range(3)]
    for start in range(0, total, 1_000):
        await queues[0].enqueue_many("note", [{} for _ in range(min(1_000, total - start))])
    workers = [Worker(jobs, concurrency=50) for jobs in queues]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    async with asyncio.timeout(PATIENCE):
        await done.wait()
    for worker in workers:
        worker.stop()
    await asyncio.gather(*running)
    for jobs in queues:
        await jobs.close()
    late = Counter(ran[total // 2 :])
    assert set(late) == {0, 1, 2}, f"of the last {total // 2} jobs each ran: {late}"
