"""Context variables: each job starts with those of the worker's start, whatever the jobs before it have set."""

import asyncio
import contextlib
from contextvars import ContextVar

from queue_core import JobContext, Middleware, SettledJob, TransactionError
from queue_core.queue import JobQueue
from tests.conformance.working import PATIENCE, working

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


async def test_no_job_sees_the_context_variables_of_another_one(jobs: JobQueue) -> None:
    seen: list[str] = []

    @jobs.task
    async def change(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)
        if int(name) % 2:
            await asyncio.sleep(0)
        if int(name) % 10 == 0:
            await plain.enqueue(name)

    @jobs.task
    def plain(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)

    tenant.set("the worker's")
    handles = await change.enqueue_many([{"name": str(n)} for n in range(60)])
    handles += await plain.enqueue_many([{"name": str(n)} for n in range(60)])
    async with working(jobs, concurrency=3):
        await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert len(seen) >= 120
    assert set(seen) == {"the worker's"}


async def test_hooks_do_not_see_the_context_variables_of_a_job(jobs: JobQueue) -> None:
    seen: set[str] = set()

    class Noting(Middleware):
        async def after_settle(self, job: SettledJob) -> None:
            seen.add(tenant.get())

    jobs.middleware(Noting())

    @jobs.task
    async def change() -> None:
        tenant.set("the job's")

    @jobs.task
    async def commit(ctx: JobContext) -> None:
        tenant.set("the job's")
        with contextlib.suppress(TransactionError):  # in modes without PostgreSQL
            async with ctx.transaction():
                pass

    handles = await change.enqueue_many([{}] * 20)
    handles += await commit.enqueue_many([{}] * 5)
    async with working(jobs, concurrency=3):
        await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert seen == {"nobody"}
