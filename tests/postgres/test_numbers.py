"""The numbers of queues after a failover that has lost a queue's row: what is acknowledged from then on is run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings, PostgresSettings
from queue_core.queue import JobQueue
from queue_core.stores.postgres.session import queue_ids
from queue_core.worker.worker import Worker

PATIENCE = 60.0
LOSSES = {
    "lost": "delete from queues where name = 'work'",
    "given to another": "update queues set name = 'other' where name = 'work'",
}


@pytest.fixture
async def jobs(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JobQueue]:
    """A producer with a task in a plain queue, and one in a queue with a limit."""
    monkeypatch.setattr(queue_ids, "REREAD_SECONDS", 0.2)
    rules = {"limited": QueueRules(limit=100)}
    settings = JobsSettings(queue_backend="postgres", postgres=PostgresSettings(url=postgres_url), queues=rules)
    async with JobQueue(settings=settings) as jobs:

        @jobs.task(queue="work")
        async def work() -> str:
            return "done"

        @jobs.task(queue="limited")
        async def limited() -> str:
            return "done"

        yield jobs


async def lose(url: str, how: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(LOSSES[how].encode())


@pytest.mark.parametrize("how", LOSSES)
async def test_jobs_run_whose_queue_a_failover_has_lost(jobs: JobQueue, postgres_url: str, how: str) -> None:
    """The producer and a worker have both used the queue before, and know its number."""
    worker = Worker(jobs)
    task = asyncio.create_task(worker.run())
    async with JobQueue(postgres=postgres_url) as producer:
        for queue in (producer, jobs):
            handle = await queue.enqueue("work", queue="work")
            assert await handle.result(timeout=PATIENCE) == "done"
        await lose(postgres_url, how)
        handles = await producer.enqueue_many("work", [{}] * 3, queue="work")
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            handles.append(await jobs.enqueue("work", queue="work", connection=connection))
        for handle in handles:
            assert handle.queue == "work"
            assert await handle.result(timeout=PATIENCE) == "done"
        assert "work" in {queue.name for queue in (await jobs.inspector.overview()).queues}
    worker.stop()
    await asyncio.wait_for(task, PATIENCE)


@pytest.mark.parametrize("what", ["one", "alike", "unlike", "with a key"])
async def test_no_job_goes_where_the_number_leads_now(postgres_url: str, what: str) -> None:
    """Each of the ways in which jobs are written compares the names of their queues."""
    async with JobQueue(postgres=postgres_url) as producer:
        await producer.enqueue("work", queue="work")
        await lose(postgres_url, "given to another")
        if what == "one":
            handles = [await producer.enqueue("work", queue="work")]
        elif what == "alike":
            handles = await producer.enqueue_many("work", [{}] * 3, queue="work")
        elif what == "unlike":
            handles = await asyncio.gather(*(producer.enqueue("work", queue="work", priority=n) for n in range(3)))
        else:
            handles = [await producer.enqueue("work", queue="work", ordering_key="k")]
        assert {(await producer.inspector.get(handle.id)).queue for handle in handles} == {"work"}


async def test_jobs_under_rules_are_written_under_the_new_number(jobs: JobQueue, postgres_url: str) -> None:
    await jobs.enqueue("limited", queue="limited")
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        await connection.execute("delete from queues where name = 'limited'")
    await jobs.enqueue("limited", queue="limited")
    (queue,) = (await jobs.inspector.overview()).queues
    assert (queue.name, queue.queued) == ("limited", 1)


async def test_an_overview_passes_over_jobs_of_no_queue(jobs: JobQueue, postgres_url: str) -> None:
    await jobs.enqueue("work", queue="work")
    await lose(postgres_url, "lost")
    overview = await jobs.inspector.overview()
    assert overview.queues == ()
    assert (await jobs.health()).healthy
