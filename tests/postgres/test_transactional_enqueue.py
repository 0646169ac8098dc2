"""Jobs in a caller's own transaction: nobody sees them before it commits, and then a worker has them at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from queue_core import InvalidJob, JobNotFound, JobQueue, QueueCoreError, Worker

PATIENCE = 60.0


@pytest.fixture(params=["postgres+redis", "postgres"])
async def jobs(
    request: pytest.FixtureRequest, postgres_url: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[JobQueue]:
    redis = {"redis": redis_url, "prefix": redis_prefix} if request.param == "postgres+redis" else {}
    async with JobQueue(postgres=postgres_url, **redis) as opened:
        yield opened


class RolledBack(Exception):
    """Ends a transaction."""


async def test_it_commits_with_the_callers_work_and_runs(jobs: JobQueue, postgres_url: str) -> None:
    @jobs.task
    async def double(n: int) -> int:
        return 2 * n

    worker = Worker(jobs)
    running = asyncio.create_task(worker.run())
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        async with connection.transaction():
            await connection.execute("CREATE TABLE receipts (n int)")
            handle = await double.options(connection=connection).enqueue(21)
            with pytest.raises(JobNotFound):
                await handle.status()
        assert await handle.result(PATIENCE) == 42
    worker.stop()
    await running


async def test_a_connection_to_another_database_is_refused(jobs: JobQueue, postgres_url: str) -> None:
    """It may have a queue, too, in which the number of this one means another one or none."""
    other = conninfo_to_dict(postgres_url) | {"dbname": "template1"}
    async with await psycopg.AsyncConnection.connect(make_conninfo(**other)) as connection:
        with pytest.raises(InvalidJob, match=r"connection= is to the database 'template1', and the jobs are in '"):
            await jobs.enqueue("anything", connection=connection)
        # Nothing was done to it.
        assert await (await connection.execute("SELECT 1")).fetchall() == [(1,)]


async def test_it_goes_with_the_callers_work(jobs: JobQueue, postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        with pytest.raises(RolledBack):  # noqa: PT012  the block is the transaction
            async with connection.transaction():
                handles = await jobs.enqueue_many("anything", [{"n": 1}, {"n": 2}], connection=connection)
                raise RolledBack
    for handle in handles:
        with pytest.raises(JobNotFound):
            await handle.status()
    assert (await jobs.inspector.conservation()).unfinished == 0
    # The queue was made apart, so its remembered number still holds.
    assert await (await jobs.enqueue("anything")).status() == "queued"


async def test_a_blocking_connection(jobs: JobQueue, postgres_url: str) -> None:
    # Whose cursors, as Django's, have no binary results.
    with psycopg.connect(postgres_url, cursor_factory=psycopg.ClientCursor) as connection:
        kept = await jobs.enqueue("anything", connection=connection)
        connection.commit()
        gone = await jobs.enqueue("anything", connection=connection)
        connection.rollback()
    assert await kept.status() == "queued"
    with pytest.raises(JobNotFound):
        await gone.status()


@pytest.mark.parametrize("options", [{}, {"unique": "k"}, {"ordering_key": "k"}])
async def test_a_connection_whose_texts_are_bytes(jobs: JobQueue, postgres_url: str, options: dict[str, str]) -> None:
    with psycopg.connect(postgres_url, client_encoding="SQL_ASCII") as connection:
        handle = await jobs.enqueue("anything", {"to": "ü"}, connection=connection, **options)
    assert handle.created
    assert (await jobs.get(handle.id)).payload == {"to": "ü"}


async def test_a_blocking_client_writes_in_the_thread_of_its_caller(jobs: JobQueue, postgres_url: str) -> None:
    queue = jobs.blocking()

    def produce() -> tuple[str, str]:
        with psycopg.connect(postgres_url) as connection:
            kept = queue.enqueue("anything", ordering_key="k", connection=connection)
            # Of one client, and its transaction waits for no other's lock.
            assert queue.enqueue("other").status() == "queued"
            connection.commit()
            with Session(create_engine(sqlalchemy_url(postgres_url))) as session:
                gone = queue.enqueue("anything", connection=session)
                session.rollback()
                session.get_bind().dispose()  # type: ignore[union-attr]
        return kept.id, gone.id

    kept, gone = await asyncio.to_thread(produce)
    assert await jobs.status_of(kept) == "queued"
    with pytest.raises(JobNotFound):
        await jobs.status_of(gone)
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        with pytest.raises(InvalidJob, match=r"takes a blocking connection, not psycopg\.AsyncConnection"):
            await asyncio.to_thread(queue.enqueue, "anything", connection=connection)


def sqlalchemy_url(postgres_url: str) -> str:
    return postgres_url.replace("postgresql://", "postgresql+psycopg://", 1)


async def test_a_connection_in_pipeline_mode(jobs: JobQueue, postgres_url: str) -> None:
    """The driver shows whether a statement has rows only when they are fetched."""
    connection = await psycopg.AsyncConnection.connect(postgres_url)
    async with connection, connection.pipeline(), connection.transaction():
        first = await jobs.enqueue("anything", {"n": 1}, connection=connection)
        keyed = await jobs.enqueue("anything", {"n": 2}, ordering_key="a", connection=connection)
        unique = await jobs.enqueue("anything", {"n": 3}, unique="one", connection=connection)
        again = await jobs.enqueue("anything", {"n": 4}, unique="one", connection=connection)
    assert [await handle.status() for handle in (first, keyed, unique)] == ["queued"] * 3
    assert again.id == unique.id


async def test_an_sqlalchemy_session(jobs: JobQueue, postgres_url: str) -> None:
    engine = create_engine(sqlalchemy_url(postgres_url))
    with Session(engine) as session:
        session.execute(text("CREATE TABLE receipts (n int)"))
        kept = await jobs.enqueue("anything", connection=session)
        session.commit()
        gone = await jobs.enqueue("anything", connection=session)
        session.rollback()
    engine.dispose()
    assert await kept.status() == "queued"
    with pytest.raises(JobNotFound):
        await gone.status()


async def test_an_async_sqlalchemy_session(jobs: JobQueue, postgres_url: str) -> None:
    engine = create_async_engine(sqlalchemy_url(postgres_url))
    async with AsyncSession(engine) as session:
        await session.execute(text("CREATE TABLE receipts (n int)"))
        kept = await jobs.enqueue("anything", connection=session)
        await session.commit()
        gone = await jobs.enqueue("anything", connection=session)
        await session.rollback()
    await engine.dispose()
    assert await kept.status() == "queued"
    with pytest.raises(JobNotFound):
        await gone.status()


@pytest.mark.parametrize("wrong", ["postgresql://", object(), 1])
async def test_what_is_no_connection(jobs: JobQueue, wrong: Any) -> None:
    with pytest.raises(InvalidJob, match="psycopg"):
        await jobs.enqueue("anything", connection=wrong)


async def test_a_store_without_transactions(redis_url: str) -> None:
    async with JobQueue(redis=redis_url) as jobs:
        with pytest.raises(QueueCoreError, match="PostgreSQL"):
            await jobs.enqueue("anything", connection=object())


async def test_others_look_up_the_queue_at_the_same_time(jobs: JobQueue, postgres_url: str) -> None:
    """Each transactional enqueue has its queue's number read again, which took it from those that were using it."""

    async def apart(key: str) -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            await jobs.enqueue("anything", {}, connection=connection, ordering_key=key)

    for number in range(5):
        await asyncio.gather(
            *(apart(f"{number}-{one}") for one in range(4)),
            *(jobs.enqueue("anything", {}, unique=f"{number}-{one}") for one in range(4)),
        )
    assert (await jobs.inspector.conservation()).unfinished == 40
