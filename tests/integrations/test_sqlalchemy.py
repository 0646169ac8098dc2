"""`connection=` with all of SQLAlchemy's that leads to a connection: its commit and rollback are the job's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from queue_core import BlockingQueue, InvalidJob, JobNotFound, JobQueue
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings, SqliteSettings
from tests.emptying import new_file


@contextmanager
def session_of_a_connection(engine: Engine) -> Iterator[Session]:
    """Give a session whose connection is not its own."""
    with engine.connect() as connection, Session(connection) as session:
        yield session


WAYS: dict[str, Callable[[Engine], AbstractContextManager[Any]]] = {
    "connection": Engine.connect,
    "session": Session,
    "scoped session": lambda engine: closing(scoped_session(sessionmaker(engine))),
    "session of a connection": session_of_a_connection,
    "connection of the driver": lambda engine: closing(engine.raw_connection()),
}
NESTING = [name for name in WAYS if name != "connection of the driver"]
ASYNC_WAYS: dict[str, Callable[[AsyncEngine], Any]] = {
    "connection": AsyncEngine.connect,
    "session": AsyncSession,
    "scoped session": lambda engine: closing_scope(async_scoped_session(async_sessionmaker(engine), lambda: None)),
}


def closing_scope(session: Any) -> Any:
    """Close such a session at the end of a block."""
    session.aclose = session.close
    return aclosing(session)


class Place(NamedTuple):
    """Where the jobs and the application's tables are."""

    settings: JobsSettings
    url: str


class RolledBack(Exception):
    """Ends a transaction."""


@pytest.fixture(params=["postgres", "postgres+redis", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        new_file(tmp_path / "jobs.db")
        settings = JobsSettings(queue_backend="sqlite", sqlite=SqliteSettings(path=str(tmp_path / "jobs.db")))
        return Place(settings, f"sqlite:///{tmp_path}/jobs.db")
    address = request.getfixturevalue("postgres_url")
    redis = RedisSettings()
    if request.param == "postgres+redis":
        names = ("redis_url", "redis_prefix")
        redis = RedisSettings(**dict(zip(("url", "prefix"), map(request.getfixturevalue, names), strict=True)))
    url = address.replace("postgresql://", "postgresql+psycopg://", 1)
    return Place(JobsSettings(postgres=PostgresSettings(url=address), redis=redis), url)


@pytest.fixture
async def jobs(place: Place) -> AsyncIterator[JobQueue]:
    async with JobQueue(settings=place.settings) as opened:
        yield opened


@pytest.fixture
def queue(place: Place) -> Iterator[BlockingQueue]:
    with JobQueue(settings=place.settings).blocking() as opened:
        yield opened


@pytest.fixture
def engine(place: Place) -> Iterator[Engine]:
    engine = create_engine(place.url)
    yield engine
    engine.dispose()


@pytest.fixture
async def async_engine(place: Place) -> AsyncIterator[AsyncEngine]:
    if place.url.startswith("sqlite"):
        pytest.skip("a queue in a file takes blocking connections")
    engine = create_async_engine(place.url)
    yield engine
    await engine.dispose()


async def there(jobs: JobQueue, *ids: str) -> list[bool]:
    """Return for each of these jobs whether it is there."""
    return [await is_there(jobs.status_of(job_id)) for job_id in ids]


async def is_there(answer: Awaitable[object]) -> bool:
    try:
        await answer
    except JobNotFound:
        return False
    return True


def seen(queue: BlockingQueue, *ids: str) -> list[bool]:
    """Do as `there`."""
    return [queue.count(f"id:{job_id}") == 1 for job_id in ids]


@pytest.mark.parametrize("way", WAYS)
async def test_commit_and_rollback(jobs: JobQueue, engine: Engine, way: str) -> None:
    with WAYS[way](engine) as given:
        gone = await jobs.enqueue("anything", unique="1", connection=given)
        given.rollback()
        kept = await jobs.enqueue("anything", unique="1", connection=given)
        assert await there(jobs, gone.id, kept.id) == [False, False]
        given.commit()
        assert await there(jobs, gone.id, kept.id) == [False, True]
        left = await jobs.enqueue("anything", connection=given)
    assert await there(jobs, left.id) == [False]  # neither was called: the transaction is rolled back


@pytest.mark.parametrize("way", WAYS)
def test_commit_and_rollback_of_a_blocking_client(queue: BlockingQueue, engine: Engine, way: str) -> None:
    with WAYS[way](engine) as given:
        gone = queue.enqueue("anything", ordering_key="1", connection=given)
        given.rollback()
        kept = queue.enqueue("anything", ordering_key="1", connection=given)
        given.commit()
        left = queue.enqueue("anything", connection=given)
    assert seen(queue, gone.id, kept.id, left.id) == [False, True, False]


@pytest.mark.parametrize("way", ASYNC_WAYS)
async def test_commit_and_rollback_of_asynchronous_ones(jobs: JobQueue, async_engine: AsyncEngine, way: str) -> None:
    async with ASYNC_WAYS[way](async_engine) as given:
        gone = await jobs.enqueue("anything", unique="1", connection=given)
        await given.rollback()
        kept = await jobs.enqueue("anything", unique="1", connection=given)
        await given.commit()
        async with given.begin_nested():
            nested = await jobs.enqueue("anything", connection=given)
        with pytest.raises(RolledBack):  # noqa: PT012  the block is the savepoint
            async with given.begin_nested():
                undone = await jobs.enqueue("anything", connection=given)
                raise RolledBack
        await given.commit()
        left = await jobs.enqueue("anything", connection=given)
    assert await there(jobs, gone.id, kept.id, nested.id, undone.id, left.id) == [False, True, True, False, False]


@pytest.mark.parametrize("way", NESTING)
async def test_savepoints(jobs: JobQueue, engine: Engine, way: str) -> None:
    with WAYS[way](engine) as given:
        first = await jobs.enqueue("anything", connection=given)  # without it SQLite's savepoint is no nested one
        with given.begin_nested():
            kept = await jobs.enqueue("anything", connection=given)
        with pytest.raises(RolledBack), given.begin_nested():  # noqa: PT012  the block is the savepoint
            undone = await jobs.enqueue("anything", connection=given)
            raise RolledBack
        given.commit()
        await jobs.enqueue("anything", connection=given)
        with given.begin_nested():
            gone = await jobs.enqueue("anything", connection=given)
        given.rollback()
    assert await there(jobs, first.id, kept.id, undone.id, gone.id) == [True, True, False, False]


async def test_blocks(jobs: JobQueue, engine: Engine) -> None:
    with engine.begin() as connection:
        kept = await jobs.enqueue("anything", connection=connection)
    with pytest.raises(RolledBack), engine.begin() as connection:  # noqa: PT012  the block is the transaction
        gone = await jobs.enqueue("anything", connection=connection)
        raise RolledBack
    assert await there(jobs, kept.id, gone.id) == [True, False]
    with engine.connect() as connection, connection.begin() as block:
        block.rollback()
        with pytest.raises(InvalidRequestError):  # as from any statement in this block
            await jobs.enqueue("anything", connection=connection)
    assert await jobs.count("type:anything") == 1


async def test_autocommit(jobs: JobQueue, engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.name == "sqlite":
            with pytest.raises(InvalidJob, match="in no transaction"):
                await jobs.enqueue("anything", connection=connection)
        else:
            at_once = await jobs.enqueue("anything", unique="1", connection=connection)
            assert await there(jobs, at_once.id) == [True]


async def test_an_engine_that_begins_by_itself(jobs: JobQueue, engine: Engine) -> None:
    """As SQLAlchemy's documentation has it for savepoints in SQLite."""
    if engine.name != "sqlite":
        pytest.skip("is for SQLite")

    @event.listens_for(engine, "connect")
    def connected(driver: Any, _record: object) -> None:
        driver.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    with engine.connect() as connection:
        gone = await jobs.enqueue("anything", connection=connection)
        connection.rollback()
        with connection.begin_nested():
            undone = await jobs.enqueue("anything", connection=connection)
        connection.rollback()
        kept = await jobs.enqueue("anything", connection=connection)
        connection.execute(text("SELECT 1"))
        connection.commit()
    assert await there(jobs, gone.id, undone.id, kept.id) == [False, False, True]


async def test_what_is_no_connection(jobs: JobQueue, engine: Engine) -> None:
    with engine.connect() as connection:
        begun = connection.begin()
        wrong = [engine, sessionmaker(engine), async_sessionmaker(), begun, Session, text("SELECT 1")]
        if engine.name != "sqlite":
            wrong.append(create_async_engine(engine.url))
        for one in wrong:
            with pytest.raises(InvalidJob, match=r"connection= takes a (psycopg|sqlite3) connection, "):
                await jobs.enqueue("anything", connection=one)


def test_a_blocking_client_and_what_is_no_connection(queue: BlockingQueue, engine: Engine) -> None:
    for one in (engine, sessionmaker(engine), async_sessionmaker()):
        with pytest.raises(InvalidJob, match=r"connection= takes a (psycopg|sqlite3) connection, "):
            queue.enqueue("anything", connection=one)
