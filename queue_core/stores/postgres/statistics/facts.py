"""Facts about the server that `doctor` checks, and who holds up the queue there."""

from __future__ import annotations

import time
from typing import Any

from psycopg.rows import dict_row

from queue_core.errors import StoreRefused
from queue_core.model.rules import Rules
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.migrate import EARLIER, KNOWN
from queue_core.stores.postgres.operations import dry_run
from queue_core.stores.postgres.session.failures import NoRoom
from queue_core.stores.postgres.session.listening import Notifications
from queue_core.stores.postgres.session.pool import ConnectionPool

NOTIFICATION_TIMEOUT = 6.0
"""Seconds that `doctor` waits for a notification."""
MAX_BLOCKERS = 4
"""How many blocking transactions are listed."""


async def read_blockers(pool: ConnectionPool) -> list[dict[str, Any]]:
    """Return the transactions that others wait for on these tables, and those with locks there that none should keep.

    The oldest first; see locks in sql/facts.sql. No lock on a table is needed for it.

    Raises:
        StoreUnavailable: no connection or no answer in time.
    """
    async with pool.connection(any_schema=True) as connection, connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(load("facts/locks", pool.settings.schema), {"limit": MAX_BLOCKERS})
        return await cursor.fetchall()


async def read_server(pool: ConnectionPool, rules: Rules) -> dict[str, Any]:
    """Return what `doctor` checks, in seconds. A schema that does not fit is no error here.

    backend, version, version_number (such as 180006), encoding (of the database); schema (0: none) and
    schema_known; earlier (the PostgreSQL schema in which a version before 1 has its tables, None: none); fsync,
    full_page_writes, synchronous_commit, read_only; connections and max_connections; oldest_transaction_s and
    oldest_transaction_pid (None: no other transaction is open), prepared_transactions, held_snapshots (of slots and
    standbys: kind, name, and for how many transactions); blockers (see `read_blockers`); invalid_indexes;
    partitions_ahead_days (None: no schema); tables (name → live, dead, vacuumed_s); clock_skew_s (server
    minus this machine, give or take clock_skew_error_s); notifications_s (until the first one arrived; None: none
    did within some seconds, notifications_reason has the reason, and notifications_advice what to do); pooler
    (True: something between here and the server keeps sessions of its own); refused (why something that operators
    do is not carried out; "" when all is, or nothing can be written) and untried (why that could not be found out:
    others were in the way).

    Raises:
        StoreUnavailable: no connection or no answer in time, or its disk is full.
    """
    blockers = await read_blockers(pool)
    schema = await pool.schema()
    async with pool.connection(any_schema=True) as connection:
        asked = time.time()
        ((now,),) = await pool.fetch(connection, "facts/now")
        answered = time.time()
        earlier = await pool.fetch(connection, EARLIER)
        async with connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(load("facts/server", pool.settings.schema))
            (found,) = await cursor.fetchall()
        pooler = found.pop("backend_pid") != connection.info.backend_pid
    refused, untried = "", ""
    if schema == KNOWN and not found["read_only"]:
        refused, untried = await _try_verbs(pool, rules)
    seconds, reason, advice = await _notifications(pool.settings)
    return {
        "backend": "postgres",
        **found,
        "tables": found["tables"] or {},
        "blockers": blockers,
        "schema": schema,
        "schema_known": KNOWN,
        "earlier": earlier[0][0] if earlier else None,
        "clock_skew_s": now.timestamp() - (asked + answered) / 2,
        "clock_skew_error_s": (answered - asked) / 2,
        "pooler": pooler,
        "refused": refused,
        "untried": untried,
        "notifications_s": seconds,
        "notifications_reason": reason,
        "notifications_advice": advice,
    }


async def _try_verbs(pool: ConnectionPool, rules: Rules) -> tuple[str, str]:
    """Return why a verb of operators is refused, and why that cannot be found out; "" where there is no reason."""
    try:
        return await dry_run(pool, rules), ""
    except NoRoom:
        raise
    except StoreRefused as error:
        return "", error.reason


async def _notifications(settings: PostgresSettings) -> tuple[float | None, str, str]:
    """Listen and notify; return the seconds until it arrived, or why it did not and what to do."""
    notifications = Notifications(settings)
    began = time.perf_counter()
    try:
        arrive = await notifications.known(NOTIFICATION_TIMEOUT)
        seconds = time.perf_counter() - began if arrive else None
        return seconds, notifications.reason, notifications.advice
    finally:
        await notifications.close()
