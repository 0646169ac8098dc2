"""Doctor names the transactions that hold others up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from queue_core.model.rules import QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.store import PostgresStore
from tests.cli.running import Cli
from tests.conformance.making import QUEUE
from tests.postgres.operations.filling import Database
from tests.postgres.traps.hands import new_job
from tests.waiting import eventually

CALLER = "shop\x1b[2J"


@pytest.fixture
async def caller(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection of an application, whose name is not harmless."""
    async with await psycopg.AsyncConnection.connect(postgres_url, application_name="shop") as connection:
        await connection.execute("select set_config('application_name', %s, false)", [CALLER])
        await connection.commit()
        yield connection


@pytest.fixture
async def store(postgres_url: str, database: Database) -> AsyncIterator[PostgresStore]:
    """A store whose queue has a limit, and more patience than this machine is slow."""
    await database.do("insert into queues (name) values (%(name)s)", {"name": QUEUE})
    store = PostgresStore(PostgresSettings(url=postgres_url, timeout=60.0), rules={QUEUE: QueueRules(limit=10)})
    yield store
    await store.close()


async def blockers(inspector: PostgresInspector) -> list[dict[str, Any]]:
    return list((await inspector.facts())["blockers"])


async def waits(database: Database) -> bool:
    return bool(await database.value("select count(*) from pg_locks where not granted"))


@pytest.mark.parametrize(
    ("job", "table"),
    [({"ordering_key": "customer-1", "queue": "other"}, "ordering_locks"), ({}, "queue_capacity")],
    ids=["an ordering key", "a limit"],
)
async def test_a_caller_s_transaction_that_holds_up_an_enqueue_is_named(
    store: PostgresStore,
    inspector: PostgresInspector,
    database: Database,
    caller: psycopg.AsyncConnection[Any],
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    job: dict[str, Any],
    table: str,
) -> None:
    await store.insert([new_job(**job)])
    await store.insert_on(caller, [new_job(**job)])
    later = asyncio.create_task(store.insert([new_job(**job)]))
    assert await eventually(lambda: waits(database))
    (found,) = await blockers(inspector)
    assert (found["pid"], found["state"], found["waiters"]) == (caller.info.backend_pid, "idle in transaction", 1)
    assert found["waiter_application"] == "queue_core"
    assert found["asked"] == [table]
    assert {"jobs", table} <= set(found["tables"])
    assert found["open_s"] >= found["waiting_s"] >= 0
    monkeypatch.setattr("jobconsole.core.doctor.postgres.LOCKED_SECONDS", 0.0)
    answer = await asyncio.to_thread(Cli({"JOBS__POSTGRES__URL": postgres_url}), "doctor")
    (line,) = [line for line in answer.out.splitlines() if "  locks " in line]
    assert line.startswith("warn")
    assert f"(pid {caller.info.backend_pid})" in line
    assert f"queue_core (pid {found['waiter']}) at {table}" in line
    assert "\x1b" not in answer.out
    await caller.commit()
    await later
    assert await blockers(inspector) == []


async def test_who_stands_at_the_head_of_a_line_is_named_with_all_behind_it(
    inspector: PostgresInspector, database: Database, caller: psycopg.AsyncConnection[Any], postgres_url: str
) -> None:
    await database.queues()
    await caller.execute("update queues set paused_at = now()")
    async with (
        await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as second,
        await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as third,
    ):
        update = "update queues set paused_at = null"
        asked = [asyncio.create_task(one.execute(update)) for one in (second, third)]
        crowd = "select count(distinct pid) = 2 from pg_locks where not granted"
        assert await eventually(lambda: database.value(crowd))
        (found,) = await blockers(inspector)
        assert (found["pid"], found["waiters"]) == (caller.info.backend_pid, 2)
        await caller.rollback()
        await asyncio.gather(*asked)


async def test_an_idle_transaction_with_locks_is_named_and_one_that_has_read_is_not(
    inspector: PostgresInspector, database: Database, caller: psycopg.AsyncConnection[Any]
) -> None:
    await database.queues()
    await caller.execute("select count(*) from jobs")
    assert await blockers(inspector) == []
    await caller.execute("select id from queues for update")
    (found,) = await blockers(inspector)
    assert (found["pid"], found["waiters"], found["tables"]) == (caller.info.backend_pid, 0, ["queues"])


async def test_tables_of_others_are_no_concern(
    inspector: PostgresInspector, database: Database, caller: psycopg.AsyncConnection[Any]
) -> None:
    await database.do("create table public.orders (n int)")
    await caller.execute("lock table public.orders")
    other = asyncio.create_task(database.do("select * from public.orders"))
    try:
        assert await blockers(inspector) == []
    finally:
        await caller.rollback()
        await other


@pytest.mark.parametrize("table", ["jobs", "operations", "leases", "schema_version"])
async def test_a_table_that_is_locked_as_a_whole_is_no_server_that_is_away(
    database: Database, caller: psycopg.AsyncConnection[Any], postgres_url: str, table: str
) -> None:
    await database.queues()
    await caller.execute(f"lock table {table} in access exclusive mode")  # type: ignore[arg-type]
    cli = Cli({"JOBS__POSTGRES__URL": postgres_url, "JOBS__POSTGRES__TIMEOUT": "2s"})
    answer = await asyncio.to_thread(cli, "doctor", "--json")
    found = {check["name"]: check for check in answer.body["checks"]}
    assert (answer.code, found["locks"]["level"]) == (1, "warn")
    assert f"(pid {caller.info.backend_pid})" in found["locks"]["said"]
    assert f"locks in {table}" in found["locks"]["said"]
    assert f"'lock table {table} in access exclusive mode'" in found["locks"]["said"]
    assert found["postgres"]["said"].startswith("it answers, but others have locked tables of the queue")
    advice = " ".join(check["advice"] for check in answer.body["checks"])
    assert "firewall" not in advice
    assert "rights" not in advice


async def test_what_is_locked_against_changes_alone_is_named_though_nothing_waits_for_it(
    inspector: PostgresInspector, database: Database, caller: psycopg.AsyncConnection[Any]
) -> None:
    await caller.execute("lock table jobs in exclusive mode")
    running = asyncio.create_task(caller.execute("select pg_sleep(30)"))
    try:
        facts = await inspector.facts()
        (found,) = facts["blockers"]
        assert (found["pid"], found["state"], found["tables"]) == (caller.info.backend_pid, "active", ["jobs"])
        assert (found["bars"], found["statement"]) == (False, "select pg_sleep(30)")
        assert facts["refused"] == ""
        assert facts["untried"]
    finally:
        caller.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            await running


async def test_a_reader_in_front_of_a_change_of_a_table_is_named(
    inspector: PostgresInspector, database: Database, caller: psycopg.AsyncConnection[Any], postgres_url: str
) -> None:
    await caller.execute("select count(*) from jobs")
    async with await psycopg.AsyncConnection.connect(postgres_url) as other:
        altering = asyncio.create_task(other.execute("alter table jobs alter column payload set default null"))
        assert await eventually(lambda: waits(database))
        (found,) = await inspector.blockers()
        assert (found["pid"], found["waiters"], found["bars"]) == (caller.info.backend_pid, 1, True)
        assert (found["waiter"], found["asked"]) == (other.info.backend_pid, ["jobs"])
        await caller.rollback()
        await altering
        await other.rollback()
