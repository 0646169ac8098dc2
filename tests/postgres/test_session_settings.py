"""What a role, a database or the environment sets for its sessions changes nothing here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest

from queue_core import JobContext, JobQueue, Worker
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.session.sessions import Sessions
from tests.postgres.poolers.pooler import PGBOUNCER, pgbouncer

PATIENCE = 60.0

SETTINGS = (
    "client_encoding = 'SQL_ASCII'",
    "client_encoding = 'LATIN1'",
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_isolation = 'serializable'",
    "DateStyle = 'SQL, DMY'",
    "DateStyle = 'German'",
    "IntervalStyle = 'iso_8601'",
    "TimeZone = 'Asia/Kathmandu'",
    "array_nulls = off",
    "standard_conforming_strings = off",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "search_path = ''",
    "lc_messages = 'C'",
    "enable_indexscan = off",
)


EXPECTED = {
    "client_encoding": "UTF8",
    "default_transaction_isolation": "read committed",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "array_nulls": "on",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
}


@pytest.fixture(params=["direct", "pooler"])
def way(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[str]:
    """The address of the database, or one through PgBouncer in transaction mode."""
    if request.param == "direct":
        yield postgres_url
        return
    if PGBOUNCER is None:
        pytest.skip("needs pgbouncer")
    with pgbouncer(postgres_url) as url:
        yield url


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest, postgres_url: str) -> str:
    """A setting of all sessions of the database."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
        connection.execute(f'ALTER DATABASE "{name}" SET {request.param}'.encode())
    return str(request.param)


@asynccontextmanager
async def working(jobs: JobQueue) -> AsyncIterator[None]:
    worker = Worker(jobs, lease="5s", heartbeat="0.2s")
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        with suppress(asyncio.CancelledError):
            await running


async def test_sessions_have_what_is_expected(setting: str, postgres_url: str) -> None:
    sessions = Sessions(PostgresSettings.model_validate({"url": postgres_url}))
    session = await sessions.take(None, asyncio.get_running_loop().time() + PATIENCE)
    found = {}
    for name in EXPECTED:
        ((found[name],),) = await (await session.connection.execute(f"SHOW {name}".encode())).fetchall()
    await sessions.close()
    assert {name: value.split(",")[0] for name, value in found.items()} == EXPECTED


async def test_jobs_are_written_run_and_shown(setting: str, way: str, postgres_url: str) -> None:
    if setting == "array_nulls = off" and way != postgres_url:
        pytest.skip("a pooler's sessions have it as it is set")
    jobs = JobQueue(postgres=way)
    renewed = asyncio.Event()

    @jobs.task(name="plain")
    async def plain(text: str) -> str:
        return text

    @jobs.task(name="together")
    async def together(context: JobContext) -> str:
        async with context.transaction() as connection:
            await connection.execute("SELECT count(*) FROM pg_class")
            # Its lease is renewed meanwhile, which a stricter isolation takes for a conflict.
            await renewed.wait()
            return "ł"

    @jobs.task(name="failing")
    async def failing() -> None:
        raise ValueError("zażółć →")

    async with asyncio.timeout(PATIENCE):
        async with working(jobs):
            ordered = [await jobs.enqueue("plain", {"text": f"ł{n}"}, ordering_key="ü", tags=["ä"]) for n in range(3)]
            assert [await one.result() for one in ordered] == ["ł0", "ł1", "ł2"]
            listed = await jobs.enqueue_many("plain", [{"text": "a'\\b"}, {"text": "c"}])
            assert [await one.result() for one in listed] == ["a'\\b", "c"]
            dead = await jobs.enqueue("failing", max_retries=0)
            joined = await jobs.enqueue("together", max_retries=0)
            while (await jobs.get(joined.id)).started_at is None:  # noqa: ASYNC110 - nothing notifies of that
                await asyncio.sleep(0.05)
            await asyncio.sleep(1)  # some heartbeats
            renewed.set()
            assert await joined.result() == "ł"
            while (await dead.status()) != "dead":  # noqa: ASYNC110 - nothing notifies of that
                await asyncio.sleep(0.05)
        assert (await jobs.get(dead.id)).error == "ValueError: zażółć →"
        assert (await jobs.stats()).dlq == 1
        assert (await jobs.health()).healthy
    await jobs.close()


@pytest.mark.parametrize("setting", ["client_encoding = 'LATIN1'"], indirect=True)
async def test_handlers_transactions_behind_a_pooler_that_ignores_options(setting: str, postgres_url: str) -> None:
    """What ends one handler's session gives the next one that of the role."""
    if PGBOUNCER is None:
        pytest.skip("needs pgbouncer")
    with pgbouncer(postgres_url, ignore_startup_parameters="extra_float_digits,options") as url:
        jobs = JobQueue(postgres=url)

        @jobs.task(name="together")
        async def together(context: JobContext, text: str) -> str:
            async with context.transaction() as connection:
                await connection.execute("SELECT length(%s)", [text])
            return text

        async with asyncio.timeout(PATIENCE), working(jobs):
            for number in range(10):
                handle = await jobs.enqueue("together", {"text": f"€{number}"}, max_retries=0)
                assert await handle.result() == f"€{number}"
        await jobs.close()
