"""A caller's transaction that waits for what another one holds: for so long, with its own settings afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from queue_core import JobQueue, QueueFull, StoreUnavailable
from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings
from tests.postgres.conftest import Caller
from tests.waiting import eventually

PATIENCE = 60.0
TIMEOUT = 1.0
QUEUES = {"limited": QueueRules(limit=100), "fifo": QueueRules(fifo=True), "small": QueueRules(limit=1)}
HELD: dict[str, dict[str, Any]] = {
    "unique": {"unique": "k"},
    "ordering": {"ordering_key": "k"},
    "limit": {"queue": "limited"},
    "fifo": {"queue": "fifo"},
}


@pytest.fixture(params=["postgres+redis", "postgres"])
async def jobs(
    request: pytest.FixtureRequest, postgres_url: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[JobQueue]:
    redis = RedisSettings(url=redis_url, prefix=redis_prefix) if request.param == "postgres+redis" else RedisSettings()
    postgres = PostgresSettings(url=postgres_url, timeout=TIMEOUT)
    async with JobQueue(settings=JobsSettings(postgres=postgres, redis=redis, queues=QUEUES)) as opened:
        yield opened


@pytest.fixture
async def patient_jobs(postgres_url: str) -> AsyncIterator[JobQueue]:
    """Whose own limit is far away."""
    settings = JobsSettings(postgres=PostgresSettings(url=postgres_url, timeout=10 * PATIENCE), queues=QUEUES)
    async with JobQueue(settings=settings) as opened:
        yield opened


@pytest.fixture
async def caller(postgres_url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        yield connection


async def lock_timeout(connection: Caller) -> str:
    row = await (await connection.execute("SHOW lock_timeout")).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("held", HELD)
async def test_the_wait_ends(jobs: JobQueue, holder: Caller, caller: Caller, held: str) -> None:
    await jobs.enqueue("anything", connection=holder, **HELD[held])
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable, match="do not let go"):
            await jobs.enqueue("anything", connection=caller, **HELD[held])
    assert caller.info.transaction_status == TransactionStatus.INERROR
    await caller.rollback()
    await holder.rollback()
    assert (await jobs.enqueue("anything", connection=caller, **HELD[held])).created
    await caller.commit()
    assert await jobs.count("type:anything") == 1


@pytest.mark.parametrize("held", HELD)
async def test_the_wait_of_a_blocking_client_ends(jobs: JobQueue, holder: Caller, postgres_url: str, held: str) -> None:
    await jobs.enqueue("anything", connection=holder, **HELD[held])
    queue = jobs.blocking()

    def produce() -> None:
        with psycopg.connect(postgres_url) as connection:
            with pytest.raises(StoreUnavailable, match="do not let go"):
                queue.enqueue("anything", connection=connection, **HELD[held])
            connection.rollback()

    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(produce)
    await holder.commit()
    assert await jobs.count("type:anything") == 1


async def test_a_savepoint_keeps_the_rest(jobs: JobQueue, holder: Caller, caller: Caller) -> None:
    await jobs.enqueue("anything", unique="k", connection=holder)
    await caller.execute("SET LOCAL lock_timeout = '70s'")
    kept = await jobs.enqueue("anything", unique="other", connection=caller)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable):
            async with caller.transaction():
                await jobs.enqueue("anything", unique="k", connection=caller)
    assert await lock_timeout(caller) == "70s"
    await caller.commit()
    assert await kept.status() == "queued"


@pytest.mark.parametrize("pipelined", [False, True])
async def test_a_shorter_limit_of_the_caller_s_holds(
    patient_jobs: JobQueue, holder: Caller, caller: Caller, pipelined: bool
) -> None:
    await patient_jobs.enqueue("anything", unique="k", connection=holder)
    await caller.execute("SET lock_timeout = '20ms'")
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable, match="do not let go"):
            async with caller.pipeline() if pipelined else nullcontext():
                await patient_jobs.enqueue("anything", unique="k", connection=caller)


@pytest.mark.parametrize("local", ["", "LOCAL"])
@pytest.mark.parametrize("own", ["0", "20ms", "90min"])
async def test_the_caller_s_own_limit_is_put_back(jobs: JobQueue, caller: Caller, local: str, own: str) -> None:
    await caller.execute("SET lock_timeout = '7d'")
    await caller.commit()
    await caller.execute(f"SET {local} lock_timeout = '{own}'")
    await jobs.enqueue("anything", unique="k", queue="small", connection=caller)
    assert await lock_timeout(caller) == own
    with pytest.raises(QueueFull):
        await jobs.enqueue("anything", unique="other", queue="small", connection=caller)
    assert await lock_timeout(caller) == own
    async with caller.pipeline():
        with pytest.raises(QueueFull):
            await jobs.enqueue("anything", unique="other", queue="small", connection=caller)
        assert await lock_timeout(caller) == own
    await caller.commit()
    assert await lock_timeout(caller) == ("7d" if local else own)


async def test_a_wait_that_is_cancelled_fails_the_transaction(
    patient_jobs: JobQueue, holder: Caller, caller: Caller
) -> None:
    await patient_jobs.enqueue("anything", unique="k", connection=holder)
    waiting = asyncio.create_task(patient_jobs.enqueue("anything", unique="k", connection=caller))
    waits = "SELECT cardinality(pg_blocking_pids(%s)) > 0"

    async def blocked() -> bool:
        return await (await holder.execute(waits, [caller.info.backend_pid])).fetchone() == (True,)

    assert await eventually(blocked)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert caller.info.transaction_status == TransactionStatus.INERROR


async def test_a_connection_in_autocommit(jobs: JobQueue, holder: Caller, caller: Caller, postgres_url: str) -> None:
    """Each call is one transaction: what it could not write leaves nothing, and the connection is of use."""
    await caller.set_autocommit(True)
    await jobs.enqueue("anything", unique="k", connection=holder)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable):
            await jobs.enqueue("anything", unique="k", connection=caller)
    await holder.rollback()
    at_once = await jobs.enqueue("anything", unique="k", queue="small", connection=caller)
    assert await at_once.status() == "queued"
    assert await lock_timeout(caller) == "0"
    with pytest.raises(QueueFull):
        await jobs.enqueue("anything", unique="other", queue="small", connection=caller)
    # Whose key was not kept by the call that was refused.
    assert (await jobs.enqueue("anything", unique="other", connection=caller)).created

    def produce() -> bool:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            return jobs.blocking().enqueue("anything", unique="third", connection=connection).created

    assert await asyncio.to_thread(produce)
    assert await jobs.count("type:anything") == 3
    async with caller.transaction():  # which commits what is in it
        inside = await jobs.enqueue("anything", unique="fourth", connection=caller)
        raise psycopg.Rollback
    assert await jobs.count(f"id:{inside.id}") == 0
