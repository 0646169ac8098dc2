"""Traps 10 and 12: rows that ended stay for as long as anybody's snapshot is open, and no hot statement reads them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.dialect import load, plain_array
from queue_core.stores.postgres.scans import times
from queue_core.stores.postgres.scans.blocks import WHOLE_TABLE
from queue_core.stores.postgres.session.connection import hot_options
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome, worker_beat
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, beat_parameters, new_job, settle_parameters
from tests.postgres.traps.test_traps_plans import looked_at, statements

ENDED = 30_000
FEW = 2_500
"""Blocks, or rows and entries; what a batch of 100 jobs touches is below it, and what ended far above."""
END_JOBS = f"""
insert into leases (id, token, queue_id, worker, started_at, expires_at)
select gen_random_uuid(), n, 1, 'gone', now(), now() + interval '1 hour' from generate_series(1, {ENDED}) n;
insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
select gen_random_uuid(), 2, 122::bigint << 45 | n, n, 5, 'queued', now(), 'task', '{{}}', 3
  from generate_series(1, {ENDED}) n;
delete from leases;
delete from jobs;
analyze leases, jobs;
"""
SCANNED = {"settle/reclaim": "leases", "upkeep/orphans": "leases", "upkeep/fold": "tally_deltas"}
"""What is scanned as a whole, or in steps where that takes long."""


def generic(connection: psycopg.Connection[Any], name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Run a hot statement as its prepared generic plan; return the plan; what it does is taken back."""
    names: list[str] = []

    def numbered(match: re.Match[bytes]) -> bytes:
        names.append(match[1].decode())
        return b"$%d" % (names.index(match[1].decode()) + 1)

    text = re.sub(rb"%\((\w+)\)s", numbered, load(name, SCHEMA)).replace(b"%%", b"%")
    values = [params[one] for one in dict.fromkeys(names)]
    text = re.sub(rb"\$(\d+)", lambda m: b"$%d" % (list(dict.fromkeys(names)).index(names[int(m[1]) - 1]) + 1), text)
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        cursor.execute(b"prepare statement as " + text)
        given = psycopg.sql.SQL(", ").join(psycopg.sql.Literal(value) for value in values)
        call = psycopg.sql.SQL("({})").format(given) if values else psycopg.sql.SQL("")
        cursor.execute(psycopg.sql.SQL("explain (analyze, buffers, format json) execute statement {}").format(call))
        ((plans,),) = cursor.fetchall()
        cursor.execute("deallocate statement")
    plan: dict[str, Any] = plans[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def unbounded(name: str, plan: dict[str, Any]) -> list[str]:
    """Return what is wrong with a plan: tables read without a condition for an index, and too many blocks."""
    found = [
        f"{node['Node Type']} on {node['Relation Name']}"
        for node in nodes(plan)
        if node.get("Relation Name") in ("jobs", "leases", "tally_deltas")
        and "Scan" in node["Node Type"]
        and "Index Cond" not in node
        and not (node["Node Type"] in ("Tid Range Scan", "Tid Scan", "Seq Scan") and name in SCANNED)
        and node["Actual Loops"]
    ]
    blocks = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return found + ([f"{blocks} blocks"] if blocks > FEW else [])


async def hot_statements(store: PostgresStore, hand: Hand) -> dict[str, dict[str, Any]]:
    """Return every statement that runs all the time, over 100 ready and 20 running jobs."""
    heart = store.open_heartbeat()
    heart.renew(worker_beat())
    heart.close()
    running = [new_job() for _ in range(20)]
    ready = [new_job() for _ in range(100)]
    await store.insert([*running, *ready])
    ids = [job.id for job in running]
    claims = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 20, LEASE, ids))
    assert len(claims) == 20
    found = statements(ready[0]) | {
        "claim/claimable": {"queue_id": 1, "ids": plain_array(job.id for job in ready)},
        "read/heads": {"queue_ids": "{1}", "priorities": "{5}", "limit": 100},
        "heartbeat/beat": beat_parameters(claims),
        "ordering/keys_of_unfinished": {"ids": plain_array(ids)},
        "upkeep/orphans": WHOLE_TABLE,
        "upkeep/fold": {"limit": 100, **WHOLE_TABLE},
    }
    for kind in ("completed", "retrying", "dead"):
        name, params = settle_parameters([outcome(claim, kind) for claim in claims])
        found[name] = params
    del found["logs/forget_logs"]
    return found


async def test_trap_12_no_hot_statement_reads_leases_that_ended(
    store: PostgresStore, new_hand: NewHand, snapshot: Hand, postgres_url: str
) -> None:
    """Though statistics know of no lease at all, so that reading all of them looks as cheap as a look at one."""
    hand = new_hand()
    hand.do(END_JOBS)
    found = {}
    with psycopg.connect(**hot_options(PostgresSettings(url=postgres_url))) as connection:
        for name, params in (await hot_statements(store, hand)).items():
            wrong = unbounded(name, generic(connection, name, params))
            if (read := looked_at(connection, name, params)) > FEW and name not in SCANNED:
                wrong.append(f"{read} rows and entries")
            if wrong:
                found[name] = wrong
    assert found == {}


async def test_trap_12_can_fail(
    store: PostgresStore, new_hand: NewHand, snapshot: Hand, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an anti-join, the look at leases reads all there ever were since the snapshot."""
    hand = new_hand()
    hand.do(END_JOBS)
    statement = load("claim/ready_after", SCHEMA)
    joined = statement.replace(
        b'coalesce((SELECT false FROM "jobconsole".leases l WHERE l.id = j.id), true)',
        b'NOT EXISTS (SELECT FROM "jobconsole".leases l WHERE l.id = j.id)',
    )
    assert joined != statement
    await hot_statements(store, hand)
    monkeypatch.setattr("tests.postgres.traps.test_traps_snapshot.load", lambda name, schema: joined)
    with psycopg.connect(**hot_options(PostgresSettings(url=postgres_url))) as connection:
        plan = generic(connection, "claim/ready_after", statements(new_job())["claim/ready_after"])
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] > FEW


async def test_trap_10_due_jobs_are_found_beside_those_that_were_promoted(
    store: PostgresStore, new_hand: NewHand, snapshot: Hand, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads those of the last seconds; what is left from before, as somebody had it locked, at times."""
    hand = new_hand()
    hand.do(f"""
        insert into queues (name) values ('{QUEUE}') on conflict do nothing;
        insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries)
        select gen_random_uuid(), 1, n, 5, 'scheduled', now() - interval '1 minute', 'task', '{{}}', 3
          from generate_series(1, {ENDED}) n;
        delete from jobs;
    """)
    due = new_job(delay=0.001)
    await store.insert([due])
    with psycopg.connect(**hot_options(PostgresSettings(url=postgres_url))) as connection:
        for name in ("store/next_due", "store/promote"):
            read = [
                looked_at(connection, name, {"limit": 100, "back": back})
                for back in (times.SINCE_EVER, times.DUE_REACH_BACK)
            ]
            assert read[1] < FEW < ENDED <= read[0]
    monkeypatch.setattr(store._due._scans, "_enough", ((2, 0.0),))
    monkeypatch.setattr(times, "SCANS_REST", 1e9)
    for _ in range(2):
        await store.next_due()
    assert store._due.back() == times.SINCE_EVER, "none was promoted yet"
    began = time.monotonic()
    assert [job.id for job in await store.promote(10)] == [due.id]
    assert times.DUE_REACH_BACK <= store._due.back() <= times.DUE_REACH_BACK + time.monotonic() - began
    missed = (
        "insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries)"
        " values (gen_random_uuid(), 1, 1, 5, 'scheduled', now() - interval '1 hour', 'task', '{}', 3)"
    )
    hand.do(missed)
    assert await store.promote(10) == []
    store._due._promoted_at -= 7200.0
    assert len(await store.promote(10)) == 1, "it stood still since before that was due"
    hand.do(missed)
    assert await store.promote(10) == []
    store._due._scans._again_at = 0.0
    assert len(await store.promote(10)) == 1
