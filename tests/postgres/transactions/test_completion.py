"""What a handler writes in its own transaction commits together with the end of its attempt, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from queue_core import JobContext, JobFailed, JobQueue, Middleware, SettledJob
from tests.conformance.working import PATIENCE, until_status, working
from tests.postgres.transactions.receipts import AGAIN, INSERT, ONCE, Books
from tests.waiting import eventually


async def test_it_commits_when_the_handler_has_returned(jobs: JobQueue, books: Books) -> None:
    left, go_on = asyncio.Event(), asyncio.Event()
    heard: list[SettledJob] = []

    class Hearing(Middleware):
        async def after_settle(self, job: SettledJob) -> None:
            heard.append(job)

    jobs.middleware(Hearing())

    @jobs.task
    async def pay(ctx: JobContext) -> str:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
        left.set()
        await go_on.wait()
        return "paid"

    handle = await pay.enqueue()
    async with working(jobs) as worker:
        await asyncio.wait_for(left.wait(), PATIENCE)
        assert books.tokens == [], "the block's end commits nothing"
        go_on.set()
        assert await handle.result(PATIENCE) == "paid"
        job = await jobs.inspector.get(handle.id)
        assert books.tokens == [job.token]
        assert await eventually(lambda: heard)
        assert not worker._held
    assert [(one.id, one.outcome) for one in heard] == [(handle.id, "completed")]
    assert (await jobs.inspector.conservation()).completed == 1


async def test_what_it_returns_within_the_block_counts_too(jobs: JobQueue, books: Books) -> None:
    @jobs.task
    async def pay(ctx: JobContext) -> str:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
            return "paid"

    handle = await pay.enqueue()
    async with working(jobs):
        assert await handle.result(PATIENCE) == "paid"
    assert len(books.tokens) == 1


async def test_a_handler_that_raises_has_written_nothing(jobs: JobQueue, books: Books) -> None:
    """Inside the block or after it; what its last attempt writes is there once."""

    @jobs.task(retry=AGAIN)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
            if ctx.attempt == 1:
                raise OSError("inside")
        if ctx.attempt == 2:
            raise OSError("after")

    handle = await pay.enqueue()
    async with working(jobs):
        await handle.result(PATIENCE)
    job = await jobs.inspector.get(handle.id)
    assert (books.tokens, job.retry_count) == ([job.token], 2)


async def test_an_exception_that_the_handler_catches_undoes_its_block(jobs: JobQueue, books: Books) -> None:
    """The first block as a whole; after one that went well, only what the later block did."""

    @jobs.task
    async def pay(ctx: JobContext) -> None:
        async def write(note: str, fails: bool = False) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("INSERT INTO receipts (note) VALUES (%s)", (note,))
                if fails:
                    await connection.execute("SELECT 1 / 0")

        with pytest.raises(psycopg.errors.DivisionByZero):
            await write("a, undone", fails=True)
        await write("b")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await write("c, undone", fails=True)
        await write("d")

    handle = await pay.enqueue()
    async with working(jobs):
        await handle.result(PATIENCE)
    assert books.notes == ["b", "d"]


async def test_a_handler_that_caught_everything_completes_without_it(jobs: JobQueue, books: Books) -> None:
    @jobs.task
    async def pay(ctx: JobContext) -> str:
        try:
            async with ctx.transaction() as connection:
                await connection.execute(INSERT, (ctx.job_id, ctx.token))
                raise LookupError
        except LookupError:
            return "there already"

    handle = await pay.enqueue()
    async with working(jobs):
        assert await handle.result(PATIENCE) == "there already"
    assert books.tokens == []


async def test_a_lease_that_is_over_takes_its_writing_with_it(jobs: JobQueue, books: Books) -> None:
    """The job was given to somebody else meanwhile: only what that attempt wrote is there."""
    reclaimed = asyncio.Event()

    @jobs.task(retry=AGAIN)
    async def pay(ctx: JobContext) -> int:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
        if ctx.attempt == 1:
            books.do("UPDATE leases SET expires_at = now() - interval '1 second'")
            await jobs.store.reclaim(10)
            reclaimed.set()
        return ctx.attempt

    handle = await pay.enqueue()
    # Nobody tells the first attempt, the sweeps being another worker's until then: it finds out by its settle.
    assert await jobs.store.acquire_leadership("sweep", "another", PATIENCE)
    async with working(jobs, heartbeat="10s") as worker:
        await asyncio.wait_for(reclaimed.wait(), PATIENCE)
        await jobs.store.unregister_worker("another")
        assert await handle.result(PATIENCE) == 2
        job = await jobs.inspector.get(handle.id)
        assert books.tokens == [job.token]
        assert await eventually(lambda: worker.refused == 1)
        assert not worker._held
    assert (await jobs.inspector.conservation()).completed == 1


async def test_cancelled(jobs: JobQueue, books: Books) -> None:
    inside = asyncio.Event()

    @jobs.task
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
            inside.set()
            await connection.execute("SELECT pg_sleep(60)")

    handle = await pay.enqueue()
    async with working(jobs):
        await asyncio.wait_for(inside.wait(), PATIENCE)
        await jobs.operations.change("cancel", [handle.id])
        await until_status(jobs, handle.id, "cancelled")
    assert books.tokens == []


async def test_over_its_time_limit(jobs: JobQueue, books: Books) -> None:
    @jobs.task(retry=ONCE, timeout=0.3)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
        await asyncio.sleep(60)

    handle = await pay.enqueue()
    async with working(jobs):
        with pytest.raises(JobFailed, match="time limit"):
            await handle.result(PATIENCE)
    assert books.tokens == []


async def test_jobs_that_it_enqueues_there(jobs: JobQueue, books: Books) -> None:
    """They are in the same commit: there when the handler has completed, and not before."""

    @jobs.task
    async def follow(n: int) -> int:
        return n

    follow_ups: list[Any] = []
    seen: list[int] = []

    @jobs.task(retry=AGAIN)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            follow_ups.append(await follow.options(connection=connection).enqueue(n=ctx.attempt))
        seen.append((await jobs.inspector.conservation()).unfinished)
        if ctx.attempt == 1:
            raise OSError("not yet")

    handle = await pay.enqueue()
    async with working(jobs):
        await handle.result(PATIENCE)
        assert await follow_ups[1].result(PATIENCE) == 2
    assert seen == [1, 1]
    assert (await jobs.inspector.conservation()).completed == 2


async def test_the_next_job_of_its_ordering_key(jobs: JobQueue, books: Books) -> None:
    """Its key is let go of in the same commit, and the next one begins at once."""
    order: list[int] = []

    @jobs.task(retry=AGAIN)
    async def pay(ctx: JobContext, n: int) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
        order.append(n)
        if n == 1 and ctx.attempt == 1:
            raise OSError("not yet")

    handles = [await pay.options(ordering_key="one").enqueue(n=n) for n in range(20)]
    async with working(jobs):
        for handle in handles:
            await handle.result(PATIENCE)
    assert order == [0, 1, *range(1, 20)]
    assert len(books.tokens) == 20
