"""The questions that consoles ask again and again are answered by indexes, however much there is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import takewhile
from typing import Any

import pytest

from queue_core.model.filters import Filter, parse
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.session.pool import ConnectionPool
from tests.postgres.operations.filling import COMPLETED, DEAD, READY, SCHEDULED, Database

Ask = Callable[[PostgresInspector], Awaitable[Any]]


@pytest.fixture
async def filled(database: Database) -> Database:
    await database.queues()
    await database.fill(DEAD, 5_000, trashed=False)
    await database.fill(DEAD, 2_000, trashed=True)
    await database.fill(READY, 5_000)
    await database.fill(SCHEDULED, 500)
    await database.fill(COMPLETED, 5_000)
    await database.analyse()
    return database


@pytest.fixture
def plans(filled: Database, inspector: PostgresInspector, monkeypatch: pytest.MonkeyPatch) -> Callable[[Ask], Any]:
    """Returns the plans of the queries that a question is made of."""
    asked: list[tuple[bytes | Any, Mapping[str, Any] | None]] = []
    rows, records = ConnectionPool.rows, ConnectionPool.records

    async def note_rows(pool: ConnectionPool, query: str | bytes, params: Mapping[str, Any] | None = None) -> Any:
        asked.append((load(query, SCHEMA) if isinstance(query, str) else query, params))
        return await rows(pool, query, params)

    async def note_records(pool: ConnectionPool, query: bytes, params: Mapping[str, Any]) -> Any:
        asked.append((query, params))
        return await records(pool, query, params)

    monkeypatch.setattr(ConnectionPool, "rows", note_rows)
    monkeypatch.setattr(ConnectionPool, "records", note_records)

    async def explained(ask: Ask) -> str:
        asked.clear()
        await ask(inspector)
        return "\n".join([await filled.explain(query, dict(params or {})) for query, params in asked])

    return explained


def page(text: str, after_first: bool = False) -> Ask:
    async def ask(inspector: PostgresInspector) -> None:
        first = await inspector.jobs(parse(text), 50)
        assert first.jobs
        if after_first:
            assert (await inspector.jobs(parse(text), 50, first.cursor)).jobs

    return ask


@pytest.mark.parametrize("after_first", [False, True], ids=["first page", "next page"])
async def test_the_dead_in_order_of_their_death(plans: Callable[[Ask], Any], after_first: bool) -> None:
    plan = await plans(page("status:dead", after_first))
    assert "Scan Backward using jobs_dead_newest" in plan
    assert "Sort" not in plan
    assert "Seq Scan on jobs_dead" not in plan


async def test_the_dead_of_a_signature(plans: Callable[[Ask], Any], inspector: PostgresInspector) -> None:
    (group,) = await inspector.signatures(Filter(), 900, 15, 1)
    plan = await plans(page(f"status:dead sig:{group.signature}"))
    assert "using jobs_dead_signature" in plan
    assert "Seq Scan on jobs_dead" not in plan


async def test_the_trash(plans: Callable[[Ask], Any]) -> None:
    plan = await plans(page("trash:yes"))
    assert "using jobs_dead_trash" in plan
    assert "Seq Scan on jobs_dead" not in plan


async def test_the_history_day_by_day(plans: Callable[[Ask], Any], filled: Database) -> None:
    today = await filled.value("select to_char(now() at time zone 'UTC', 'YYYYMMDD')")
    plan = await plans(page("status:completed"))
    assert f"Seq Scan on job_history_{today}" not in plan
    assert f"Scan Backward using job_history_{today}_finished_at_id_idx" in plan


async def test_groups_come_from_their_index_alone(plans: Callable[[Ask], Any]) -> None:
    plan = await plans(lambda inspector: inspector.signatures(Filter(), 900, 15, 50))
    assert "Index Only Scan using jobs_dead_signature" in plan
    assert "Seq Scan on jobs_dead" not in plan


async def test_groups_are_read_through_as_often_however_many_there_are(plans: Callable[[Ask], Any]) -> None:
    """Their types and queues were once looked for anew for each group, among those of all."""
    plan = await plans(lambda inspector: inspector.signatures(Filter(), 3600.0, 8, 1000))
    lines = plan.splitlines()
    depth = [len(line) - len(line.lstrip()) for line in lines]
    for at, line in enumerate(lines):
        below = takewhile(lambda n, least=depth[at]: depth[n] > least, range(at + 1, len(lines)))
        assert "SubPlan" not in line or "CTE Scan on one" not in "".join(lines[n] for n in below), plan


async def test_the_runs_of_types_are_those_of_their_newest_releases(filled: Database) -> None:
    await filled.value(
        "with made as (insert into type_releases (type, release, completed, dead) "
        "select 'type-' || t, r, 1, 0 from generate_series(1, 200) t, generate_series(1, 200) r returning 1) "
        "select count(*) from made"
    )
    await filled.analyse()
    plan = await filled.explain(load("signatures/runs", SCHEMA), {"types": "{type-1,type-2}", "newest": 50})
    assert "Index Scan Backward using type_releases_pkey" in plan
    assert "Seq Scan on type_releases" not in plan


@pytest.mark.parametrize(
    ("query", "index"),
    [("read/depths", "jobs_ready"), ("read/dead", "jobs_dead_signature"), ("read/due", "jobs_due")],
)
async def test_the_overview_counts_in_indexes(filled: Database, query: str, index: str) -> None:
    plan = await filled.explain(load(query, SCHEMA), {"limit": 500, "aging": "{}"})
    assert index in plan
    assert "Seq Scan" not in plan.replace("Seq Scan on jobs_dead jobs_dead_1", "")


async def test_the_oldest_is_looked_for_at_the_heads(filled: Database) -> None:
    plan = await filled.explain(load("read/heads", SCHEMA), {"queue_ids": "{1,2}", "priorities": "{5,5}", "limit": 20})
    assert "Index Scan using jobs_ready" in plan


async def test_one_job_wherever_it_is(plans: Callable[[Ask], Any], filled: Database) -> None:
    job_id = await filled.value("select id::text from job_history limit 1")
    plan = await plans(lambda inspector: inspector.get(job_id))
    for index in ("jobs_pkey", "jobs_dead_pkey", "_id_idx"):
        assert index in plan
    assert "Seq Scan on jobs" not in plan


async def test_the_beginning_of_an_id(plans: Callable[[Ask], Any], filled: Database) -> None:
    job_id = await filled.value("select id::text from jobs_dead where trashed_at is null limit 1")
    plan = await plans(page(f"status:dead id:{job_id[:8]}"))
    assert "jobs_dead_pkey" in plan
