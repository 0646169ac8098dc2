"""The checks themselves: each kind of damage, done by hand to a store in order, is seen."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from queue_core.model.job import Outcome
from queue_core.ports.store import ClaimRequest
from tests.faults.findings import Findings, examine
from tests.faults.ledger import Pen, read
from tests.faults.plant import Plant

DAMAGE = {
    "a job is lost": ("delete from job_history where id = (select id from job_history limit 1)", "lost"),
    "a waiting job is lost": ("delete from jobs", "lost"),
    "a job is in two places": (
        "insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)"
        " select id, queue_id, 122::bigint << 45 | seq, seq, 5, 'queued', run_at, type, payload, 3 from job_history",
        "in more than one place",
    ),
    "a job comes from nowhere": (
        "insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)"
        " values (gen_random_uuid(), 1, 122::bigint << 45 | 99, 99, 5, 'queued', now(), 'work', '{}', 3)",
        "enqueued by nobody",
    ),
    "an earlier attempt had the last word": ("update job_history set last_token = last_token - 1", "started with"),
    "a result is another attempt's": ("""update job_history set result = '{"token": 1}'""", "started with"),
    "a total is wrong": ("update tally_deltas set n = n + 1 where outcome = 'completed'", "but a total of"),
    "a lease was left behind": (
        "insert into leases (id, token, queue_id, worker, started_at, expires_at)"
        " select id, 1, 1, 'w', now(), now() from job_history",
        "leases",
    ),
}


@pytest.fixture
async def in_order(plant: Plant) -> Plant:
    """Three completed jobs and a waiting one, with a ledger that says the same."""
    ids = await plant.enqueue(4)
    await plant.jobs.store.acquire_leadership("sweep", "test", 0)
    claims = await plant.jobs.store.claim(ClaimRequest("default", "worker", ("work",), 3, 60.0, ids))
    pen = Pen(plant.folder)
    for claim in claims:
        pen.start(claim.id, claim.token)
        pen.end(claim.id, claim.token)
    result = {claim.id: f'{{"token":{claim.token}}}' for claim in claims}
    await plant.jobs.store.settle(
        [Outcome(one.id, one.token, "default", "work", "completed", result=result[one.id]) for one in claims]
    )
    return plant


def look(plant: Plant) -> Findings:
    return examine(read(plant.folder), plant.postgres_url)


async def test_order_is_no_problem(in_order: Plant) -> None:
    found = look(in_order)
    assert found.problems == []
    assert (found.jobs, found.unfinished, found.extra_runs) == (4, 1, 0)


@pytest.mark.parametrize("what", DAMAGE)
async def test_damage_is_seen(in_order: Plant, what: str) -> None:
    statement, said = DAMAGE[what]
    with psycopg.connect(in_order.postgres_url) as connection:
        connection.execute(statement)
    assert any(said in problem for problem in look(in_order).problems), look(in_order).problems


async def test_a_second_run_without_a_reason_is_seen(in_order: Plant) -> None:
    job_id, (token,) = next(iter(in_order.ledger.tokens().items()))
    pen = Pen(in_order.folder)
    pen.start(job_id, token - 1)
    assert any("had not been given back" in problem for problem in look(in_order).problems)
    pen.write("back", job_id, token - 1, "reclaimed")
    assert look(in_order).problems == []
    pen.start(job_id, token)
    assert any("started twice under one token" in problem for problem in look(in_order).problems)


async def test_half_a_batch_is_seen(in_order: Plant) -> None:
    pen = Pen(in_order.folder)
    pen.batch("batch-1", 4)
    for path in in_order.folder.glob("*.ledger"):
        _without_lines(path, "enqueued")
    assert look(in_order).problems == [], "written as a whole, although its producer never learned it"
    pen.batch("batch-1", 5)
    assert any("4 of a batch of 5 were written" in problem for problem in look(in_order).problems)


def _without_lines(path: Path, word: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(word)))


async def test_a_line_that_a_kill_has_cut_is_left_out(in_order: Plant) -> None:
    (in_order.folder / "cut.ledger").write_text("batch batch-9 1 1.0\nenqueued batch-9 01a1fc4")
    assert look(in_order).problems == []
