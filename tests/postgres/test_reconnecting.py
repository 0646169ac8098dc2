"""Connections that the server has ended while they were idle: the next calls find it out, and nobody hears of it."""

from __future__ import annotations

import asyncio

import psycopg

from queue_core import JobQueue, Worker
from queue_core.model.job import LogLine
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, WORKER, held, new_job, outcome, worker_beat
from tests.waiting import PATIENCE, eventually

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
ROUNDS = 3


async def end_all(url: str) -> None:
    """End all other connections to this database, and wait until the server has closed them."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as hand:
        cursor = await hand.execute("SELECT pid, pg_terminate_backend(pid) " + OTHERS)
        ended = [pid for pid, _ in await cursor.fetchall()]

        async def gone() -> bool:
            left = await hand.execute("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", [ended])
            return not await left.fetchall()

        assert await eventually(gone)


async def test_enqueue_and_status_survive_the_end_of_idle_connections(postgres_url: str) -> None:
    async with JobQueue(postgres=postgres_url) as jobs:
        handle = await jobs.enqueue("anything")
        for _ in range(ROUNDS):
            assert await handle.status() == "queued"
            await end_all(postgres_url)
            handle = await jobs.enqueue("anything")
            await end_all(postgres_url)
            assert await handle.status() == "queued"


async def test_leases_that_a_successor_has_are_given_back_by_the_worker_that_held_them(postgres_url: str) -> None:
    """As after a failover to a replica that had the claim of a job and not its end."""
    runs: list[int] = []
    async with JobQueue(postgres=postgres_url) as jobs:

        @jobs.task
        async def work(n: int) -> None:
            runs.append(n)

        await jobs.enqueue("work", {"n": 1})
        worker = Worker(jobs, lease="1h", heartbeat="10m")
        await jobs.store.acquire_leadership("sweep", worker.id, LEASE)
        assert len(await jobs.store.claim(ClaimRequest("default", worker.id, None, 1, 3600.0, number=1))) == 1
        running = asyncio.create_task(worker.run())
        last = await jobs.enqueue("work", {"n": 2})
        await last.result(timeout=PATIENCE)
        assert runs == [2]
        await end_all(postgres_url)
        assert await eventually(lambda: 1 in runs)
        worker.stop()
        await running


async def test_each_connection_of_a_store_notices_its_end_before_it_is_used(postgres_url: str) -> None:
    """Nothing was sent on it, so that nothing is in doubt: neither a batch of jobs nor a claim nor a heartbeat."""
    store = PostgresStore(PostgresSettings(url=postgres_url))
    heart = store.open_heartbeat()
    try:
        await store.open()
        await store.acquire_leadership("sweep", WORKER, LEASE)
        for _ in range(ROUNDS):
            job = new_job()
            await end_all(postgres_url)
            await store.insert([job])
            await end_all(postgres_url)
            assert [final.id for final in await store.results([job.id])] == [job.id]
            await end_all(postgres_url)
            (claim,) = await store.claim(ClaimRequest(QUEUE, WORKER, None, 1, LEASE))
            await end_all(postgres_url)
            assert heart.renew(worker_beat(held(claim))).lost == ()
            await end_all(postgres_url)
            assert await store.log([LogLine(claim.id, claim.token, claim.queue, 1, "text")]) == [True]
            await end_all(postgres_url)
            assert [one.accepted for one in await store.settle([outcome(claim, "completed")])] == [True]
            await end_all(postgres_url)
            assert await store.promote(10) == []
    finally:
        heart.close()
        await store.close()
