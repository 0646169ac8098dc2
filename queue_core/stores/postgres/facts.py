"""What `doctor` checks about PostgreSQL."""

from __future__ import annotations

import time
from typing import Any

from psycopg.rows import dict_row

from queue_core.rules import Rules
from queue_core.stores.postgres.listening import Notifications
from queue_core.stores.postgres.migrate import KNOWN
from queue_core.stores.postgres.pool import Pool, fetch
from queue_core.stores.postgres.rehearsal import rehearse
from queue_core.stores.postgres.sql import load

LONGEST = 6.0
"""Seconds that `doctor` waits for a notification."""
BLOCKERS = 4
"""Transactions that are named as holding others up."""


class Facts:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, pool: Pool, rules: Rules) -> None:
        self._pool = pool
        self._rules = rules

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        async with self._pool.connection() as connection:
            began = time.perf_counter()
            await fetch(connection, "inspect/ping")
            return time.perf_counter() - began

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks, in seconds and bytes. A schema that does not fit is no error here.

        backend, version, version_number (such as 180006); schema (0: none) and schema_known; fsync, full_page_writes,
        synchronous_commit, read_only; connections and max_connections; oldest_transaction_s and
        oldest_transaction_pid (None: no other transaction is open), prepared_transactions, held_snapshots (of slots
        and standbys: kind, name, and for how many transactions); blockers (transactions that others wait for on these
        tables, and idle ones with locks there, the oldest first; see inspect/locks.sql); invalid_indexes;
        partitions_ahead_days (None: no schema); tables (name → live, dead, bytes, vacuumed_s); clock_skew_s (server
        minus this machine, give or take clock_skew_error_s); notifications_s (until the first one arrived; None: none
        did within some seconds, and notifications_reason says why); pooler (True: something between here and the
        server keeps sessions of its own); refused (why something that operators do is not carried out; "" when all
        is, or nothing can be written).
        """
        schema = await self._pool.schema()
        async with self._pool.connection(any_schema=True) as connection:
            asked = time.time()
            ((now,),) = await fetch(connection, "inspect/now")
            answered = time.time()
            async with connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(load("inspect/facts"))
                (found,) = await cursor.fetchall()
                await cursor.execute(load("inspect/locks"), {"limit": BLOCKERS})
                blockers = await cursor.fetchall()
            pooler = found.pop("backend_pid") != connection.info.backend_pid
        tried = schema == KNOWN and not found["read_only"]
        seconds, reason = await self._notifications()
        return {
            "backend": "postgres",
            **found,
            "tables": found["tables"] or {},
            "blockers": blockers,
            "schema": schema,
            "schema_known": KNOWN,
            "clock_skew_s": now.timestamp() - (asked + answered) / 2,
            "clock_skew_error_s": (answered - asked) / 2,
            "pooler": pooler,
            "refused": await rehearse(self._pool, self._rules) if tried else "",
            "notifications_s": seconds,
            "notifications_reason": reason,
        }

    async def _notifications(self) -> tuple[float | None, str]:
        """Listen and notify; return how long that took, or why nothing arrived."""
        notifications = Notifications(self._pool.settings)
        began = time.perf_counter()
        try:
            arrive = await notifications.known(LONGEST)
            return (time.perf_counter() - began if arrive else None), notifications.reason
        finally:
            await notifications.close()
