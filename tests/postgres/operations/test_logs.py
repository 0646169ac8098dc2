"""Lines of jobs that are gone: found by a walk in bounded steps, also by a leader that did not see the jobs go."""

from __future__ import annotations

import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres import logs
from queue_core.stores.postgres.logs import LogRemoval
from queue_core.stores.postgres.session.runner import SerialRunner
from tests.postgres.operations.filling import Database

FILL = """
insert into job_logs (job_id, number, token, line, at, text)
select ('00000000-0000-7000-8000-' || lpad(job::text, 12, '0'))::uuid, line, 1, line, now(), 'x'
  from generate_series(1, 10) job, generate_series(1, 7) line;
insert into queues (name) values ('work');
insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
select '00000000-0000-7000-8000-000000000003', 1, 122::bigint << 45 | 1, 1, 5, 'queued', now(), 'task', '{}', 3;
insert into jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries,
                       last_token, signature, kind, created_at)
select '00000000-0000-7000-8000-000000000005', 1, 1, 5, now(), 'task', '{}', 3, 0, 3, 1, 'x', 'error', now();
insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes, max_retries,
                         last_token, created_at)
select '00000000-0000-7000-8000-000000000007', 1, 1, 5, 'completed', now(), 'task', '{}', 0, 0, 3, 1, now();
"""
"""Ten jobs with seven lines each, of which three are still there: waiting, dead and completed."""


@pytest.fixture
async def runner(postgres_url: str) -> SerialRunner:
    """The connection of the leader's rounds."""
    return SerialRunner(PostgresSettings(url=postgres_url))


async def left(database: Database) -> dict[int, int]:
    rows = await database.do("select right(job_id::text, 12)::int, count(*) from job_logs group by 1", {})
    return dict(rows)


async def test_a_walk_in_steps(database: Database, runner: SerialRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LINES_PER_STATEMENT", 4)
    monkeypatch.setattr(logs, "STATEMENTS_PER_ROUND", 3)
    for statement in FILL.strip().split(";\n"):
        await database.do(statement, {})
    walk = LogRemoval(runner)
    try:
        await walk.run(gone=False)
        assert sum((await left(database)).values()) == 70, "every worker's start comes here"
        await walk.run(gone=False)
        assert sum((await left(database)).values()) == 70 - 12, "three steps of four lines"
        for _ in range(8):
            await walk.run(gone=False)
        assert await left(database) == {3: 7, 5: 7, 7: 7}
        await database.do("delete from jobs_dead", {})
        for _ in range(3):
            await walk.run(gone=False)
        assert len(await left(database)) == 3, "nothing went, so nobody looks"
        await walk.run(gone=True)
        for _ in range(3):
            await walk.run(gone=False)
        assert await left(database) == {3: 7, 7: 7}
    finally:
        await runner.close()


async def test_jobs_that_go_behind_the_walk(
    database: Database, runner: SerialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LINES_PER_STATEMENT", 10)
    monkeypatch.setattr(logs, "STATEMENTS_PER_ROUND", 4)
    for statement in FILL.strip().split(";\n"):
        await database.do(statement, {})
    walk = LogRemoval(runner)
    try:
        await walk.run(gone=True)
        await database.do("delete from jobs", {})
        await walk.run(gone=True)
        assert 3 in await left(database), "the walk has been there"
        for _ in range(3):
            await walk.run(gone=False)
        assert await left(database) == {5: 7, 7: 7}
    finally:
        await runner.close()
