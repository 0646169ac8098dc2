"""Trap 10: neither history nor a burst makes a hot statement read a table as a whole."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from queue_core.model.job import NewJob
from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.dialect import load, plain_array
from queue_core.stores.postgres.scans.ranks import EVERYWHERE, rank_parameters
from queue_core.stores.postgres.session import runner
from queue_core.stores.postgres.session.connection import hot_options
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome, worker_beat
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, claim_parameters, new_job, reclaim_parameters, settle_parameters

GROWING = ("jobs", "jobs_dead", "job_history", "job_attempts", "job_logs")
"""Tables that may hold millions of rows."""
FEW = 2_500
"""Rows; what a batch of some hundred touches a few times over, and far from the 100,000 that a burst brings here."""

FINISHED = """
insert into jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries,
                       last_token, signature, kind, created_at)
select gen_random_uuid(), 1, n, 5, now(), 'task', '{}', 3, 0, 3, n, 'x', 'error', now()
  from generate_series(1, 20000) n;
insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes, max_retries,
                         last_token, created_at)
select gen_random_uuid(), 1, n, 5, 'completed', now(), 'task', '{}', 0, 0, 3, n, now()
  from generate_series(1, 40000) n;
insert into job_logs (job_id, number, token, line, at, text)
select gen_random_uuid(), n, 1, n, now(), 'x' from generate_series(1, 20000) n;
"""
BACKLOG = """
insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
select gen_random_uuid(), 1, 122::bigint << 45 | n, n, 5, 'queued', now(), 'task', '{}', 3
  from (select nextval('job_seq') as n from generate_series(1, 40000)) numbers;
"""
SCHEDULED = """
insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries)
select gen_random_uuid(), 1, n, 5, 'scheduled', now() + interval '1 day', 'task', '{}', 3
  from (select nextval('job_seq') as n from generate_series(1, 40000)) numbers;
"""


def statements(job: NewJob) -> dict[str, dict[str, Any]]:
    """Return every hot statement, with parameters that find at most a few hundred jobs."""
    found: dict[str, dict[str, Any]] = {
        "claim/by_ids": claim_parameters(1, [job.id]),
        "claim/by_rank": claim_parameters(1),
        "claim/claimable": {"queue_id": 1, "ids": plain_array([job.id])},
        "claim/heads": {"queues": "{default}", "limit": 100, **rank_parameters([EVERYWHERE])},
        "claim/ready_queues": {},
        "claim/ready_after": {"queue_id": 1, "limit": 100, **rank_parameters([EVERYWHERE])},
        "store/workload": {"back": 1e9, "busy": False},
        "store/promote": {"limit": 100, "back": 1e9},
        "store/next_due": {"back": 1e9},
        "settle/reclaim": reclaim_parameters(),
        "insert/worker_results": {"ids": plain_array([job.id]), "seconds": 3600.0},
        "settle/settled_already": {"id": plain_array([job.id]), "token": "{1}", "kind": "{completed}"},
    }
    line = {"id": plain_array([job.id]), "token": "{1}", "line": "{1}", "age": "{0}", "text": "{x}", "keep": 1000}
    found["logs/append"] = line
    found["logs/forget_logs"] = {"job": "00000000-0000-0000-0000-000000000000", "number": 0, "limit": 100}
    for kind in ("completed", "retrying", "dead"):
        name, params = settle_parameters([outcome(Held(job.id), kind)])  # type: ignore[arg-type]
        found[name] = params
    return found


class Held:
    """What an outcome needs of a claim."""

    token, queue, type = 1, QUEUE, TYPE

    def __init__(self, job_id: str) -> None:
        self.id = job_id


async def nearly_empty(store: PostgresStore, hand: Hand) -> NewJob:
    """Leave tables whose statistics say that they are as good as empty, and one job."""
    heart = store.open_heartbeat()
    heart.renew(worker_beat())
    heart.close()
    job = new_job()
    await store.insert([job])
    for table in (*GROWING, "leases", "queues", "workers"):
        hand.do(f"vacuum analyze {table}")
    return job


def burst(hand: Hand) -> None:
    for bulk in (FINISHED, BACKLOG, SCHEDULED):
        hand.do(bulk)


LOOKED_AT = """
select sum(pg_stat_get_xact_tuples_returned(c.oid))::bigint from pg_class c
 where c.relkind in ('r', 'i') and c.relnamespace = 'jobconsole'::regnamespace
"""


def looked_at(connection: psycopg.Connection[Any], name: str, params: dict[str, Any]) -> int:
    """Return how many rows and entries of indexes a statement looks at; what it does is taken back."""
    with connection.transaction(force_rollback=True):
        before = connection.execute(LOOKED_AT, prepare=False).fetchone()
        connection.execute(load(name, SCHEMA), params, prepare=True)  # type: ignore[arg-type]
        after = connection.execute(LOOKED_AT, prepare=False).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0] - before[0])


async def looked_at_after_a_burst(
    store: PostgresStore, hand: Hand, url: str, refresh: bytes, **options: Any
) -> dict[str, int]:
    """Keep plans that were made on nearly empty tables, let a burst come, and count what each statement looks at."""
    job = await nearly_empty(store, hand)
    settings = PostgresSettings(url=url)
    found = {}
    with ExitStack() as stack:
        connections = {}
        for name, params in statements(job).items():
            # One connection each: a rollback makes the driver forget what it has prepared.
            connection = stack.enter_context(psycopg.connect(**hot_options(settings) | options))
            connections[name] = connection
            for _ in range(8):
                connection.execute(load(name, SCHEMA), params, prepare=True)  # type: ignore[arg-type]
        burst(hand)
        for name, params in statements(job).items():
            connections[name].execute(refresh, prepare=False)
            found[name] = looked_at(connections[name], name, params)
    return found


async def test_trap_10_no_statement_reads_a_table_as_a_whole(
    store: PostgresStore, new_hand: NewHand, postgres_url: str
) -> None:
    """Neither the backlog nor what is finished, dead or delayed, though statistics know of none of these."""
    found = await looked_at_after_a_burst(store, new_hand(), postgres_url, load("runner/forget_plans"))
    assert {name: rows for name, rows in found.items() if rows > FEW} == {}


async def test_trap_10_can_fail(store: PostgresStore, new_hand: NewHand, postgres_url: str) -> None:
    """Left to itself, the server keeps the plans that it made on nearly empty tables."""
    found = await looked_at_after_a_burst(store, new_hand(), postgres_url, b"select", options="")
    assert found["claim/by_ids"] > 40_000
    assert found["claim/by_rank"] > 40_000


async def rows_of_a_claim(store: PostgresStore, request: ClaimRequest) -> int:
    """Return what a claim on the store's own connection looks at."""
    assert store._claims._session is not None
    connection = store._claims._session.connection
    async with connection.transaction():
        before = await (await connection.execute(LOOKED_AT)).fetchone()
        assert len(await store.claim(request)) == 10
        after = await (await connection.execute(LOOKED_AT)).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0] - before[0])


@pytest.mark.parametrize("by_ids", [True, False], ids=["by ids", "by rank"])
async def test_trap_10_a_burst_on_an_idle_worker_is_claimed_at_once(
    store: PostgresStore, new_hand: NewHand, monkeypatch: pytest.MonkeyPatch, by_ids: bool
) -> None:
    """The store forgets plans by itself."""
    hand = new_hand()
    request = ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE)
    await nearly_empty(store, hand)
    for _ in range(8):
        (job,) = await store.insert([new_job()])
        await store.settle([outcome(claim, "completed") for claim in await store.claim(request)])
        await store.claim(request._replace(ids=[job.id]))
    burst(hand)
    ids = [row[0] for row in hand.do("select id::text from jobs where status = 'queued' order by rank desc limit 10")]
    monkeypatch.setattr(runner, "PLANS_SECONDS", 0.0)
    assert await rows_of_a_claim(store, request._replace(ids=ids if by_ids else None)) < FEW


def pages(hand: Hand, name: str, params: dict[str, Any]) -> int:
    """Return how many pages a statement touches; what it does is taken back."""
    hand.do("begin")
    plan = hand.do(b"explain (analyze, buffers, format json) " + load(name, SCHEMA), params)[0][0][0]["Plan"]
    hand.do("rollback")
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_trap_10_a_claim_costs_the_same_with_many_finished_and_many_waiting_jobs(
    store: PostgresStore, new_hand: NewHand
) -> None:
    hand = new_hand()
    await nearly_empty(store, hand)
    jobs = [new_job(priority=9) for _ in range(100)]
    await store.insert(jobs)
    claims = {"claim/by_ids": claim_parameters(1, [job.id for job in jobs]), "claim/by_rank": claim_parameters(1)}
    before = {name: pages(hand, name, params) for name, params in claims.items()}
    burst(hand)
    hand.do("analyze")
    after = {name: pages(hand, name, params) for name, params in claims.items()}
    # An index that is one or two levels higher costs as many pages more a row.
    assert all(after[name] <= 2 * before[name] + 200 for name in claims), (before, after)


@pytest.mark.parametrize("name", ["claim/by_ids", "claim/by_rank"])
def test_trap_10_nothing_but_the_rank_orders_a_claim(name: str) -> None:
    assert re.findall(rb"ORDER BY (?:\w\.)?(\w+)", load(name, SCHEMA)) == [b"rank"] * 3


async def test_trap_10_plans_are_forgotten_by_themselves(
    store: PostgresStore, new_hand: NewHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first statement after a while, and not before each."""
    loaded: list[str] = []

    def noting(name: str, schema: str | None = None) -> bytes:
        if not name.startswith("listening/"):  # a probe comes when it comes
            loaded.append(name)
        return load(name, schema)

    monkeypatch.setattr(runner, "load", noting)
    monkeypatch.setattr(runner, "PLANS_SECONDS", 3600.0)
    for _ in range(5):
        await store.next_due()
    assert loaded == ["store/next_due"] * 5
    loaded.clear()
    monkeypatch.setattr(runner, "PLANS_SECONDS", 0.0)
    await store.next_due()
    assert loaded == ["runner/forget_plans", "store/next_due"]
