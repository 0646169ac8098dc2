"""Rows in any number, put straight into the tables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import sql

from queue_core.model.job import new_id

PADDED = """'{"n": ' || n || ', "pad": "' || repeat(md5(n::text), 20) || '"}'"""
DEAD = f"""
    insert into jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes, max_retries,
                           last_token, error, signature, kind, created_at, died_at, trashed_at)
    select gen_random_uuid(), 1 + n %% 4, n, 5, now(), 'type' || n %% 5, {PADDED}, array['bulk'], 3, 0, 3, n,
           'TimeoutError: ' || n, substr(md5((n %% 40)::text), 1, 12), 'error', now(), now() - make_interval(secs => n),
           case when %(trashed)s then now() - make_interval(secs => n) end
      from generate_series(1, %(count)s) as n
"""
READY = f"""
    insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
    select gen_random_uuid(), 1 + n %% 4, (127 - 5)::bigint << 45 | n, n, 5, 'queued', now(), 'type' || n %% 5,
           {PADDED}, 3
      from generate_series(1, %(count)s) as n
"""
SCHEDULED = """
    insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries)
    select gen_random_uuid(), 1 + n %% 4, n, 5, 'scheduled', now() + interval '1 hour', 'type' || n %% 5, '{}', 3
      from generate_series(1, %(count)s) as n
"""
COMPLETED = f"""
    insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes,
                             max_retries, last_token, result, created_at, finished_at)
    select gen_random_uuid(), 1 + n %% 4, n, 5, 'completed', now(), 'type' || n %% 5, {PADDED}, 0, 0, 3, n, '7', now(),
           date_trunc('day', now()) + make_interval(secs => n)
      from generate_series(1, %(count)s) as n
"""
DEAD_ONE = """
    insert into jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes, max_retries,
                           last_token, error, signature, kind, created_at)
    values (%(id)s, %(queue_id)s, 1, %(priority)s, now(), %(type)s, %(payload)s, %(tags)s::text[], 3, 0, 3, 7,
            %(error)s, %(signature)s, 'error', now())
"""
READY_ONE = """
    insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
    select %(id)s, %(queue_id)s, (127 - %(priority)s)::bigint << 45 | n, n, %(priority)s, 'queued', now(), %(type)s,
           %(payload)s, 3
      from nextval('job_seq') as n
"""


class Database:
    """One connection to the database of a test, in autocommit mode."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        self.connection = connection

    async def do(self, statement: str | sql.Composed, params: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        cursor = await self.connection.execute(statement, params)
        return await cursor.fetchall() if cursor.description else []

    async def value(self, statement: str, params: dict[str, Any] | None = None) -> Any:
        return (await self.do(statement, params))[0][0]

    async def until(self, statement: str) -> None:
        """Return when a statement says true."""
        while not await self.value(statement):
            await self.do("select pg_sleep(0.01)")

    async def queues(self) -> None:
        """Make the queues q1 to q4 with the numbers 1 to 4."""
        await self.do("insert into queues (name) select 'q' || n from generate_series(1, 4) as n")

    async def fill(self, rows: str, count: int, **params: Any) -> None:
        await self.do(rows, {"count": count, **params})

    async def dead(self, **given: Any) -> str:
        """Write one dead job and return its id."""
        return await self._one(DEAD_ONE, {"error": "ValueError: x", "signature": "0123456789ab", "tags": []} | given)

    async def ready(self, **given: Any) -> str:
        """Write one ready job and return its id."""
        return await self._one(READY_ONE, given)

    async def _one(self, statement: str, given: dict[str, Any]) -> str:
        params = {"id": new_id(), "queue_id": 1, "type": "task", "payload": "{}", "priority": 5} | given
        await self.do(statement, params)
        return str(params["id"])

    async def analyse(self) -> None:
        """Give the planner its statistics, and mark pages as visible to all."""
        await self.do("vacuum analyze")

    async def explain(self, query: bytes | sql.Composed, params: dict[str, Any] | None) -> str:
        """Return the plan of a query."""
        text = sql.SQL(query.decode()) if isinstance(query, bytes) else query
        return "\n".join(row[0] for row in await self.do(sql.SQL("explain (costs off) ") + text, params))


@asynccontextmanager
async def direct(url: str) -> AsyncIterator[Database]:
    """Open a direct way into a database."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        # Pages with rows that are not yet flushed are not marked as visible to all, and then no plan trusts an index.
        await connection.execute("set synchronous_commit = on")
        yield Database(connection)
