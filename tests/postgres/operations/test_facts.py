"""What doctor is told about the server."""

from __future__ import annotations

import psycopg
import pytest

from queue_core.stores.postgres.migrate import KNOWN
from queue_core.stores.postgres.read import PostgresInspector
from tests.postgres.operations.filling import DEAD, Database


async def test_a_healthy_server(inspector: PostgresInspector, database: Database) -> None:
    facts = await inspector.facts()
    assert facts["backend"] == "postgres"
    assert facts["version_number"] >= 150000
    assert (facts["schema"], facts["schema_known"]) == (KNOWN, KNOWN)
    # The copied schema may have been made yesterday.
    assert facts["partitions_ahead_days"] in {6, 7}
    assert facts["invalid_indexes"] == []
    assert facts["read_only"] is False
    assert facts["pooler"] is False
    assert facts["prepared_transactions"] == 0
    assert facts["held_snapshots"] == []
    assert facts["oldest_transaction_s"] is None
    assert 1 <= facts["connections"] <= facts["max_connections"]
    assert abs(facts["clock_skew_s"]) <= facts["clock_skew_error_s"] + 1
    assert set(facts["tables"]) == {"jobs", "leases", "jobs_dead", "tally_deltas", "workers"}


async def test_an_open_transaction_is_found(inspector: PostgresInspector, postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as other:
        await other.execute("select 1")
        facts = await inspector.facts()
        assert facts["oldest_transaction_s"] >= 0
        assert facts["oldest_transaction_pid"] == other.info.backend_pid


async def test_an_index_that_was_never_finished_is_found(inspector: PostgresInspector, database: Database) -> None:
    await database.queues()
    await database.fill(DEAD, 2, trashed=False)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await database.do("create unique index concurrently half_made on jobs_dead (kind)")
    assert (await inspector.facts())["invalid_indexes"] == ["half_made"]


async def test_dead_tuples_are_counted(inspector: PostgresInspector, database: Database) -> None:
    await database.queues()
    await database.do("alter table jobs_dead set (autovacuum_enabled = off)")
    await database.fill(DEAD, 50, trashed=False)
    await database.do("delete from jobs_dead")
    await database.do("select pg_stat_force_next_flush()")
    table = (await inspector.facts())["tables"]["jobs_dead"]
    assert table["dead"] == 50
