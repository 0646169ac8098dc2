"""Jobs in a transaction of the application's on the same file."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from queue_core import BlockingQueue, InvalidJob, JobNotFound, JobQueue, QueueFull, Worker
from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings, SqliteSettings

RULES = {"small": QueueRules(limit=1, aging=60)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def queue(path: Path) -> Iterator[BlockingQueue]:
    settings = JobsSettings(queue_backend="sqlite", sqlite=SqliteSettings(path=str(path)), queues=RULES)
    with JobQueue(settings=settings).blocking() as queue:
        yield queue


def test_it_commits_or_goes_with_the_callers_work(queue: BlockingQueue, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.row_factory = lambda cursor, row: {"what": "a row of the application's own kind"}
    connection.execute("CREATE TABLE orders (id INTEGER)")
    kept = queue.enqueue("confirm", {"order": 1}, connection=connection, ordering_key="a", unique="1")
    connection.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(JobNotFound):
        kept.status()
    connection.commit()
    assert kept.status() == "queued"
    gone = queue.enqueue("confirm", {"order": 2}, connection=connection)
    connection.rollback()
    with pytest.raises(JobNotFound):
        gone.status()
    queue.enqueue("confirm", queue="small", connection=connection)
    with pytest.raises(QueueFull):
        queue.enqueue("confirm", queue="small", connection=connection)
    connection.rollback()
    connection.close()


def test_sqlalchemy_and_what_is_refused(queue: BlockingQueue, path: Path, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with Session(engine) as session:
        handle = queue.enqueue("confirm", connection=session)
        session.commit()
    engine.dispose()
    assert handle.status() == "queued"
    other = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(InvalidJob, match=r"connection= is to .*other\.db, and the jobs are in .*jobs\.db"):
        queue.enqueue("confirm", connection=other)
    other.close()
    free = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(InvalidJob, match="in no transaction"):
        queue.enqueue("confirm", connection=free)
    free.execute("BEGIN")
    assert queue.enqueue("confirm", connection=free).created
    free.execute("COMMIT")
    free.close()
    with pytest.raises(InvalidJob, match=r"takes a sqlite3 connection, .*, not builtins\.str"):
        queue.enqueue("confirm", connection="jobs.db")


async def test_a_worker_has_it_soon(path: Path) -> None:
    async with JobQueue(sqlite=path) as jobs:

        @jobs.task
        async def double(n: int) -> int:
            return 2 * n

        worker = Worker(jobs)
        running = asyncio.create_task(worker.run())
        connection = sqlite3.connect(path)
        handle = await double.options(connection=connection).enqueue(21)
        connection.commit()
        connection.close()
        assert await handle.result(timeout=60) == 42
        worker.stop()
        await running


async def test_the_first_use_is_in_a_transaction_that_has_written(path: Path) -> None:
    async with JobQueue(sqlite=path):
        pass
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.execute("INSERT INTO orders VALUES (1)")
    jobs = JobQueue(sqlite=path)  # it opens while the caller holds the file's write lock
    async with asyncio.timeout(5):
        await jobs.enqueue("confirm", connection=connection)
    connection.commit()
    connection.close()
    assert await jobs.count("type:confirm") == 1
    await jobs.close()


def test_a_connection_that_gives_texts_as_bytes(queue: BlockingQueue, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    kept = queue.enqueue("confirm", {"n": 1}, connection=connection, ordering_key="a", unique="1")
    again = queue.enqueue("confirm", {"n": 2}, connection=connection, unique="1")
    queue.enqueue("confirm", queue="small", connection=connection)
    with pytest.raises(QueueFull):
        queue.enqueue("confirm", queue="small", connection=connection)
    assert connection.text_factory is bytes
    connection.commit()
    connection.close()
    assert (again.id, again.created, kept.status()) == (kept.id, False, "queued")
