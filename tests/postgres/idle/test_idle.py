"""A fleet with nothing to do asks the server for little, and hears at once of what there is to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import AsyncMock

import psycopg
import pytest

from queue_core import JobQueue, Worker
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings
from queue_core.ports.store import DueWork
from queue_core.stores.postgres.store import PostgresStore
from queue_core.worker import leader as sweeper
from tests.conformance.working import working
from tests.waiting import PATIENCE, eventually, least

WORKERS = 16
MOST = 5
"""Statements a second of all of them."""
SECONDS = 20.0
SETTLED = 14.0
"""Seconds after which a worker that has claimed nothing rests, and the server has counted what came before."""


@pytest.fixture(params=["postgres", "postgres+redis"])
def settings(request: pytest.FixtureRequest, postgres_url: str, redis_url: str, redis_prefix: str) -> JobsSettings:
    """Settings of both modes on PostgreSQL."""
    both = request.param == "postgres+redis"
    return JobsSettings(
        queue_backend="redis" if both else "postgres",
        postgres=PostgresSettings(url=postgres_url),
        redis=RedisSettings(url=redis_url if both else None, prefix=redis_prefix),
    )


@asynccontextmanager
async def fleet(settings: JobsSettings, count: int) -> AsyncIterator[list[Worker]]:
    """Run workers, each on a queue object of its own, as if they were processes."""
    async with AsyncExitStack() as stack:
        workers = []
        for _ in range(count):
            jobs = await stack.enter_async_context(JobQueue(settings=settings))

            @jobs.task
            async def work() -> float:
                return time.time()

            workers.append(await stack.enter_async_context(working(jobs, heartbeat="10s")))
        yield workers


def transactions(url: str) -> int:
    """Return how many transactions there were in this database."""
    with psycopg.connect(url, dbname="postgres", autocommit=True) as connection:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        row = connection.execute(
            "select xact_commit + xact_rollback from pg_stat_database where datname = %s", [name]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def rate(url: str) -> float:
    """Return how many transactions a second there are in this database for a while."""
    before, began = transactions(url), time.monotonic()
    await asyncio.sleep(SECONDS)
    return (transactions(url) - before) / (time.monotonic() - began)


async def test_an_idle_fleet_asks_the_server_little(settings: JobsSettings, postgres_url: str) -> None:
    """101 statements a second, one process alone 38."""
    async with fleet(settings, WORKERS):
        await asyncio.sleep(SETTLED)
        assert await least(lambda: rate(postgres_url), MOST) <= MOST


async def test_a_delayed_job_starts_at_its_time_while_the_fleet_is_idle(settings: JobsSettings) -> None:
    """The leader rests for seconds, and hears of what is due before it would look."""
    async with fleet(settings, 2), JobQueue(settings=settings) as producer:
        await asyncio.sleep(SETTLED)
        late = []
        for delay in (0.1, 0.3, 0.7, 1.2, 2.0):
            due = time.time() + delay
            handle = await producer.enqueue("work", delay=delay)
            late.append(await handle.result(PATIENCE) - due)
        assert min(late) > -0.01
        assert sorted(late)[len(late) // 2] < 0.05 * 5, "generous, for a busy machine; the promise is 50 ms"


async def test_a_leader_that_rests_hears_of_what_is_due_sooner(
    settings: JobsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and does not find it by a look: the next one comes much later here."""
    async with fleet(settings, 1) as (worker,), JobQueue(settings=settings) as producer:
        leader = worker._sweeper
        monkeypatch.setattr(sweeper, "IDLE_TICK", 2 * PATIENCE)
        rests = AsyncMock(wraps=leader._rest)
        monkeypatch.setattr(leader, "_rest", rests)
        assert await eventually(lambda: rests.await_args and rests.await_args[0][0] > PATIENCE)
        for delay in (0.2, 1.0):
            handle = await producer.enqueue("work", delay=delay)
            await handle.result(PATIENCE)


async def test_a_leader_rests_until_the_next_job_is_due(settings: JobsSettings) -> None:
    """By the time that its last look has found: no other one is needed."""
    async with JobQueue(settings=settings) as jobs:

        @jobs.task
        async def work() -> None: ...

        sweeps = Worker(jobs)._sweeper
        sweeps._due_work = DueWork(due=0.3, tick=0.4, busy=False, keys_pending=False, operations=False)
        assert await sweeps._until_due() == 0.3
        sweeps._due_work = DueWork(due=None, tick=0.2, busy=False, keys_pending=False, operations=False)
        assert await sweeps._until_due() == 0.2


async def test_an_order_reaches_an_idle_worker_at_once(settings: JobsSettings) -> None:
    """It beats every ten seconds then."""
    async with fleet(settings, 1) as (worker,), JobQueue(settings=settings) as console:
        await asyncio.sleep(SETTLED)
        began = time.monotonic()
        assert await console.operations.command(worker.id, "quiet")
        assert await eventually(lambda: worker._fetcher.quiet)
        assert await console.operations.command(worker.id, "resume")
        assert await eventually(lambda: not worker._fetcher.quiet)
        assert time.monotonic() - began < 5.0


async def test_a_leader_that_ends_well_is_followed_at_once(postgres_url: str) -> None:
    settings = JobsSettings(postgres=PostgresSettings(url=postgres_url))
    async with JobQueue(settings=settings) as jobs, JobQueue(settings=settings) as others:
        for one in (jobs, others):

            @one.task
            async def work() -> None: ...

        async with working(jobs) as first, working(others) as second:
            assert await eventually(lambda: first._sweeper._leads or second._sweeper._leads)
            leader, follower = (first, second) if first._sweeper._leads else (second, first)
            leader.stop()
            leader.stop()
            assert await eventually(lambda: follower._sweeper._leads)


NEXT_TRANSACTION = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


async def test_who_does_not_lead_reads_before_it_locks(postgres_url: str) -> None:
    """A thousand workers wanted two thousand synchronous commits a second, all on one row."""
    leader, other = (PostgresStore(PostgresSettings(url=postgres_url, timeout=2)) for _ in range(2))
    assert await leader.acquire_leadership("sweep", "w1", 30)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("select from leaders for update")
        assert not await other.acquire_leadership("sweep", "w2", 30)
        (before,) = connection.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone() or (
            0,
        )
        for _ in range(20):
            assert not await other.acquire_leadership("sweep", "w2", 30)
        (after,) = connection.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone() or (
            99,
        )
    assert after - before < 20, "who only reads has no transaction number; vacuum may take some"
    for store in (leader, other):
        await store.close()
