"""A database whose tables an earlier version has made outside a schema of their own is taken over, or refused."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from queue_core import JobQueue, SchemaEarlier, SchemaMissing
from queue_core.model.filters import Filter
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres import migrate as migrating
from queue_core.stores.postgres.migrate import LAST_EARLIER, check, migrate, schema_version
from tests.cli.running import Cli
from tests.conformance.modes import nowhere
from tests.conformance.working import PATIENCE, until, working

HERE = Path(__file__).parent
FILES = sorted(HERE.joinpath("earlier").glob("*.sql"))
CATALOG = HERE.joinpath("catalog.sql").read_bytes()
JOBS = [f"00000000-0000-7000-8000-00000000000{n}" for n in range(1, 7)]
SENTENCE = (
    "an earlier version has left its tables in schema 'public'; run 'jobconsole migrate', which takes over all jobs"
)


def make(url: str, version: int = LAST_EARLIER) -> str:
    """Make the tables as the program of that time did; return the address, without any search_path."""
    with psycopg.connect(url, options="-c search_path=public") as connection:
        connection.execute(
            "create table schema_version (version int primary key, name text not null,"
            " applied_at timestamptz not null default now())"
        )
        for number, file in enumerate(FILES[:version], 1):
            connection.execute(file.read_bytes())
            connection.execute("insert into schema_version (version, name) values (%s, %s)", (number, file.stem[5:]))
        if version == LAST_EARLIER:
            connection.execute(HERE.joinpath("earlier.sql").read_bytes())
    return nowhere(url)


@pytest.fixture
def earlier_url(empty_postgres_url: str) -> str:
    """A database with the tables of the last earlier version, and jobs in all states."""
    return make(empty_postgres_url)


def catalog(url: str, schema: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(CATALOG, {"schema": schema}).fetchall()
    return sorted(re.sub(rf'"?\b{schema}\b"?\.?', "", str(text)) for (text,) in rows)


async def test_a_program_refuses_it_in_one_sentence(earlier_url: str) -> None:
    jobs = JobQueue(postgres=earlier_url)
    with pytest.raises(SchemaEarlier, match=f"^{SENTENCE}$"):
        await jobs.open()
    await jobs.close()
    with psycopg.connect(earlier_url) as connection, pytest.raises(SchemaEarlier, match=SENTENCE):
        check(connection)


async def test_who_looks_refuses_it_too(earlier_url: str) -> None:
    jobs = JobQueue(postgres=earlier_url)
    try:
        with pytest.raises(SchemaEarlier, match=SENTENCE):
            await jobs.inspector.overview()
        facts = await jobs.inspector.facts()
        assert (facts["schema"], facts["earlier"]) == (0, "public")
    finally:
        await jobs.close()


def test_the_command_line_refuses_it_until_it_is_taken_over(earlier_url: str) -> None:
    cli = Cli({"JOBS__POSTGRES__URL": earlier_url, "JOBS__QUEUE_BACKEND": "postgres"})
    for command in (("queue", "list"), ("job", "list"), ("dlq", "list")):
        answer = cli(*command)
        assert (answer.code, SENTENCE in answer.err) == (5, True)
    assert "an earlier version has left its tables in schema 'public'" in cli("doctor").out
    answer = cli("migrate", "--dry-run")
    assert (answer.code, answer.out) == (0, "would apply 0001\n")
    answer = cli("migrate")
    assert (answer.code, answer.out) == (0, "applied 0001; the schema is 1\n")
    assert cli("queue", "list").code == 0
    assert cli("migrate").out == "nothing to do; the schema is 1\n"
    cli.close()


async def test_it_is_taken_over_with_its_jobs(earlier_url: str) -> None:
    assert migrate(earlier_url) == [1]
    assert migrate(earlier_url) == []
    async with JobQueue(postgres=earlier_url) as jobs:

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
    migrate(earlier_url, "taken_over")
    migrate(earlier_url, "made_now")
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


@pytest.mark.parametrize("version", [1, LAST_EARLIER - 1])
def test_an_older_one_is_refused_and_left_alone(empty_postgres_url: str, version: int) -> None:
    url = make(empty_postgres_url, version)
    before = catalog(url, "public")
    with pytest.raises(
        SchemaEarlier, match=f"are of version {version} of an earlier numbering.*, {LAST_EARLIER}, can be"
    ):
        migrate(url)
    assert catalog(url, "public") == before
    with psycopg.connect(url) as connection:
        assert schema_version(connection) == 0
        assert connection.execute("select to_regnamespace('jobconsole')").fetchall() == [(None,)]


def test_many_that_migrate_at_once_take_it_over_once(earlier_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(migrate, [earlier_url] * 4))
    assert sorted(number for one in applied for number in one) == [1]


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
    assert migrate(empty_postgres_url) == [1]
