"""Settles that PostgreSQL refuses for reasons that are not in the outcomes: these are kept, no handler runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import sql

from queue_core import JobQueue
from tests.conformance.working import PATIENCE, gated_task, working
from tests.waiting import eventually


@pytest.fixture
async def jobs(postgres_url: str) -> AsyncIterator[JobQueue]:
    """A queue object in PostgreSQL."""
    async with JobQueue(postgres=postgres_url) as jobs:
        yield jobs


async def test_a_lock_timeout_of_the_role_drops_no_outcome(
    jobs: JobQueue, postgres_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gated_task(jobs)
    with psycopg.connect(postgres_url, autocommit=True) as hand:
        name = sql.Identifier(hand.info.dbname)
        hand.execute(sql.SQL("ALTER DATABASE {} SET lock_timeout = '50ms'").format(name))
        handles = await jobs.enqueue_many("work", [{"n": n} for n in range(3)])
        async with working(jobs):
            await asyncio.wait_for(gate.begun.wait(), PATIENCE)
            monkeypatch.setattr("queue_core.client.logs.WAIT_SECONDS", 0.0)
            with hand.transaction():
                hand.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", (handles[1].id,))
                gate.go_on.set()
                assert [await handles[n].result(PATIENCE) for n in (0, 2)] == [0, 2], "the others are stored"
                assert await eventually(lambda: caplog.text.count("settle waits for the store") >= 3)
            assert await handles[1].result(PATIENCE) == 1
    assert sorted(gate.ran) == [0, 1, 2]
