"""The handler's own transaction: where there is none, a sentence says so and nothing else happens."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from queue_core import JobContext, JobFailed, JobQueue, Retry
from tests.conformance.working import PATIENCE, working

ONCE = Retry(max_retries=0)


async def test_a_transaction_or_a_sentence(jobs: JobQueue) -> None:
    @jobs.task(retry=ONCE)
    async def pay(ctx: JobContext) -> int:
        async with ctx.transaction() as connection:
            cursor = await connection.execute("SELECT 6 * 7")
            (number,) = await cursor.fetchone() or (None,)
        return int(number)

    handle = await pay.enqueue()
    async with working(jobs):
        if jobs.store.name == "postgres":
            assert await handle.result(PATIENCE) == 42
        elif jobs.store.name == "memory":
            with pytest.raises(JobFailed, match="NoneType"):  # it is given, and no database gives rows
                await handle.result(PATIENCE)
        else:
            with pytest.raises(JobFailed, match=f"needs a store in PostgreSQL; this one is {jobs.store.name}"):
                await handle.result(PATIENCE)


async def test_a_plain_function_has_none(jobs: JobQueue) -> None:
    @jobs.task(retry=ONCE)
    def pay(ctx: JobContext) -> None:
        async def written() -> None:
            async with ctx.transaction():
                pass

        asyncio.run(written())

    handle = await pay.enqueue()
    async with working(jobs):
        with pytest.raises(JobFailed, match="is for async handlers in the worker itself; task 'pay' runs in a thread"):
            await handle.result(PATIENCE)


async def test_jobs_of_a_transaction_in_memory_come_with_its_commit() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task(retry=ONCE)
    async def pay(ctx: JobContext, fails: bool) -> str:
        async with ctx.transaction() as connection:
            await connection.execute("UPDATE orders SET paid = true")
            handle = await receipt.options(connection=connection).enqueue()
        with contextlib.suppress(ZeroDivisionError):
            async with ctx.transaction() as again:
                await receipt.options(connection=again).enqueue()
                _ = 1 / 0
        assert connection.statements == [("UPDATE orders SET paid = true", None)]
        assert await jobs.count("type:receipt") == 0
        if fails:
            raise ValueError("no")
        return handle.id

    @jobs.task
    async def receipt() -> str:
        return "sent"

    async with working(jobs):
        with pytest.raises(JobFailed):
            await (await pay.enqueue(True)).result(PATIENCE)
        assert await jobs.count("type:receipt") == 0
        made = await (await pay.enqueue(False)).result(PATIENCE)
        assert await jobs.result(made, PATIENCE) == "sent"
        assert await jobs.count("type:receipt") == 1
