"""A transaction that is ended behind the worker's back, refused or lost: nothing of it is there, or all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from queue_core import JobContext, JobFailed, JobHandle, JobQueue, Middleware, SettledJob, StoreUnavailable, Worker
from tests.around import Around
from tests.conformance.working import PATIENCE, working
from tests.postgres.transactions.receipts import AGAIN, INSERT, ONCE, Books, failures_of
from tests.waiting import eventually


@pytest.mark.parametrize(
    ("ends_it", "said"),
    [
        ("await connection.commit()", "Explicit commit"),
        ("await connection.rollback()", "Explicit rollback"),
        ("await connection.execute('ROLLBACK')", "ended its transaction itself"),
        ("await connection.close()", "postgres cannot be reached"),
    ],
)
async def test_a_handler_that_ends_it_itself_fails(jobs: JobQueue, books: Books, ends_it: str, said: str) -> None:
    ends = {
        "await connection.commit()": lambda connection: connection.commit(),
        "await connection.rollback()": lambda connection: connection.rollback(),
        "await connection.execute('ROLLBACK')": lambda connection: connection.execute("ROLLBACK"),
        "await connection.close()": lambda connection: connection.close(),
    }

    @jobs.task(retry=ONCE)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
            await ends[ends_it](connection)

    handle = await pay.enqueue()
    async with working(jobs):
        with pytest.raises(JobFailed, match=said):
            await handle.result(PATIENCE)
    assert books.tokens == []


async def test_a_failed_statement_that_was_swallowed(jobs: JobQueue, books: Books) -> None:
    """PostgreSQL would turn the commit into a rollback without a word."""

    @jobs.task(retry=ONCE)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
            try:
                await connection.execute("SELECT 1 / 0")
            except psycopg.errors.DivisionByZero:
                return

    handle = await pay.enqueue()
    async with working(jobs):
        with pytest.raises(JobFailed, match="the handler went on"):
            await handle.result(PATIENCE)
    assert books.tokens == []


async def test_a_constraint_that_speaks_up_at_the_commit(jobs: JobQueue, books: Books) -> None:
    """It is the handler's failure, like any other."""
    books.do("ALTER TABLE receipts ADD UNIQUE (note) DEFERRABLE INITIALLY DEFERRED")

    @jobs.task(retry=AGAIN)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            for number in range(2):
                note = "same" if ctx.attempt == 1 else f"{number}"
                await connection.execute("INSERT INTO receipts (note) VALUES (%s)", (note,))

    handle = await pay.enqueue()
    async with working(jobs):
        await handle.result(PATIENCE)
    assert books.notes == ["0", "1"]
    (failure,) = await failures_of(jobs, handle.id)
    assert failure.startswith("psycopg.errors.UniqueViolation")


async def test_a_connection_that_was_cut(jobs: JobQueue, books: Books) -> None:
    """Before the commit: nothing of it is there, and the attempt is retried."""

    @jobs.task(retry=AGAIN)
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
        if ctx.attempt == 1:
            assert books.do("SELECT pg_terminate_backend(%s, 10000)", connection.info.backend_pid) == [(True,)]

    handle = await pay.enqueue()
    async with working(jobs):
        await handle.result(PATIENCE)
    job = await jobs.inspector.get(handle.id)
    assert (books.tokens, job.retry_count) == ([job.token], 1)


class LosingStore(Around):
    """The store, whose answers to the first commits get lost, whether these were done or not."""

    def __init__(self, store: Any, done: bool) -> None:
        self._store = store
        self._done = done
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        losing = self.lost < 2
        async with self._store.transaction() as connection:
            yield connection
            if losing and not self._done:
                self.lost += 1
                raise StoreUnavailable("postgres", "the answer got lost")
        if losing:
            self.lost += 1
            raise StoreUnavailable("postgres", "the answer got lost")


@pytest.mark.parametrize("done", [True, False], ids=["committed", "not committed"])
async def test_an_answer_to_a_commit_that_got_lost(jobs: JobQueue, books: Books, done: bool) -> None:
    """The store is asked: the job completed if it was committed, and runs again if not; its effect is there once."""
    losing = LosingStore(jobs.store, done)
    jobs._backend = jobs._backend._replace(store=losing)
    heard: list[str] = []

    class Hearing(Middleware):
        async def after_settle(self, job: SettledJob) -> None:
            heard.append(job.outcome)

    jobs.middleware(Hearing())

    @jobs.task(retry=AGAIN)
    async def pay(ctx: JobContext) -> int:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
        return ctx.attempt

    handles = [await pay.enqueue() for _ in range(2)]
    async with working(jobs) as worker:
        attempts = [await handle.result(PATIENCE) for handle in handles]
        assert await eventually(lambda: heard.count("completed") == 2)
        assert not worker._held
    assert sum(attempts) == (2 if done else 4)
    assert heard.count("retrying") == (0 if done else 2)
    assert books.tokens == sorted([(await jobs.inspector.get(handle.id)).token for handle in handles])
    assert (losing.lost, worker.refused) == (2, 0)


class CommittingStore(Around):
    """The store, whose commits, or their answers, wait for the test."""

    def __init__(self, store: Any, done: bool = False) -> None:
        self._store = store
        self._done = done
        self.commits, self.go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self._store.transaction() as connection:
            yield connection
            if not self._done:
                self.commits.set()
                await self.go_on.wait()
        if self._done:
            self.commits.set()
            await self.go_on.wait()


async def enqueue_payment(jobs: JobQueue) -> JobHandle[str]:
    """Enqueue a job that writes into the books in its own transaction."""

    @jobs.task
    async def pay(ctx: JobContext) -> str:
        async with ctx.transaction() as connection:
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
        return "paid"

    return await pay.enqueue()


async def test_a_request_to_stop_comes_too_late_for_what_is_being_committed(jobs: JobQueue, books: Books) -> None:
    """Whether it was committed would not be known any more."""
    committing = CommittingStore(jobs.store)
    jobs._backend = jobs._backend._replace(store=committing)

    handle = await enqueue_payment(jobs)
    async with working(jobs) as worker:
        await asyncio.wait_for(committing.commits.wait(), PATIENCE)
        worker._runner.stop_jobs([handle.id], lost=False)
        await asyncio.sleep(0)  # a cancellation would arrive now
        committing.go_on.set()
        assert await handle.result(PATIENCE) == "paid"
    assert books.tokens == [(await jobs.inspector.get(handle.id)).token]


@pytest.mark.parametrize("done", [True, False], ids=["committed", "not committed"])
async def test_the_end_of_the_event_loop_meets_a_commit(jobs: JobQueue, books: Books, done: bool) -> None:
    """The job has completed if it was committed, and is given back at once if not."""
    committing = CommittingStore(jobs.store, done)
    jobs._backend = jobs._backend._replace(store=committing)

    handle = await enqueue_payment(jobs)
    before = asyncio.all_tasks()
    running = asyncio.create_task(Worker(jobs, lease="300s").run())
    await asyncio.wait_for(committing.commits.wait(), PATIENCE)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()
    job = await jobs.inspector.get(handle.id)
    assert (str(job.status), len(books.tokens)) == (("completed", 1) if done else ("queued", 0))


async def test_they_wait_for_a_connection(jobs: JobQueue, books: Books) -> None:
    """Two at a time here, and five jobs: nobody fails, nobody gets another's connection."""
    inside, most = 0, 0

    @jobs.task
    async def pay(ctx: JobContext) -> None:
        nonlocal inside, most
        async with ctx.transaction() as connection:
            inside += 1
            most = max(most, inside)
            await connection.execute(INSERT, (ctx.job_id, ctx.token))
            await connection.execute("SELECT pg_sleep(0.05)")
        inside -= 1

    handles = [await pay.enqueue() for _ in range(5)]
    async with working(jobs):
        for handle in handles:
            await handle.result(PATIENCE)
    assert (len(books.tokens), most) == (5, 2)


async def test_nothing_of_a_session_is_left_to_the_next(jobs: JobQueue, books: Books) -> None:
    @jobs.task
    async def pay(ctx: JobContext, leave: bool) -> list[Any]:
        async with ctx.transaction() as connection:
            if leave:
                connection.row_factory = psycopg.rows.dict_row
                await connection.execute("SET search_path TO pg_catalog, public")
                await connection.execute("SET enable_seqscan TO off")
                await connection.execute("CREATE TEMP TABLE mine (n int)")
            cursor = await connection.execute(
                "SELECT current_setting('search_path'), current_setting('enable_seqscan'), to_regclass('mine')::text"
            )
            row: Any = await cursor.fetchone()
            return list(row.values() if leave else row)

    async with working(jobs, concurrency=1):
        before = await (await pay.enqueue(leave=False)).result(PATIENCE)
        changed = await (await pay.enqueue(leave=True)).result(PATIENCE)
        assert changed != before
        assert await (await pay.enqueue(leave=False)).result(PATIENCE) == before
