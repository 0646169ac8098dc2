"""Traps 11 and 12: what the tables and their indexes must and must not have."""

from __future__ import annotations

import pytest

from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, beat_parameters, new_job


def indexed_columns(hand: Hand, table: str) -> dict[str, str]:
    rows = hand.do("select indexname, indexdef from pg_indexes where tablename = %(table)s", {"table": table})
    return {name: text[text.index("(") :] for name, text in rows}


async def test_trap_12_no_index_on_state_expiry_progress_or_worker(new_hand: NewHand) -> None:
    """Each further index is paid at every claim and settle."""
    hand = new_hand()
    assert indexed_columns(hand, "leases") == {
        "leases_pkey": "(id)",
        "leases_cancelled": "(worker) WHERE cancel",
        "leases_limited": "(queue_id, token) WHERE limited",
    }
    jobs = indexed_columns(hand, "jobs")
    assert jobs == {
        "jobs_pkey": "(id)",
        "jobs_ready": "(queue_id, rank) WHERE (rank IS NOT NULL)",
        "jobs_due": "(run_at) WHERE ((rank IS NULL) AND (status <> 'queued'::job_status))",
        "jobs_ordering": "(queue_id, ordering_key, admitted, status, seq) WHERE (ordering_key IS NOT NULL)",
    }


async def updates_in_place(store: PostgresStore, new_hand: NewHand) -> tuple[int, int]:
    """Return how many leases a heartbeat renewed, and how many of these without touching an index."""
    jobs = [new_job() for _ in range(20)]
    await store.insert(jobs)
    claims = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 20, LEASE, [job.id for job in jobs]))
    hand = new_hand()
    with hand.transaction():
        hand.do("heartbeat/beat", beat_parameters(claims))
        ((renewed, hot),) = hand.do(
            "select pg_stat_get_xact_tuples_updated(%(t)s::regclass)::int,"
            " pg_stat_get_xact_tuples_hot_updated(%(t)s::regclass)::int",
            {"t": "leases"},
        )
    return renewed, hot


async def test_trap_12_a_heartbeat_touches_no_index(store: PostgresStore, new_hand: NewHand) -> None:
    assert await updates_in_place(store, new_hand) == (20, 20)


async def test_trap_12_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    new_hand().do("create index expiry on leases (expires_at)")
    assert await updates_in_place(store, new_hand) == (20, 0)


async def test_trap_11_finished_rows_leave_the_hot_tables(store: PostgresStore, new_hand: NewHand) -> None:
    hand = new_hand()
    columns = {
        row[0] for row in hand.do("select column_name from information_schema.columns where table_name = 'jobs'")
    }
    assert not columns & {"result", "traceback", "finished_at", "completed_at", "expires_at", "worker", "progress"}
    checks = {row[0] for row in hand.do("select conname from pg_constraint where conrelid = 'jobs'::regclass")}
    assert "jobs_ready_check" in checks
    with pytest.raises(Exception, match="jobs_ready_check"):
        hand.do(
            "insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries)"
            " values (gen_random_uuid(), 1, 1, 5, 'completed', now(), 'x', '{}', 3)"
        )


async def test_trap_11_the_history_has_no_default_partition(new_hand: NewHand) -> None:
    """With one, attaching a new day would scan it under a lock that stops every settle."""
    hand = new_hand()
    bounds = hand.do(
        "select pg_get_expr(c.relpartbound, c.oid) from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'job_history'::regclass"
    )
    assert len(bounds) >= 9
    assert all(bound.startswith("FOR VALUES FROM") for (bound,) in bounds)
