"""Handlers that get no connection for their transaction did nothing wrong: their jobs are given back, uncounted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import psycopg
import psycopg.conninfo
import pytest
from psycopg import sql

from queue_core import JobContext, JobFailed, JobQueue, StoreUnavailable
from tests.conformance.working import PATIENCE, working
from tests.postgres.transactions.receipts import INSERT, ONCE, Books, failures_of
from tests.waiting import eventually

GIVEN_BACK = "got no connection for its transaction, and is given back"


@pytest.fixture
def accept(postgres_url: str) -> Iterator[Callable[[bool], object]]:
    """Let the server accept no more connections to the database, or again; those that there are stay."""
    name = sql.Identifier(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"])
    with psycopg.connect(postgres_url, dbname="postgres", autocommit=True) as hand:
        statement = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        yield lambda accepted: hand.execute(statement.format(name, sql.Literal(accepted)))
        hand.execute(statement.format(name, sql.Literal(True)))


async def test_the_server_takes_no_connection_for_a_while(
    jobs: JobQueue, books: Books, accept: Callable[[bool], object], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @jobs.task(retry=ONCE)
    async def pay(ctx: JobContext) -> None:
        if not ran:
            accept(False)
        ran.append(ctx.attempt)
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))

    handle = await pay.enqueue()
    async with working(jobs):
        assert await eventually(lambda: GIVEN_BACK in caplog.text)
        accept(True)
        await handle.result(PATIENCE)
    assert len(ran) > 1
    assert set(ran) == {1}, "each try is the first attempt"
    assert len(books.tokens) == 1
    assert await failures_of(jobs, handle.id) == []
    assert (await jobs.inspector.get(handle.id)).retry_count == 0


async def test_the_time_limit_ends_while_it_waits_for_the_others(
    jobs: JobQueue, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    go_on, holding = asyncio.Event(), asyncio.Semaphore(0)

    @jobs.task
    async def hold(ctx: JobContext) -> None:
        async with ctx.transaction():
            holding.release()
            await go_on.wait()

    @jobs.task(retry=ONCE, timeout=0.5)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))

    async with working(jobs):
        held = [await hold.enqueue() for _ in range(2)]
        for _ in held:
            await asyncio.wait_for(holding.acquire(), PATIENCE)
        handle = await pay.enqueue()
        assert await eventually(lambda: GIVEN_BACK in caplog.text)
        go_on.set()
        await handle.result(PATIENCE)
        for one in held:
            await one.result(PATIENCE)
    assert len(books.tokens) == 1
    assert await failures_of(jobs, handle.id) == []


async def test_a_time_limit_that_ends_elsewhere_counts(jobs: JobQueue, books: Books) -> None:
    """The handler has got along without a connection, or has it."""
    go_on = asyncio.Event()

    @jobs.task(retry=ONCE, timeout=0.5)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction():
            await go_on.wait()

    handle = await pay.enqueue()
    async with working(jobs):
        with pytest.raises(JobFailed, match="time limit"):
            await handle.result(PATIENCE)


async def test_an_error_that_the_handler_makes_of_it_counts(jobs: JobQueue, accept: Callable[[bool], object]) -> None:
    @jobs.task(retry=ONCE)
    async def pay(ctx: JobContext) -> None:
        accept(False)
        try:
            async with ctx.transaction():
                pass
        except StoreUnavailable as error:
            raise RuntimeError("no books today") from error
        finally:
            accept(True)

    handle = await pay.enqueue()
    async with working(jobs):
        with pytest.raises(JobFailed, match="no books today"):
            await handle.result(PATIENCE)


async def test_the_store_is_away_in_the_middle_of_the_block(jobs: JobQueue, books: Books) -> None:
    """What another part of this package raises within a block is the handler's failure."""

    @jobs.task(retry=ONCE)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction():
            raise StoreUnavailable("postgres", "another one")

    handle = await pay.enqueue()
    async with working(jobs):
        with pytest.raises(JobFailed, match="another one"):
            await handle.result(PATIENCE)
