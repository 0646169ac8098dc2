"""Migrations: forward, numbered, once, by one process at a time; and the history's partitions."""

import asyncio
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from queue_core.errors import (
    ConfigurationError,
    SchemaError,
    SchemaMissing,
    SchemaNewer,
    StoreRefused,
    StoreUnavailable,
)
from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.stores.postgres import migrate as migrating
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.migrate import KNOWN, MIGRATIONS, check, migrate, schema_version
from queue_core.stores.postgres.store import PostgresStore
from queue_core.stores.sql.migrations import FIRST_VERSION
from tests.servers import random_name
from tests.waiting import eventually


def days(connection: psycopg.Connection[tuple[str]]) -> set[str]:
    rows = connection.execute(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'job_history'::regclass"
    )
    return {row[0] for row in rows}


def expected_days(today: datetime) -> set[str]:
    return {f"job_history_{today + timedelta(days=n):%Y%m%d}" for n in range(-1, 8)}


def test_an_empty_database_gets_every_version_and_then_nothing(empty_postgres_url: str) -> None:
    assert migrate(empty_postgres_url) == [migration.version for migration in MIGRATIONS]
    assert migrate(empty_postgres_url) == []
    with psycopg.connect(empty_postgres_url) as connection:
        assert schema_version(connection) == KNOWN
        check(connection)


def test_limits_that_a_database_sets_for_its_sessions_do_not_count(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout"):
            connection.execute(sql.SQL("alter database {} set {} = '1ms'").format(database, sql.Identifier(limit)))
    assert migrating.pending(empty_postgres_url).empty
    assert migrate(empty_postgres_url) == [migration.version for migration in MIGRATIONS]
    assert not migrating.pending(empty_postgres_url).versions


def test_a_statement_that_the_server_cancels_is_refused(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = migrating.Migration(KNOWN + 1, "slow", "set local statement_timeout = 1; select pg_sleep(10)")
    monkeypatch.setattr(migrating, "MIGRATIONS", (*MIGRATIONS, slow))
    with pytest.raises(StoreRefused, match="canceling statement due to statement timeout"):
        migrate(empty_postgres_url)


def test_who_may_not_look_into_the_schema_reads_one_sentence(postgres_url: str) -> None:
    name = random_name("stranger")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        role = sql.Identifier(name)
        connection.execute(sql.SQL("create role {} login").format(role))
        try:
            url = re.sub(r"//[^@/]*@", f"//{name}@", postgres_url, count=1)
            with pytest.raises(SchemaError, match=f'^the role "{name}" lacks a grant: GRANT USAGE, CREATE ON SCHEMA'):
                migrating.pending(url)
            connection.execute(sql.SQL("grant usage on schema jobconsole to {}").format(role))
            with pytest.raises(SchemaError, match=r"^this role lacks a right: permission denied for table"):
                migrating.pending(url)
        finally:
            connection.execute(sql.SQL("drop owned by {}").format(role))
            connection.execute(sql.SQL("drop role {}").format(role))


def test_concurrent_migrations_apply_each_version_once(empty_postgres_url: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        applied = list(pool.map(migrate, [empty_postgres_url] * 6))
    assert sorted(version for one in applied for version in one) == list(range(FIRST_VERSION, KNOWN + 1))


def test_a_database_without_schema_is_missing_it(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("create table unrelated (n int)")
        assert schema_version(connection) == 0
        with pytest.raises(SchemaMissing, match="run 'jobconsole migrate'"):
            check(connection)
        # What the caller had done in this transaction is still there.
        connection.execute("select n from unrelated")


def test_a_newer_schema_is_refused_and_left_alone(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("insert into schema_version (version, name) values (%s, 'future')", (KNOWN + 1,))
        with pytest.raises(SchemaNewer):
            check(connection)
    with pytest.raises(SchemaNewer, match="upgrade this program"):
        migrate(postgres_url)


def test_a_failing_migration_is_rolled_back_and_those_before_it_stay(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = migrating.Migration(KNOWN + 1, "broken", "create table half (n int); select 1 / 0")
    monkeypatch.setattr(migrating, "MIGRATIONS", (*MIGRATIONS, broken))
    with pytest.raises(SchemaError, match=r"migration \d+ \(broken\) failed and was rolled back: division by zero"):
        migrate(empty_postgres_url)
    with psycopg.connect(empty_postgres_url) as connection:
        assert schema_version(connection) == KNOWN
        assert connection.execute("select to_regclass('half')").fetchone() == (None,)


def test_tables_of_somebody_else_are_named_in_one_sentence(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        connection.execute("create schema jobconsole create table queues (n int)")
    with pytest.raises(
        SchemaError, match=rf'^migration {FIRST_VERSION} \(schema\) failed and was rolled back: relation "queues"'
    ):
        migrate(empty_postgres_url)


def test_the_tables_that_a_schema_has_are_those_of_its_migrations(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        there = {name for (name,) in connection.execute(load("migrate/tables", SCHEMA))}
    assert there == migrating.tables_of(KNOWN) | {"schema_version"}
    assert migrating.tables_of(FIRST_VERSION) < migrating.tables_of(KNOWN)


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        ("drop table saved_filters, leases cascade", "tables: leases, saved_filters"),
        ("drop table jobs cascade; delete from schema_version where version > 2", "tables: jobs"),
        ("delete from schema_version", "schema_version, or what is in it"),
        ("drop table schema_version", "schema_version, or what is in it"),
    ],
)  # fmt: skip
def test_what_a_schema_has_lost_is_named(postgres_url: str, damage: str, lost: str) -> None:
    """Its programs advise to migrate, which found nothing to do, or tables that were there already."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(damage.encode())
    said = f'^the schema "jobconsole" has lost {lost}; restore the database from a backup$'
    for call in (migrate, migrating.pending):
        with pytest.raises(SchemaError, match=said):
            call(postgres_url)


def test_no_server_is_store_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        migrate("postgresql://app@127.0.0.1:1/nothing")


def test_rubbish_instead_of_a_url_is_one_sentence() -> None:
    with pytest.raises(ConfigurationError) as caught:
        migrate("postgresql:/app:secret@nonsense/?x=y z")
    assert "secret" not in str(caught.value)


def test_partitions_reach_from_yesterday_to_a_week_ahead(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        row = connection.execute("select now()").fetchone()
        assert row is not None
        today = row[0].astimezone(UTC)
        assert expected_days(today) <= days(connection)
        connection.execute(f"drop table job_history_{today + timedelta(days=3):%Y%m%d}")
        assert connection.execute(load("plans/days", SCHEMA)).fetchone() == (1,)
        assert connection.execute(load("plans/days", SCHEMA)).fetchone() == (0,)
        assert expected_days(today) <= days(connection)


def test_partitions_are_days_in_utc_wherever_the_server_stands(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        connection.execute("do $$ begin execute format('alter database %I set timezone to ''Pacific/Auckland''',"
                           " current_database()); end $$")  # fmt: skip
        connection.execute("do $$ begin execute format('alter database %I set datestyle to ''SQL, DMY''',"
                           " current_database()); end $$")  # fmt: skip
    migrate(empty_postgres_url)
    with psycopg.connect(empty_postgres_url, options="-c timezone=UTC -c datestyle=ISO") as connection:
        rows = connection.execute(
            "select c.relname, pg_get_expr(c.relpartbound, c.oid)"
            " from pg_inherits i join pg_class c on c.oid = i.inhrelid"
            " where i.inhparent = 'job_history'::regclass"
        ).fetchall()
    assert rows
    for name, bounds in rows:
        day = datetime.strptime(name.removeprefix("job_history_"), "%Y%m%d").replace(tzinfo=UTC)
        after = day + timedelta(days=1)
        assert bounds == f"FOR VALUES FROM ('{day:%Y-%m-%d} 00:00:00+00') TO ('{after:%Y-%m-%d} 00:00:00+00')"


def test_making_partitions_lets_the_hot_path_write(postgres_url: str) -> None:
    """A settle that is under way in the history does not wait, nor does the new partition wait for it."""
    with psycopg.connect(postgres_url) as settling, psycopg.connect(postgres_url, autocommit=True) as upkeep:
        settling.execute(
            "insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes,"
            " max_retries, last_token, created_at)"
            " values (gen_random_uuid(), 1, 1, 5, 'completed', now(), 'x', '{}', 0, 0, 3, 1, now())"
        )
        upkeep.execute("set lock_timeout = '2s'")
        upkeep.execute("select make_job_history(8)")


@pytest.fixture
def lacking(postgres_url: str) -> psycopg.Connection[tuple[int]]:
    """A connection to a database whose history lacks a day."""
    connection = psycopg.connect(postgres_url)
    connection.execute(f"drop table job_history_{datetime.now(UTC) + timedelta(days=3):%Y%m%d}")
    connection.commit()
    return connection


async def make_room(url: str) -> None:
    store = PostgresStore(PostgresSettings(url=SecretStr(url)))
    await store.prepare_history()
    await store.close()


async def test_a_worker_that_starts_while_another_one_makes_the_days_does_not_warn(
    lacking: psycopg.Connection[tuple[int]], postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 16 that started at once, most did, on a slow machine."""
    with lacking as another:
        another.execute("select make_job_history(7)")
        await make_room(postgres_url)
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_days_that_another_session_makes_meanwhile_are_not_made_twice(
    lacking: psycopg.Connection[tuple[int]], postgres_url: str
) -> None:
    """Whoever waits for that session has looked before, and must see what is there afterwards."""
    upkeep = await psycopg.AsyncConnection.connect(postgres_url, autocommit=True)
    async with upkeep:
        with lacking as another, psycopg.connect(postgres_url, autocommit=True) as hand:
            another.execute("select make_job_history(7)")
            waiting = asyncio.create_task(upkeep.execute(load("plans/days", SCHEMA)))
            assert await eventually(lambda: hand.execute("select 1 from pg_locks where not granted").fetchall())
        assert await (await waiting).fetchone() == (0,)


async def test_a_worker_warns_where_nobody_can_make_the_days(
    lacking: psycopg.Connection[tuple[int]], postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with lacking as somebody:
        somebody.execute("lock table job_history in access exclusive mode")
        await make_room(postgres_url)
    assert "no days of the history are made now" in caplog.text
    assert {record.levelno for record in caplog.records} >= {logging.WARNING}


async def test_where_no_day_is_lacking_nothing_is_locked(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as another:
        another.execute("select pg_advisory_xact_lock(5812640217730002)")
        with psycopg.connect(postgres_url, options="-c lock_timeout=10ms") as upkeep:
            assert upkeep.execute(load("plans/days", SCHEMA)).fetchone() == (0,)
