"""The options of a session: those of the address and of PGOPTIONS are kept, and a pooler that takes none is found."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from queue_core import JobContext, JobQueue
from queue_core.errors import ConfigurationError
from queue_core.model.settings import JobsSettings, PostgresSettings
from queue_core.stores.postgres.migrate import migrate
from queue_core.stores.postgres.session.connection import connection_options, hot_options, prepares
from tests.conformance.working import working
from tests.postgres.poolers.pooler import environment, fresh_name
from tests.waiting import PATIENCE


@pytest.fixture
def schema(empty_postgres_url: str) -> Iterator[str]:
    """A schema that is found by the search path of a session alone, in a database with nothing else in it."""
    name = fresh_name()
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        yield name


async def runs(url: str, **postgres: object) -> bool:
    """Enqueue, run, schedule and look at jobs: every kind of connection takes part."""
    settings = JobsSettings(postgres=PostgresSettings.model_validate({"url": url, **postgres}))
    async with JobQueue(settings=settings) as jobs:

        @jobs.task
        async def work(n: int) -> int:
            return n

        @jobs.task
        async def writing(ctx: JobContext) -> str:
            async with ctx.transaction() as connection:
                cursor = await connection.execute("select current_schema()")
                return str((await cursor.fetchone())[0])

        async with working(jobs):
            handles = [await jobs.enqueue("work", {"n": n}, delay=0.01 * (n % 2)) for n in range(10)]
            assert [await handle.result(PATIENCE) for handle in handles] == list(range(10))
            where = await (await jobs.enqueue("writing")).result(PATIENCE)
            assert (await jobs.health()).healthy
        assert (await jobs.operations.list_operations(10)) == []
        assert len((await jobs.list("status:completed")).jobs) == 11
        facts = await jobs.inspector.facts()
        return facts["schema"] == facts["schema_known"] and str(where).startswith("app_")


async def test_the_options_of_an_address_are_kept(empty_postgres_url: str, schema: str) -> None:
    """The migration found the schema by them, and at run time they were overwritten."""
    url = f"{empty_postgres_url}&options=-csearch_path%3D{schema}"
    migrate(url)
    assert await runs(url)


async def test_pgoptions_are_kept(empty_postgres_url: str, schema: str) -> None:
    with environment(PGOPTIONS=f"-c search_path={schema}"):
        migrate(empty_postgres_url)
        assert await runs(empty_postgres_url)


async def test_options_are_kept_without_prepared_statements(empty_postgres_url: str, schema: str) -> None:
    url = f"{empty_postgres_url}&options=-csearch_path%3D{schema}"
    migrate(url)
    assert await runs(url, prepare=False)


def test_options_of_the_address_come_behind_those_of_this_package(empty_postgres_url: str) -> None:
    """The last one counts: who sets a limit of their own means it."""
    url = f"{empty_postgres_url}&options=-c%20statement_timeout%3D4321"
    settings = PostgresSettings(url=url)
    with psycopg.connect(**hot_options(settings, 1000)) as connection:
        found = [connection.execute(f"show {name}").fetchone() for name in ("statement_timeout", "enable_seqscan")]
    assert found == [("4321ms",), ("off",)]


async def test_a_pooler_that_takes_no_options_is_adapted_to(pooled_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It says "unsupported startup parameter: options", and nothing went."""
    settings = PostgresSettings(url=pooled_url)
    with caplog.at_level(logging.WARNING):
        assert await runs_behind(pooled_url)
    assert not prepares(settings)
    assert "options" not in hot_options(settings)
    said = [record.message for record in caplog.records if "a pooler is in front of PostgreSQL" in record.message]
    assert len(said) == 1, said


async def test_a_pooler_that_forgets_options_is_found(lenient_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It takes them in silence; a prepared statement would then be another client's of the same number."""
    with caplog.at_level(logging.WARNING):
        assert await runs_behind(lenient_url)
    assert not prepares(PostgresSettings(url=lenient_url))
    assert sum("a pooler is in front of PostgreSQL" in record.message for record in caplog.records) == 1


async def test_who_asks_for_prepared_statements_is_believed(postgres_url: str) -> None:
    settings = PostgresSettings(url=postgres_url, prepare=True)
    assert connection_options(settings)["prepare_threshold"] == 2


async def test_options_that_a_pooler_refuses_are_one_sentence(pooled_url: str) -> None:
    """Leaving a search path out in silence would lead into another schema."""
    url = f"{pooled_url}&options=-csearch_path%3Dsomewhere"
    for prepare in ({}, {"prepare": False}):
        settings = JobsSettings(postgres=PostgresSettings.model_validate({"url": url, **prepare}))
        jobs = JobQueue(settings=settings)
        with pytest.raises(ConfigurationError, match="refuses the options of jobs"):
            await jobs.open()
        await jobs.close()


async def runs_behind(url: str) -> bool:
    """Enqueue from several connections and read, which prepared statements would not survive."""
    async with JobQueue(postgres=url) as jobs:
        for n in range(20):
            await jobs.enqueue("work", {"n": n})
            assert (await jobs.inspector.overview()).queues[0].queued == n + 1
        return bool((await jobs.health()).healthy)
