"""Lines of jobs that are over their retention go a bounded number at a time, before the jobs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from queue_core.errors import JobNotFound
from queue_core.model.job import LogLine
from queue_core.model.settings import RetentionSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.sqlite import upkeep
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.store import SqliteStore
from queue_core.testing import FakeClock
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, new_job, outcome
from tests.sqlite.conftest import NewFile


def left(path: Path) -> tuple[int, int]:
    """Return how many jobs and lines there are."""
    with closing(sqlite3.connect(path)) as connection:
        jobs, lines = (
            connection.execute(f"select count(*) from {table}").fetchone()[0] for table in ("jobs", "job_logs")
        )
        return jobs, lines


async def test_lines_go_in_bounded_steps(path: Path, new_file: NewFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LINES_PER_TRANSACTION", 10)
    monkeypatch.setattr(upkeep, "BATCHES_PER_ROUND", 2)
    clock = FakeClock()
    file = new_file(clock=clock)
    store = SqliteStore(file, RetentionSettings(completed=60.0))
    jobs = [new_job() for _ in range(3)]
    await store.insert(jobs)
    claims = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 3, LEASE))
    await store.log([LogLine(c.id, c.token, c.queue, number, "x") for c in claims for number in range(1, 12)])
    await store.settle([outcome(claim, "completed") for claim in claims])
    clock.advance(3600)
    seen = []
    for _ in range(4):
        seen.append(left(path))
        await store.upkeep()
    assert seen == [(3, 33), (3, 13), (0, 0), (0, 0)]
    with pytest.raises(JobNotFound):
        await SqliteInspector(file).logs(jobs[0].id)
