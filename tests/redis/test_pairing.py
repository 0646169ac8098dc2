"""Two applications on one database with different Redis: who differs is told, and the jobs of both run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from redis.asyncio import Redis

from queue_core.delivery import pairing as pairing_module
from queue_core.delivery.pairing import Pairing
from queue_core.queue import JobQueue
from queue_core.retry import Retry
from queue_core.worker.worker import Worker
from tests.redis.test_databases import in_database

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are looked at often."""
    monkeypatch.setattr(pairing_module, "PAIRED", 1.0)
    monkeypatch.setattr(pairing_module, "DOUBTFUL", 0.2)


def pairing_of(jobs: JobQueue) -> Pairing:
    assert jobs.pairing is not None
    return jobs.pairing


async def found(jobs: JobQueue) -> tuple[bool, str]:
    """Look, as a worker that starts does; return what was found."""
    await pairing_of(jobs).look()
    return pairing_of(jobs).doubtful, pairing_of(jobs).reason


@asynccontextmanager
async def application(postgres: str, redis: str, prefix: str, queue: str) -> AsyncIterator[JobQueue]:
    """An application with a task that succeeds at the second try, and a worker."""
    async with JobQueue(postgres=postgres, redis=redis, prefix=prefix) as jobs:

        @jobs.task(name=queue, queue=queue, retry=Retry(max_retries=3, delay=0.2))
        async def flaky(job: str) -> str:
            if job not in failed:
                failed.add(job)
                raise ValueError("at first")
            return "done"

        failed: set[str] = set()
        worker = Worker(jobs)
        task = asyncio.create_task(worker.run())
        yield jobs
        worker.stop()
        await asyncio.wait_for(task, PATIENCE)


async def run_every_kind(jobs: JobQueue, postgres: str, queue: str) -> None:
    """Let a plain, a delayed and a transactional job run, each with a retry."""
    handles = [await jobs.enqueue(queue, {"job": "plain"}, queue=queue)]
    handles.append(await jobs.enqueue(queue, {"job": "delayed"}, queue=queue, delay=0.2))
    async with await psycopg.AsyncConnection.connect(postgres) as connection:
        handles.append(await jobs.enqueue(queue, {"job": "transactional"}, queue=queue, connection=connection))
    for handle in handles:
        assert await handle.result(timeout=PATIENCE) == "done"


@pytest.mark.parametrize("other", ["prefix", "database"])
async def test_jobs_of_two_applications_on_one_database_run(
    postgres_url: str, redis_url: str, redis_prefix: str, other: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Retries, delayed and transactional jobs are offered by the leader: to its own Redis."""
    prefix = f"{redis_prefix}other:" if other == "prefix" else redis_prefix
    url = in_database(redis_url, 5) if other == "database" else redis_url
    async with application(postgres_url, redis_url, redis_prefix, "one") as one:
        assert not (await one.health()).reason
        async with application(postgres_url, url, prefix, "two") as two:
            with caplog.at_level(logging.WARNING):
                await run_every_kind(two, postgres_url, "two")
            await run_every_kind(one, postgres_url, "one")
            for jobs in (one, two):
                health = await jobs.health()
                assert health.healthy
                assert "another" in health.reason
                assert health.degraded_since is not None
            assert f"'{prefix}'" in (await one.health()).reason
            assert "another Redis" in caplog.text


@asynccontextmanager
async def unopened(postgres: str, redis: str, prefix: str) -> AsyncIterator[JobQueue]:
    """A process of an application, without a worker."""
    async with JobQueue(postgres=postgres, redis=redis, prefix=prefix) as jobs:
        yield jobs


async def test_one_application_is_a_pair_from_the_start(postgres_url: str, redis_url: str, redis_prefix: str) -> None:
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(postgres_url, redis_url, redis_prefix) as second,
    ):
        # Who comes between the two writes of the other has to look again.
        assert {reason for _, reason in await asyncio.gather(found(first), found(second))} == {""}
        assert await asyncio.gather(found(first), found(second)) == [(False, "")] * 2


async def test_an_emptied_redis_gets_its_identity_again(
    postgres_url: str, redis_url: str, redis_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is warned: who has seen the pair puts it right, and who starts meanwhile waits for that."""
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(postgres_url, redis_url, redis_prefix) as second,
        Redis.from_url(redis_url) as client,
    ):
        await found(first)
        await client.delete(f"{redis_prefix}identity", f"{redis_prefix}identity:confirmed")
        with caplog.at_level(logging.WARNING, "queue_core"):
            assert await found(second) == (True, "")
            assert await found(first) == (False, "")
            assert await found(second) == (False, "")
        assert not caplog.records


async def test_a_new_redis_is_taken_when_nobody_uses_the_old_one(
    postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing_module, "WINDOW", 0.3)
    async with unopened(postgres_url, redis_url, redis_prefix) as old:
        await found(old)
    async with unopened(postgres_url, redis_url, f"{redis_prefix}new:") as new:
        await asyncio.sleep(0.4)
        assert await found(new) == (False, "")


async def test_a_restored_database_is_taken_when_nobody_uses_another(
    postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with unopened(postgres_url, redis_url, redis_prefix) as jobs:
        await found(jobs)
        with psycopg.connect(postgres_url) as connection:
            connection.execute("delete from leaders")
        assert await found(jobs) == (False, "")
        assert (await jobs.health()).reason == ""


async def test_a_redis_of_another_database_is_told(
    postgres_url: str, empty_postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    from queue_core.stores.postgres.migrate import migrate

    migrate(empty_postgres_url)
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(empty_postgres_url, redis_url, redis_prefix) as second,
    ):
        await found(first)
        doubtful, reason = await found(second)
        assert doubtful
        assert "another database" in reason


@asynccontextmanager
async def without_redis(postgres: str) -> AsyncIterator[JobQueue]:
    """A process in mode `postgres`."""
    async with JobQueue(postgres=postgres) as jobs:
        yield jobs


async def test_a_worker_without_redis_on_a_database_with_one_is_told(
    postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    """What it makes ready, as the leader, that Redis does not hear of; whoever uses it looks into the database then."""
    async with (
        without_redis(postgres_url) as alone,
        unopened(postgres_url, redis_url, redis_prefix) as pair,
    ):
        assert await found(alone) == (False, "")
        assert (await alone.health()).reason == ""
        await found(pair)
        assert await found(alone) == (False, "")
        with psycopg.connect(postgres_url) as connection:
            connection.execute("update leaders set expires_at = expires_at + interval '5 s' where duty = 'delivery'")
        doubtful, reason = await found(alone)
        assert doubtful
        assert "has none" in reason
        assert (await alone.health()).reason == reason
        doubtful, reason = await found(pair)
        assert doubtful
        assert "mode postgres" in reason


async def test_a_worker_without_redis_takes_over_from_those_that_had_one(
    postgres_url: str, redis_url: str, redis_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is warned: the pair is not confirmed any more."""
    async with (
        without_redis(postgres_url) as alone,
        unopened(postgres_url, redis_url, redis_prefix) as before,
    ):
        await found(before)
        with caplog.at_level(logging.WARNING, "queue_core"):
            for _ in range(3):
                assert await found(alone) == (False, "")
        assert not caplog.records
