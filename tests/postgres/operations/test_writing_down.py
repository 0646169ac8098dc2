"""Writing down what an operation is about costs the same whatever the session did before, and however much there is."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from queue_core.client.operating.submission import MEMBERS_PER_WRITE
from queue_core.model.operation import Author, OperationRequest
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.operations import add, create
from queue_core.stores.postgres.session.connection import connection_options
from queue_core.stores.postgres.session.pool import PLANNED, ConnectionPool
from tests.postgres.operations.filling import DEAD, Database
from tests.postgres.operations.test_steps import drive, looked_at

ASKED = OperationRequest("retry", "x", Author("a", "b"))
A_JOB = 400
"""Rows and entries of indexes that one member may cost; a table of a few pages is read as a whole."""


@pytest.mark.parametrize("life", ["long", "short"])
async def test_it_costs_the_same_in_a_session_that_knew_small_tables(
    postgres_url: str, database: Database, life: str
) -> None:
    """The statistics are from then, too, as in the minute before they are renewed."""
    for table in ("jobs", "jobs_dead", "operations", "operation_members"):
        await database.do(f"alter table {table} set (autovacuum_enabled = off)")
    await database.queues()
    with psycopg.connect(**connection_options(PostgresSettings(url=postgres_url), PLANNED)) as session:
        for number in range(14):
            if number == 3:
                await database.do("vacuum analyze")
            if number < 4 or life == "long":
                strangers = [str(uuid4()) for _ in range(30)]
                drive(session, add(drive(session, create(ASKED)), strangers, list(strangers)))
        await database.fill(DEAD, 30_000, trashed=False)
        ids = [row[0] for row in await database.do(f"select id::text from jobs_dead limit {5 * MEMBERS_PER_WRITE}")]
        operation = drive(session, create(ASKED))
        for start in range(0, len(ids), MEMBERS_PER_WRITE):
            part = ids[start : start + MEMBERS_PER_WRITE]
            with session.transaction():
                before = looked_at(session)
                written = drive(session, add(operation, part, list(part)))
                assert looked_at(session) - before < A_JOB * MEMBERS_PER_WRITE
        assert written.total == len(ids)


async def test_the_sessions_of_operators_plan_for_the_tables_as_they_are(postgres_url: str) -> None:
    pool = ConnectionPool(PostgresSettings(url=postgres_url))
    async with pool.connection() as connection:
        cursor = await connection.execute("show plan_cache_mode")
        assert await cursor.fetchone() == ("force_custom_plan",)
    await pool.close()
