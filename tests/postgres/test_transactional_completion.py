"""What a handler writes in its own transaction commits together with the end of its attempt, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from queue_core import JobContext, JobFailed, JobQueue, Middleware, Retry, SettledJob, StoreUnavailable
from queue_core.job import Outcome, Settled
from queue_core.settings import JobsSettings, PostgresSettings, RedisSettings
from tests.conformance.working import PATIENCE, until_status, working
from tests.waiting import eventually

ONCE = Retry(max_retries=0)
AGAIN = Retry(max_retries=3, delay=0.01)
INSERT = "INSERT INTO receipts (job, token) VALUES (%s, %s)"


class Books:
    """The table that handlers write to, looked at from outside."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("CREATE TABLE receipts (job text, token bigint, note text)")

    def do(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    @property
    def tokens(self) -> list[int]:
        """The tokens of the attempts whose writing is there."""
        return [token for (token,) in self.do("SELECT token FROM receipts ORDER BY token")]

    @property
    def notes(self) -> list[str]:
        return [note for (note,) in self.do("SELECT note FROM receipts ORDER BY note")]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def books(postgres_url: str) -> Any:
    books = Books(postgres_url)
    yield books
    books.close()


@pytest.fixture(params=["postgres+redis", "postgres"])
async def jobs(
    request: pytest.FixtureRequest, postgres_url: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[JobQueue]:
    both = request.param == "postgres+redis"
    settings = JobsSettings(
        queue_backend="redis" if both else "postgres",
        postgres=PostgresSettings.model_validate({"url": postgres_url, "pool": 2}),
        redis=RedisSettings.model_validate({"url": redis_url if both else None, "prefix": redis_prefix}),
    )
    async with JobQueue(settings=settings) as opened:
        yield opened


async def failures_of(jobs: JobQueue, job_id: str) -> list[str]:
    return [f"{one.exception}: {one.message}" for one in await jobs.inspector.attempts(job_id)]


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
            assert len(await jobs.store.reclaim(10)) == 1
            reclaimed.set()
        return ctx.attempt

    handle = await pay.enqueue()
    # Nobody tells the first attempt: it finds out by its settle.
    async with working(jobs, heartbeat="10s") as worker:
        await asyncio.wait_for(reclaimed.wait(), PATIENCE)
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
        await jobs.control.cancel([handle.id])
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


class LosingStore:
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

    async def settle_on(self, connection: Any, outcome: Outcome) -> Settled:
        settled: Settled = await self._store.settle_on(connection, outcome)
        return settled


@pytest.mark.parametrize("done", [True, False], ids=["committed", "not committed"])
async def test_an_answer_to_a_commit_that_got_lost(jobs: JobQueue, books: Books, done: bool) -> None:
    """The store is asked: the job completed if it was committed, and runs again if not; its effect is there once."""
    losing = LosingStore(jobs.store, done)
    jobs._parts = jobs._parts._replace(store=losing)
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
