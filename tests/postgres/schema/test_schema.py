"""All that a queue keeps in PostgreSQL is in a schema of its own, and no search_path is needed to find it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib.resources import files

import psycopg
import pytest
from psycopg import sql

from queue_core import ConfigurationError, JobNotFound, JobQueue, SchemaError, SchemaMissing
from queue_core.blocks import blocks_of
from queue_core.delivery import pairing
from queue_core.model.events import Event
from queue_core.model.settings import SCHEMA, JobsSettings, PostgresSettings, settings_from
from queue_core.stores.postgres.dialect import LONGEST_NAME, channels_of, load
from queue_core.stores.postgres.migrate import KNOWN, check, migrate
from queue_core.stores.sql.migrations import FIRST_VERSION
from tests.conformance.modes import nowhere
from tests.conformance.working import PATIENCE, until, working
from tests.servers import random_name
from tests.waiting import eventually

APPLIED = list(range(FIRST_VERSION, KNOWN + 1))
UTILITY = ("BEGIN", "SET ", "COMMIT", "ROLLBACK", "LISTEN", "UNLISTEN", "DISCARD", "CREATE", "DROP", "ALTER", "DO ")
"""How statements begin that cannot be prepared."""
PARTS = ("deaths", "deaths_of")
"""Parts of other statements."""
LONG = "a_name_of_sixty_three_bytes_that_begins_like_another_one_does_"
OURS = ("jobs", "workers", "queues", "leases", "leaders", "operations", "schedules", "job_seq", "schema_version")
"""Names that an application may have given to its own tables."""


def statements() -> Iterator[tuple[str, str]]:
    """Answer the name and text of every statement that has no places to fill in."""
    for file in sorted(files("queue_core.stores.postgres").joinpath("sql").iterdir(), key=lambda one: one.name):
        if file.name != "conditions.sql":
            for block in blocks_of(file.read_text(encoding="utf-8")):
                name = f"{file.name.removesuffix('.sql')}/{block}"
                text = load(name, SCHEMA).decode()
                if not re.search(r"\{\w+\}", text) and not text.startswith(UTILITY) and block not in PARTS:
                    yield name, text


@pytest.fixture
def bare(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection that finds nothing without a schema."""
    with psycopg.connect(nowhere(postgres_url), autocommit=True) as connection:
        yield connection


def test_every_statement_names_its_schema(bare: psycopg.Connection[tuple[object, ...]]) -> None:
    failed = {}
    for name, text in statements():
        numbers: dict[str, int] = {}
        numbered = re.sub(
            r"%\((\w+)\)s",
            lambda found, known=numbers: f"${known.setdefault(found[1], len(known) + 1)}",
            text,
        ).replace("%%", "%")
        try:
            bare.execute(f"prepare one as {numbered}".encode(), prepare=False)
            bare.execute("deallocate one")
        except psycopg.Error as error:
            failed[name] = str(error)
    assert failed == {}
    assert len(list(statements())) > 100


def test_functions_run_on_no_search_path(bare: psycopg.Connection[tuple[object, ...]]) -> None:
    rows = bare.execute(
        "select jobconsole.make_job_history(9), jobconsole.aged_rank(5::smallint, 1, 1), "
        "jobconsole.priority_band(5::smallint), jobconsole.payload_matches('{\"n\": 1}', '{n}', '=', '1', 1)"
    )
    assert rows.fetchall() == [(2, 122, "normal", True)]


def test_no_parallel_plan_begins_a_subtransaction(bare: psycopg.Connection[tuple[object, ...]]) -> None:
    """A block that catches errors does, which PostgreSQL 15 and 16 refuse there, so that such filters failed."""
    rows = bare.execute(
        "select proname from pg_proc where pronamespace = 'jobconsole'::regnamespace"
        " and prosrc ~* '\\mexception\\s+when' and proparallel <> 'u'"
    )
    assert rows.fetchall() == []


def test_nothing_is_made_outside(empty_postgres_url: str) -> None:
    migrate(empty_postgres_url, "elsewhere")
    with psycopg.connect(empty_postgres_url) as connection:
        rows = connection.execute(
            "select distinct n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname !~ '^(pg_|information_schema)'"
        )
        assert rows.fetchall() == [("elsewhere",)]
        connection.execute("drop schema elsewhere cascade")
        left = connection.execute(
            "select count(*) from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public'"
        )
        assert left.fetchall() == [(0,)]


@contextmanager
def role(url: str, *grants: str) -> Iterator[tuple[str, str]]:
    """Make a role whose search_path is empty, with some grants; answer its name and its address."""
    name = random_name("role")
    with psycopg.connect(url, autocommit=True) as connection:
        place = sql.Identifier(name)
        database = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("create role {} login").format(place))
        connection.execute(sql.SQL("alter role {} in database {} set search_path = ''").format(place, database))
        try:
            for grant in grants:
                connection.execute(sql.SQL(grant).format(role=place, database=database))
            yield name, re.sub(r"//[^@/]*@", f"//{name}@", url, count=1)
        finally:
            connection.execute(sql.SQL("drop owned by {} cascade").format(place))
            connection.execute(sql.SQL("drop role {}").format(place))


async def runs(url: str, schema: str = SCHEMA) -> None:
    """Enqueue jobs of every kind, one in a transaction of the caller, and let them run."""
    async with JobQueue(postgres=url, schema=schema) as jobs:

        @jobs.task
        async def double(n: int) -> int:
            return 2 * n

        async with working(jobs):
            handles = [await double.enqueue(n) for n in range(3)]
            async with await psycopg.AsyncConnection.connect(url) as connection, connection.transaction():
                handles.append(await double.options(connection=connection).enqueue(3))
            handles.append(await double.options(ordering_key="k", delay=0.01).enqueue(4))
            assert [await handle.result(PATIENCE) for handle in handles] == [0, 2, 4, 6, 8]
        assert len((await jobs.list("status:completed")).jobs) == 5
        assert (await jobs.health()).healthy


async def test_a_role_with_an_empty_search_path(empty_postgres_url: str) -> None:
    with role(empty_postgres_url, "grant create on database {database} to {role}") as (_, url):
        migrate(url)
        await runs(url)


def test_the_grant_that_is_missing_is_named(empty_postgres_url: str) -> None:
    with role(empty_postgres_url) as (name, url), psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        with pytest.raises(SchemaError, match=rf'the role "{name}" may not make the schema "jobconsole": either GRANT'):
            migrate(url)
        owner.execute("create schema jobconsole")
        with pytest.raises(SchemaError, match=rf'GRANT USAGE, CREATE ON SCHEMA "jobconsole" TO "{name}"$'):
            migrate(url)
        owner.execute(sql.SQL("grant usage, create on schema jobconsole to {}").format(sql.Identifier(name)))
        assert migrate(url) == APPLIED
        assert migrate(url) == []


async def test_an_application_with_tables_of_the_same_names(empty_postgres_url: str) -> None:
    """Its tables come first in its search_path, and neither side touches what is the other's."""
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        connection.execute("create schema app")
        connection.execute("create type public.job_status as enum ('open', 'filled')")
        for place in ("app", "public"):
            for table in OURS:
                connection.execute(f"create table {place}.{table} (mine text)".encode())
        connection.execute(sql.SQL("alter database {} set search_path = app, public").format(database))
    migrate(empty_postgres_url)
    await runs(empty_postgres_url)
    with psycopg.connect(empty_postgres_url) as connection:
        for place in ("app", "public"):
            for table in OURS:
                assert connection.execute(f"select * from {place}.{table}".encode()).fetchall() == []


async def test_two_schemas_are_two_queues(empty_postgres_url: str) -> None:
    """Neither jobs nor numbers, leaders, workers, orders or notifications of one are seen in the other."""
    names = (f"{LONG}a", f"{LONG}b")
    heard: dict[str, list[Event]] = {}
    async with AsyncExitStack() as stack:
        queues: list[JobQueue] = []
        for name in names:
            assert migrate(empty_postgres_url, name) == APPLIED
            queues.append(await stack.enter_async_context(JobQueue(postgres=empty_postgres_url, schema=name)))
        for name, jobs in zip(names, queues, strict=True):

            @jobs.task(name="work")
            async def work(queue: str = name) -> str:
                return queue

            heard[name] = []
            await stack.enter_async_context(working(jobs))

        async def listen(name: str, jobs: JobQueue) -> None:
            async for batch in jobs.bus.subscribe():
                heard[name].extend(batch.events)

        listening = [asyncio.create_task(listen(name, jobs)) for name, jobs in zip(names, queues, strict=True)]
        for jobs in queues:
            await until(lambda jobs=jobs: _workers(jobs))
        handles = [await jobs.enqueue("work") for jobs in queues]
        assert [await handle.result(PATIENCE) for handle in handles] == list(names)
        for mine, other in (queues, reversed(queues)):
            (only,) = (await mine.list()).jobs
            with pytest.raises(JobNotFound):
                await other.inspector.get(only.id)
            assert len((await mine.inspector.overview()).workers) == 1
        for one in listening:
            one.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
    for name, handle in zip(names, handles, strict=True):
        assert {event.id for event in heard[name] if event.type} == {handle.id}


async def _workers(jobs: JobQueue) -> bool:
    return len((await jobs.inspector.overview()).workers) == 1


async def test_migrations_of_two_schemas_do_not_wait_for_each_other(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as other:
        other.execute(load("migrate/lock", "other"))
        assert await asyncio.to_thread(migrate, empty_postgres_url) == APPLIED


async def test_two_schemas_with_one_redis_and_prefix_are_found(
    empty_postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "PAIRED_INTERVAL", 1.0)
    monkeypatch.setattr(pairing, "DOUBTFUL_INTERVAL", 0.2)
    said = []
    async with AsyncExitStack() as stack:
        for name in ("first", "second"):
            migrate(empty_postgres_url, name)
            jobs = await stack.enter_async_context(
                JobQueue(postgres=empty_postgres_url, schema=name, redis=redis_url, prefix=redis_prefix)
            )
            assert jobs.pairing is not None
            await jobs.pairing.check()
            said.append(jobs.pairing.reason)
    assert said[0] == ""
    assert re.fullmatch(r"Redis \(.*\) delivers for another database \(.*, schema 'first'\)", said[1])


async def test_a_schema_that_is_not_there_is_missing(postgres_url: str) -> None:
    jobs = JobQueue(postgres=postgres_url, schema="nowhere")
    with pytest.raises(SchemaMissing, match="has no schema 'nowhere', but 'jobconsole'; correct "):
        await jobs.open()
    await jobs.close()
    with psycopg.connect(postgres_url) as connection, pytest.raises(SchemaMissing):
        check(connection, "nowhere")


async def test_a_refused_open_keeps_no_connection(empty_postgres_url: str, redis_url: str) -> None:
    """A service whose database has no schema yet tries again and again: it took all connections of the server."""
    refused = [JobQueue(postgres=empty_postgres_url, redis=redis_url) for _ in range(3)]
    for jobs in refused:
        with pytest.raises(SchemaMissing):
            await jobs.open()
    count = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        assert await eventually(lambda: connection.execute(count).fetchone() == (0,), seconds=10.0)


@pytest.mark.parametrize("name", ["", "Jobs", "1st", "a-b", 'a"b', "a.b", "x" * 64, "public", "pg_jobs", "ä"])
def test_names_that_are_no_schema_of_a_queue(name: str) -> None:
    with pytest.raises(ConfigurationError):
        settings_from(postgres="postgresql://app@db/app", schema=name)


def test_the_schema_is_a_setting() -> None:
    assert JobsSettings().postgres.schema == SCHEMA
    assert PostgresSettings.model_validate({"schema": "user"}).schema == "user"
    assert JobQueue(postgres="postgresql://app@db/app", schema="order").settings.postgres.schema == "order"


def test_channels_of_long_names_are_told_apart() -> None:
    names = ["a", SCHEMA, *(f"{'x' * n}{end}" for n in range(35, 63) for end in "ab")]
    begins = {channels_of(name) for name in names}
    assert len(begins) == len(names)
    assert max(len(f"{begin}_committed".encode()) for begin in begins) == LONGEST_NAME
