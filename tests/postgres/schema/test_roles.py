"""The rights that docs/operating.md names for programs that enqueue, and for operators."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from queue_core import JobContext, JobQueue, Retry
from queue_core.errors import StoreRefused
from tests.conformance.working import PATIENCE, until_status, working
from tests.examples.blocks import blocks
from tests.servers import random_name

DAY = "select 'jobconsole.job_history_' || to_char((now() at time zone 'UTC')::date + %s, 'YYYYMMDD')"


@contextmanager
def role(connection: psycopg.Connection[tuple[object, ...]], url: str) -> Iterator[str]:
    """Make a role with these rights; give the address for it."""
    name = random_name("app")
    (statements,) = blocks("operating.md", "## Roles", "sql")
    connection.execute(f"create role {name} login")
    try:
        connection.execute(statements.replace("app;", f"{name};").replace("ROLE owner", "ROLE current_user"))
        yield re.sub(r"//[^@/]*@", f"//{name}@", url, count=1)
    finally:
        connection.execute(f"drop owned by {name}")
        connection.execute(f"drop role {name}")


@pytest.fixture
def owner(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def app_url(owner: psycopg.Connection[tuple[object, ...]], postgres_url: str) -> Iterator[str]:
    with role(owner, postgres_url) as url:
        yield url


def drop_day(owner: psycopg.Connection[tuple[object, ...]], ahead: int) -> None:
    """Let the history lack a day."""
    ((table,),) = owner.execute(DAY, (ahead,)).fetchall()
    owner.execute(f"drop table if exists {table}")


async def test_they_suffice_for_every_verb(app_url: str) -> None:
    async with JobQueue(postgres=app_url) as jobs:

        @jobs.task(retry=Retry(max_retries=0))
        async def work(ctx: JobContext, n: int) -> int:
            if n < 0 and not ctx.payload.get("again"):
                raise ValueError("negative")
            return n

        handles = await work.enqueue_many([{"n": 1}] * 60)
        handles += [await work.options(ordering_key="k", unique="u", delay=0.01).enqueue(n=2)]
        async with await psycopg.AsyncConnection.connect(app_url) as connection, connection.transaction():
            handles.append(await work.options(connection=connection).enqueue(n=3))
        dead = await work.enqueue(n=-1)
        async with working(jobs):
            assert [await handle.result(PATIENCE) for handle in handles] == [*[1] * 60, 2, 3]
            await until_status(jobs, dead.id, "dead")
        await jobs.operations.change("retry", [dead.id])
        await jobs.operations.change("cancel", [dead.id])
        await jobs.operations.pause_queue("default")
        await jobs.operations.resume_queue("default")
        assert str((await jobs.inspector.get(dead.id)).status) == "cancelled"
        facts = await jobs.inspector.facts()
        assert facts["refused"] == ""


async def test_a_worker_that_may_make_no_days_says_so_once_and_works(
    owner: psycopg.Connection[tuple[object, ...]], app_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    drop_day(owner, 7)
    async with JobQueue(postgres=app_url) as jobs:

        @jobs.task
        async def work() -> int:
            return 1

        handle = await work.enqueue()
        with caplog.at_level(logging.WARNING, "queue_core"):
            await jobs.store.prepare_history()
            async with working(jobs):
                assert await handle.result(PATIENCE) == 1
    (line,) = [one.getMessage() for one in caplog.records if "next days" in one.getMessage()]
    assert line.startswith("the next days of the history cannot be made: permission denied for schema jobconsole")
    assert "migrate once a day as the role that made the schema" in line


async def test_without_todays_it_names_what_is_wrong(
    owner: psycopg.Connection[tuple[object, ...]], app_url: str, postgres_url: str
) -> None:
    drop_day(owner, 0)
    async with JobQueue(postgres=app_url) as jobs:
        with pytest.raises(StoreRefused, match="today's table of the history, without which no job can end; migrate"):
            await jobs.store.prepare_history()
        assert (await jobs.inspector.facts())["partitions_ahead_days"] == -1
    async with JobQueue(postgres=postgres_url) as jobs:
        await jobs.store.prepare_history()
        assert (await jobs.inspector.facts())["partitions_ahead_days"] == 7
