"""A database whose tables an earlier version has made, under other names or in `public`, is taken over, or refused."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from queue_core import JobQueue, SchemaEarlier, SchemaMissing
from queue_core.model.filters import Filter
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres import migrate as migrating
from queue_core.stores.postgres.migrate import KNOWN, LAST_NUMBERED, check, migrate, schema_version
from queue_core.stores.sql.migrations import FIRST_VERSION
from tests.cli.running import Cli
from tests.conformance.modes import nowhere
from tests.conformance.working import PATIENCE, until, working

APPLIED = list(range(FIRST_VERSION, KNOWN + 1))
NUMBERS = ", ".join(f"{number:04}" for number in APPLIED)
HERE = Path(__file__).parent
FILES = sorted(HERE.joinpath("earlier").glob("*.sql"))
CATALOG = HERE.joinpath("catalog.sql").read_bytes()
JOBS = [f"00000000-0000-7000-8000-00000000000{n}" for n in range(1, 7)]
REMEDY = "run 'jobconsole migrate', which takes over all jobs"
IN_PUBLIC = f"an earlier version has left its tables in schema 'public'; {REMEDY}"
RENAMED = f"an earlier version has made the tables of the database, with schema 1; {REMEDY}"


def make(url: str, version: int = LAST_NUMBERED) -> str:
    """Make the tables as the program of that time did; return the address, without any search_path."""
    with psycopg.connect(url, options="-c search_path=public") as connection:
        connection.execute(
            "create table schema_version (version int primary key, name text not null,"
            " applied_at timestamptz not null default now())"
        )
        for number, file in enumerate(FILES[:version], 1):
            connection.execute(file.read_bytes())
            connection.execute("insert into schema_version (version, name) values (%s, %s)", (number, file.stem[5:]))
        if version == LAST_NUMBERED:
            connection.execute(HERE.joinpath("earlier.sql").read_bytes())
    return nowhere(url)


def make_1(url: str, schema: str = SCHEMA) -> str:
    """Make the tables of version 1, in their schema, as the program of that time did; return the address."""
    with psycopg.connect(url) as connection:
        connection.execute(f"create schema {schema}; set local search_path = {schema}".encode())
        connection.execute(
            "create table schema_version (version int primary key, name text not null,"
            " applied_at timestamptz not null default now())"
        )
        connection.execute(
            HERE.joinpath("version_1.sql").read_text(encoding="utf-8").replace("{schema}", schema).encode()
        )
        connection.execute("insert into schema_version (version, name) values (1, 'schema')")
        connection.execute(HERE.joinpath("earlier.sql").read_bytes())
    return nowhere(url)


@pytest.fixture
def earlier_url(empty_postgres_url: str) -> str:
    """A database with the tables of the last version without a schema of its own, and jobs in all states."""
    return make(empty_postgres_url)


class Age(NamedTuple):
    url: str
    # as the programs of today refuse it
    sentence: str
    # what `facts` answers
    schema: int
    earlier: str | None


@pytest.fixture(params=["public", "renamed"])
def age(request: pytest.FixtureRequest, empty_postgres_url: str) -> Age:
    """A database of each earlier form, with jobs in all states."""
    if request.param == "public":
        return Age(make(empty_postgres_url), IN_PUBLIC, 0, "public")
    return Age(make_1(empty_postgres_url), RENAMED, 1, None)


def catalog(url: str, schema: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(CATALOG, {"schema": schema}).fetchall()
    return sorted(re.sub(rf'"?\b{schema}\b"?\.?', "", str(text)) for (text,) in rows)


async def test_a_program_refuses_it_in_one_sentence(age: Age) -> None:
    jobs = JobQueue(postgres=age.url)
    with pytest.raises(SchemaEarlier, match=f"^{age.sentence}$"):
        await jobs.open()
    await jobs.close()
    with psycopg.connect(age.url) as connection, pytest.raises(SchemaEarlier, match=age.sentence):
        check(connection)


async def test_who_looks_refuses_it_too(age: Age) -> None:
    jobs = JobQueue(postgres=age.url)
    try:
        with pytest.raises(SchemaEarlier, match=age.sentence):
            await jobs.inspector.overview()
        facts = await jobs.inspector.facts()
        assert (facts["schema"], facts["earlier"]) == (age.schema, age.earlier)
    finally:
        await jobs.close()


def test_the_command_line_refuses_it_until_it_is_taken_over(age: Age) -> None:
    cli = Cli({"JOBS__POSTGRES__URL": age.url, "JOBS__QUEUE_BACKEND": "postgres"})
    for command in (("queue", "list"), ("job", "list"), ("dlq", "list")):
        answer = cli(*command)
        assert (answer.code, age.sentence in answer.err) == (5, True)
    found = (
        f"version 1, older than {KNOWN}" if age.schema else "an earlier version has left its tables in schema 'public'"
    )
    assert found in cli("doctor").out
    answer = cli("migrate", "--dry-run")
    taken = "would take over the tables in schema 'public', which an earlier version has made"
    assert (answer.code, answer.out) == (0, f"{f'would apply {NUMBERS}' if age.schema else taken}\n")
    answer = cli("migrate")
    assert (answer.code, answer.out) == (0, f"applied {NUMBERS}; the schema is {KNOWN}\n")
    assert cli("queue", "list").code == 0
    assert cli("migrate").out == f"nothing to do; the schema is {KNOWN}\n"
    cli.close()


async def test_it_is_taken_over_with_its_jobs(age: Age) -> None:
    assert migrate(age.url) == APPLIED
    assert migrate(age.url) == []
    async with JobQueue(postgres=age.url) as jobs:

        @jobs.task(name="work", queue="work")
        async def work(n: int) -> int:
            return n

        found = {job: (await jobs.inspector.get(job)).status.value for job in JOBS}
        assert list(found.values()) == ["queued", "running", "scheduled", "retrying", "dead", "completed"]
        handle = await jobs.enqueue("work", {"n": 7}, queue="work")

        async def all_done() -> bool:
            return await jobs.inspector.count(Filter(), 100) == 7 and all(
                [(await jobs.inspector.get(job)).status.value == "completed" for job in (*JOBS[:4], JOBS[5])]
            )

        async with working(jobs):
            assert await handle.result(PATIENCE) == 7
            await until(all_done)
        assert (await jobs.inspector.conservation()).unfinished == 0
        # Tokens go on above those that were given out.
        assert (await jobs.inspector.get(JOBS[0])).token >> 40 >= 7


def test_it_is_then_what_a_new_one_is(earlier_url: str) -> None:
    make_1(earlier_url, "renamed")
    migrate(earlier_url, "renamed")
    migrate(earlier_url, "taken_over")
    migrate(earlier_url, "made_now")
    assert catalog(earlier_url, "renamed") == catalog(earlier_url, "made_now")
    assert catalog(earlier_url, "taken_over") == catalog(earlier_url, "made_now")
    assert len(catalog(earlier_url, "made_now")) > 300
    assert [line for line in catalog(earlier_url, "public") if line] == []


def test_days_of_the_history_come_along(earlier_url: str) -> None:
    query = "select count(*) from pg_class where relname ~ '^job_history_[0-9]{8}$' and relnamespace = %s::regnamespace"
    with psycopg.connect(earlier_url, autocommit=True) as connection:
        assert connection.execute(query, ("public",)).fetchall() == [(9,)]
        migrate(earlier_url)
        assert connection.execute(query, ("public",)).fetchall() == [(0,)]
        assert connection.execute(query, (SCHEMA,)).fetchall() == [(9,)]


@pytest.mark.parametrize("version", [1, LAST_NUMBERED - 1])
def test_an_older_one_is_refused_and_left_alone(empty_postgres_url: str, version: int) -> None:
    url = make(empty_postgres_url, version)
    before = catalog(url, "public")
    with pytest.raises(
        SchemaEarlier, match=f"are of version {version} of an earlier numbering.*, {LAST_NUMBERED}, can be"
    ):
        migrate(url)
    assert catalog(url, "public") == before
    with psycopg.connect(url) as connection:
        assert schema_version(connection) == 0
        assert connection.execute("select to_regnamespace('jobconsole')").fetchall() == [(None,)]


def test_many_that_migrate_at_once_take_it_over_once(age: Age) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(migrate, [age.url] * 4))
    assert sorted(number for one in applied for number in one) == APPLIED


def test_a_program_of_that_time_refuses_what_was_taken_over(age: Age) -> None:
    """It compares the version with its own, which was 1."""
    migrate(age.url)
    with psycopg.connect(age.url) as connection:
        ((version,),) = connection.execute("select max(version) from jobconsole.schema_version").fetchall()
    assert version > 1


def test_a_second_store_in_the_database_is_named(age: Age) -> None:
    """A program of the time before schemas, which migrates by itself, has made its tables in `public` again."""
    migrate(age.url)
    make(age.url)
    cli = Cli({"JOBS__POSTGRES__URL": age.url, "JOBS__QUEUE_BACKEND": "postgres"})
    for command in ("doctor", "migrate"):
        answer = cli(command)
        assert "an earlier version has tables in schema 'public', too" in answer.out + answer.err, command
    assert cli("queue", "list").code == 0
    cli.close()


def test_tables_in_use_are_waited_for(earlier_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of that time ends first, and nothing of it is lost."""
    with psycopg.connect(earlier_url) as other:
        other.execute("insert into public.queues (name) values ('late')")
        waiting = threading.Thread(target=migrate, args=(earlier_url,))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        other.commit()
        waiting.join(PATIENCE)
    with psycopg.connect(earlier_url) as connection:
        assert connection.execute("select name from jobconsole.queues order by id").fetchall() == [("work",), ("late",)]


def test_one_that_fails_leaves_all_where_it_was(earlier_url: str) -> None:
    before = catalog(earlier_url, "public")
    with psycopg.connect(earlier_url) as connection:
        connection.execute("create schema jobconsole create table tallies (mine int)")
    with pytest.raises(
        migrating.SchemaError, match=r"preparing failed and was rolled back: relation \"tallies\" already"
    ):
        migrate(earlier_url)
    assert catalog(earlier_url, "public") == before


async def test_another_table_of_that_name_is_no_earlier_version(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        for table in ("schema_version", "jobs", "leases", "lease_epoch"):
            connection.execute(f"create table public.{table} (mine text)".encode())
    jobs = JobQueue(postgres=empty_postgres_url)
    with pytest.raises(SchemaMissing):
        await jobs.open()
    await jobs.close()
    assert migrate(empty_postgres_url) == APPLIED
