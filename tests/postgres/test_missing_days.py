"""A history without today, as in a database restored from an old copy: what ends is stored, and the days are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from queue_core import JobContext, JobQueue
from queue_core.model.settings import JobsSettings, PostgresSettings
from queue_core.model.states import Status
from queue_core.ports.store import ClaimRequest
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, new_job, outcome
from tests.conformance.working import PATIENCE, gated_task, working
from tests.waiting import eventually

Hand = psycopg.Connection[tuple[Any, ...]]
DAYS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'job_history'::regclass"


@pytest.fixture(params=[True, False], ids=["prepared", "pooled"])
async def jobs(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[JobQueue]:
    """A queue object in PostgreSQL, with prepared statements or as behind a pooler."""
    postgres = PostgresSettings.model_validate({"url": postgres_url, "prepare": request.param})
    async with JobQueue(settings=JobsSettings(queue_backend="postgres", postgres=postgres)) as jobs:
        await jobs.store.acquire_leadership("sweep", "leader", 0)
        yield jobs


@pytest.fixture
def hand(postgres_url: str) -> Iterator[Hand]:
    with psycopg.connect(postgres_url, autocommit=True) as hand:
        yield hand


def drop_days(hand: Hand) -> None:
    """Leave the history without a day."""
    for (day,) in hand.execute(DAYS).fetchall():
        hand.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(*day.split("."))))
    assert days(hand) == 0


def days(hand: Hand) -> int:
    """Return how many days the history has."""
    return len(hand.execute(DAYS).fetchall())


@pytest.mark.parametrize("key", [None, "customer"])
async def test_an_end_is_stored_at_once(jobs: JobQueue, hand: Hand, key: str | None) -> None:
    await jobs.store.insert([new_job(ordering_key=key)])
    (claim,) = await jobs.store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE))
    drop_days(hand)
    (settled,) = await jobs.store.settle([outcome(claim, "completed", ordering_key=key)])
    assert settled.accepted
    assert days(hand) == 9, "from yesterday to a week ahead"
    job = await jobs.inspector.get(claim.id)
    assert (job.status, job.retry_count) == (Status.COMPLETED, 0)


async def test_the_lost_attempt_of_a_cancelled_job_ends_at_once(jobs: JobQueue, hand: Hand) -> None:
    await jobs.store.insert([new_job()])
    (claim,) = await jobs.store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, 0.001))
    await jobs.operations.change("cancel", [claim.id])
    drop_days(hand)
    assert await eventually(lambda: jobs.store.reclaim(10))
    assert (await jobs.inspector.get(claim.id)).status == Status.CANCELLED
    assert days(hand) == 9


async def test_an_operator_cancels_at_once(jobs: JobQueue, hand: Hand) -> None:
    job = new_job()
    await jobs.store.insert([job])
    drop_days(hand)
    changed = await jobs.operations.change("cancel", [job.id])
    assert changed.ids == (job.id,)
    assert days(hand) == 9


async def test_a_handlers_transaction_is_committed_without_another_attempt(jobs: JobQueue, hand: Hand) -> None:
    hand.execute("CREATE TABLE receipts (attempt int)")
    begun, go_on = asyncio.Event(), asyncio.Event()

    @jobs.task
    async def pay(ctx: JobContext) -> str:
        async with ctx.transaction() as connection:
            await connection.execute("INSERT INTO receipts VALUES (%s)", (ctx.attempt,))
            begun.set()
            await go_on.wait()
            # Reads of the history do not stand in the way of its new days.
            await connection.execute("SELECT FROM job_history")
        return "paid"

    handle = await pay.enqueue()
    async with working(jobs):
        await asyncio.wait_for(begun.wait(), PATIENCE)
        drop_days(hand)
        go_on.set()
        assert await handle.result(PATIENCE) == "paid"
    assert hand.execute("SELECT attempt FROM receipts").fetchall() == [(1,)]


async def test_workers_store_what_has_ended_and_run_no_job_twice(
    jobs: JobQueue, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    gate = gated_task(jobs)
    handles = await jobs.enqueue_many("work", [{"n": n} for n in range(3)])
    async with working(jobs):
        await asyncio.wait_for(gate.begun.wait(), PATIENCE)
        drop_days(hand)
        gate.go_on.set()
        assert [await handle.result(PATIENCE) for handle in handles] == [0, 1, 2]
    assert sorted(gate.ran) == [0, 1, 2]
    assert "settle waits for the store" not in caplog.text
    assert "had no place for what ends today" in caplog.text


async def test_where_the_days_cannot_be_made_outcomes_wait(
    jobs: JobQueue, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    gate = gated_task(jobs)
    handle = await jobs.enqueue("work", {"n": 1})
    async with working(jobs):
        await asyncio.wait_for(gate.begun.wait(), PATIENCE)
        drop_days(hand)
        hand.execute("ALTER FUNCTION make_job_history RENAME TO gone")
        gate.go_on.set()
        assert await eventually(lambda: "settle waits for the store" in caplog.text)
        assert "none could be made" in caplog.text
        hand.execute("ALTER FUNCTION gone RENAME TO make_job_history")
        assert await handle.result(PATIENCE) == 1
    assert gate.ran == [1]


async def test_many_that_make_the_days_at_once_do_not_disturb_each_other(
    jobs: JobQueue, hand: Hand, postgres_url: str
) -> None:
    await jobs.store.insert([new_job() for _ in range(8)])
    claims = await jobs.store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 8, LEASE))
    others = [JobQueue(postgres=postgres_url) for _ in claims]
    for other in others:
        await other.open()
    drop_days(hand)
    try:
        ends = [other.store.settle([outcome(claim, "completed")]) for other, claim in zip(others, claims, strict=True)]
        assert all(settled.accepted for (settled,) in await asyncio.gather(*ends))
    finally:
        for other in others:
            await other.close()
    assert days(hand) == 9
