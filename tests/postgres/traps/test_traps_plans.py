"""Trap 10, and the plans of trap 11: neither history nor a burst makes a hot statement read a table as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from queue_core.job import NewJob
from queue_core.settings import PostgresSettings
from queue_core.store import ClaimRequest
from queue_core.stores.postgres.lane import hot_options
from queue_core.stores.postgres.sql import load, plain_array
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome, worker_beat
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, claim_parameters, new_job, reclaim_parameters, settle_parameters

GROWING = ("jobs", "jobs_dead", "job_history", "job_attempts")
"""Tables that may hold millions of rows."""

FINISHED = """
insert into jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries,
                       last_token, signature, kind, created_at)
select gen_random_uuid(), 1, n, 5, now(), 'task', '{}', 3, 0, 3, n, 'x', 'error', now()
  from generate_series(1, 20000) n;
insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes, max_retries,
                         last_token, created_at)
select gen_random_uuid(), 1, n, 5, 'completed', now(), 'task', '{}', 0, 0, 3, n, now()
  from generate_series(1, 40000) n;
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


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def whole_reads(plan: dict[str, Any]) -> list[str]:
    """Return the growing tables that a plan reads as a whole, and the sorts of all that is ready."""
    reads = [
        f"{node['Node Type']} on {node['Relation Name']}"
        for node in nodes(plan)
        if node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"}
        and re.sub(r"_\d{8}$", "", node["Relation Name"]) in GROWING
    ]
    # A condition on the index is what makes an index scan short; without one it reads all of it.
    return reads + [
        f"all of {node['Index Name']}"
        for node in nodes(plan)
        if node["Node Type"] in {"Index Scan", "Index Only Scan"}
        and "Index Cond" not in node
        and node["Relation Name"] in GROWING
        and node["Index Name"] != "jobs_due"
    ]


def indexes(plan: dict[str, Any], table: str) -> set[str]:
    return {node["Index Name"] for node in nodes(plan) if node.get("Relation Name") == table and "Index Name" in node}


def all_parameters(job: NewJob) -> dict[str, dict[str, Any]]:
    """Return every hot statement that reads, with parameters that find little."""
    statements = {
        "claim/by_ids": claim_parameters(1, [job.id]),
        "claim/by_rank": claim_parameters(1, limit=1),
        "claim/claimable": {"queue_id": 1, "ids": plain_array([job.id])},
        "sweep/head": {"queue_id": 1, "limit": 500},
        "sweep/ready_after": {"queue_id": 1, "rank": -1, "limit": 500},
        "sweep/promote": {"limit": 100},
        "sweep/reclaim": reclaim_parameters(),
        "worker/finals": {"ids": plain_array([job.id]), "seconds": 3600.0},
        "settle/settled_already": {"id": plain_array([job.id]), "token": "{1}", "kind": "{completed}"},
    }
    for kind in ("completed", "retrying", "dead"):
        claimed = ClaimedStandIn(job.id)
        name, params = settle_parameters([outcome(claimed, kind)])  # type: ignore[arg-type]
        statements[name] = params
    return statements


class ClaimedStandIn:
    """What an outcome needs of a claim."""

    token, queue, type = 1, QUEUE, TYPE

    def __init__(self, job_id: str) -> None:
        self.id = job_id


def kept_plan(connection: psycopg.Connection[Any], name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Run a statement until its plan is kept, and return the plan that all later calls use."""
    for _ in range(8):
        connection.execute(load(name), params, prepare=True)  # type: ignore[arg-type]
    row = connection.execute(
        "select name, cardinality(parameter_types) from pg_prepared_statements order by prepare_time desc limit 1",
        prepare=False,
    ).fetchone()
    assert row is not None
    connection.execute("set plan_cache_mode = force_generic_plan", prepare=False)
    arguments = ", ".join(["null"] * row[1])
    explained = connection.execute(f"explain (format json) execute {row[0]} ({arguments})", prepare=False).fetchone()
    connection.execute("set plan_cache_mode = auto", prepare=False)
    assert explained is not None
    plan: dict[str, Any] = explained[0][0]["Plan"]
    return plan


async def empty_and_analysed(store: PostgresStore, hand: Hand) -> NewJob:
    """Leave tables whose statistics say that they are as good as empty, and one job."""
    heart = store.heart()
    heart.beat(worker_beat())
    heart.close()
    job = new_job()
    await store.insert([job])
    for table in (*GROWING, "leases", "queues", "workers"):
        hand.do(f"vacuum analyze {table}")
    return job


def plans(url: str, job: NewJob, **options: Any) -> dict[str, dict[str, Any]]:
    given = hot_options(PostgresSettings(url=url)) | options
    with psycopg.connect(**given) as connection:
        return {name: kept_plan(connection, name, params) for name, params in all_parameters(job).items()}


async def test_trap_10_a_plan_made_on_empty_tables_reads_no_table_as_a_whole(
    store: PostgresStore, new_hand: NewHand, postgres_url: str
) -> None:
    found = plans(postgres_url, await empty_and_analysed(store, new_hand()))
    assert {name: reads for name, plan in found.items() if (reads := whole_reads(plan))} == {}
    assert indexes(found["claim/by_ids"], "jobs") == {"jobs_pkey"}
    assert indexes(found["claim/claimable"], "jobs") == {"jobs_pkey"}
    for name in ("claim/by_rank", "sweep/head", "sweep/ready_after"):
        assert indexes(found[name], "jobs") == {"jobs_ready"}, name
    for name in ("settle/finish", "settle/requeue", "settle/bury", "sweep/reclaim"):
        assert indexes(found[name], "jobs") == {"jobs_pkey"}, name
    assert "jobs_due" in indexes(found["sweep/promote"], "jobs")


async def test_trap_10_can_fail(store: PostgresStore, new_hand: NewHand, postgres_url: str) -> None:
    """With the server's own choice, the plans that are kept read everything."""
    found = plans(postgres_url, await empty_and_analysed(store, new_hand()), options="")
    assert "Seq Scan on jobs" in whole_reads(found["claim/by_ids"])
    assert "Seq Scan on jobs" in whole_reads(found["claim/by_rank"])


def buffers(hand: Hand, name: str, params: dict[str, Any]) -> int:
    """Return how many pages a statement touches; what it does is taken back."""
    hand.do("begin")
    text = b"explain (analyze, buffers, format json) " + load(name)
    plan = hand.do(text, params)[0][0][0]["Plan"]
    hand.do("rollback")
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_trap_10_a_claim_costs_the_same_with_many_finished_and_many_waiting_jobs(
    store: PostgresStore, new_hand: NewHand, postgres_url: str
) -> None:
    hand = new_hand()
    await empty_and_analysed(store, hand)
    jobs = [new_job(priority=9) for _ in range(100)]
    await store.insert(jobs)
    by_ids = claim_parameters(1, [job.id for job in jobs])
    by_rank = claim_parameters(1)
    hand.do("set enable_seqscan = off")
    hand.do("set enable_bitmapscan = off")
    before = [buffers(hand, "claim/by_ids", by_ids), buffers(hand, "claim/by_rank", by_rank)]
    for bulk in (FINISHED, BACKLOG, SCHEDULED):
        hand.do(bulk)
    for analysed in (False, True):
        if analysed:
            hand.do("analyze")
        after = [buffers(hand, "claim/by_ids", by_ids), buffers(hand, "claim/by_rank", by_rank)]
        # An index that is one level higher costs a page more a row; reading 80,000 jobs would cost thousands.
        assert all(late <= 2 * early + 100 for early, late in zip(before, after, strict=True)), (before, after)


async def test_trap_10_a_burst_on_an_idle_worker_is_claimed_at_once(store: PostgresStore, new_hand: NewHand) -> None:
    """The store's own connection, with the plans that it keeps, and rows counted by the server."""
    hand = new_hand()
    request = ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE)
    await empty_and_analysed(store, hand)
    for _ in range(8):
        (job,) = await store.insert([new_job()])
        await store.settle([outcome(claim, "completed") for claim in await store.claim(request)])
        await store.claim(request._replace(ids=[job.id]))
    hand.do(BACKLOG)
    ids = [row[0] for row in hand.do("select id::text from jobs where status = 'queued' order by rank desc limit 10")]
    for asked in (None, ids):
        looked_at = await rows_looked_at(store, request._replace(ids=asked))
        assert looked_at < 1000, "by ids" if asked else "by rank"


async def rows_looked_at(store: PostgresStore, request: ClaimRequest) -> int:
    """Return the rows that one claim has looked at in the table of jobs, by index or without."""
    connection = store._claims._connection
    assert connection is not None
    async with connection.transaction():
        assert len(await store.claim(request)) == 10
        cursor = await connection.execute(
            "select pg_stat_get_xact_tuples_returned(t) + pg_stat_get_xact_tuples_fetched(t)"
            " + (select sum(pg_stat_get_xact_tuples_returned(indexrelid)) from pg_index where indrelid = t)"
            " from (select 'jobs'::regclass) as jobs (t)"
        )
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def test_trap_11_results_are_found_by_index(store: PostgresStore, new_hand: NewHand, postgres_url: str) -> None:
    """Hot, dead and history in one statement, each by the id."""
    job = await empty_and_analysed(store, new_hand())
    found = plans(postgres_url, job)["worker/finals"]
    assert indexes(found, "jobs") == {"jobs_pkey"}
    assert indexes(found, "jobs_dead") == {"jobs_dead_pkey"}
    history = [node for node in nodes(found) if node.get("Relation Name", "").startswith("job_history_2")]
    assert len(history) >= 9
    assert {node["Node Type"] for node in history} <= {"Index Scan", "Index Only Scan"}


@pytest.mark.parametrize("name", ["claim/by_ids", "claim/by_rank"])
def test_trap_10_a_claim_is_ordered_by_the_index(name: str) -> None:
    """The order stands in the statement, and nothing but a rank decides it."""
    assert re.findall(rb"ORDER BY (\S+)", load(name)) == [b"j.rank", b"c.rank"]
