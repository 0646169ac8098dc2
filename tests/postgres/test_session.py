"""The connections of a process: few that stay, and nobody waits long behind a statement that hangs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import psycopg
import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobContext, JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings
from queue_core.stores.postgres.migrate import migrate
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.session import connection as connecting
from queue_core.stores.postgres.session import pool as pools
from queue_core.stores.postgres.session import sessions as module
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.session.sessions import KEPT_CONNECTIONS, Sessions
from queue_core.stores.postgres.session.transaction import Transactions
from tests.conformance.working import working
from tests.waiting import PATIENCE, eventually

RUNNERS = 6
MOST = 4
"""Connections of a worker process that stay: two of its runners', the heartbeat's, and the one that listens."""
STAYS = 1.5
"""Seconds after which a connection is none that was opened for a moment, such as for a look at old days."""
Observer = psycopg.AsyncConnection[tuple[int]]
OURS = """
    select count(*) from pg_stat_activity
     where datname = current_database() and application_name = 'queue_core'
       and backend_start <= clock_timestamp() - make_interval(secs => %s)
"""


@pytest.fixture
async def observer(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[int]]]:
    """A connection that is not counted."""
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        yield connection


async def count(observer: psycopg.AsyncConnection[tuple[int]], seconds: float = 0.0) -> int:
    """Return how many connections this package has to the database, opened so long ago."""
    (found,) = await (await observer.execute(OURS, [seconds])).fetchall()
    return found[0]


@pytest.fixture
async def sessions(postgres_url: str) -> AsyncIterator[Sessions]:
    """Connections that are shared."""
    sessions = Sessions(PostgresSettings(url=postgres_url))
    yield sessions
    await sessions.close()


@pytest.fixture
def runners(postgres_url: str, sessions: Sessions) -> list[SerialRunner]:
    """Kinds of work that share them."""
    return [SerialRunner(PostgresSettings(url=postgres_url), sessions) for _ in range(RUNNERS)]


async def test_many_kinds_of_work_share_few_connections(
    runners: list[SerialRunner], observer: psycopg.AsyncConnection[tuple[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECTION_WAIT", PATIENCE)

    async def work(runner: SerialRunner) -> None:
        for _ in range(50):
            await runner.run("queue_ids/read")
            await runner.transaction([("queue_ids/read", None), ("migrate/version", None)])

    await asyncio.gather(*(work(runner) for runner in runners))
    assert await count(observer) == KEPT_CONNECTIONS


async def test_one_after_the_other_uses_one(
    runners: list[SerialRunner], observer: psycopg.AsyncConnection[tuple[int]]
) -> None:
    for runner in runners:
        await runner.run("queue_ids/read")
    assert await count(observer) == 1


async def test_nobody_waits_long_behind_statements_that_hang(
    runners: list[SerialRunner], observer: psycopg.AsyncConnection[tuple[int]], postgres_url: str
) -> None:
    """More connections are opened for as long as that lasts, and closed when they are not used any more."""
    with psycopg.connect(postgres_url) as blocker:
        blocker.execute("lock table leaders in access exclusive mode")
        hanging = [
            asyncio.ensure_future(runner.run("store/leaders", {"duties": []}))
            for runner in runners[: KEPT_CONNECTIONS + 1]
        ]
        assert await eventually(lambda: _is(count(observer), KEPT_CONNECTIONS + 1))
        for runner in runners[KEPT_CONNECTIONS + 1 :]:
            await runner.run("queue_ids/read")
        assert not any(one.done() for one in hanging)
        assert await count(observer) == KEPT_CONNECTIONS + 2
        blocker.rollback()
        await asyncio.gather(*hanging)
    assert await eventually(lambda: _is(count(observer), KEPT_CONNECTIONS))
    for runner in runners:
        await runner.run("queue_ids/read")


async def test_who_gives_up_waiting_leaves_the_connection_to_others(
    runners: list[SerialRunner], observer: psycopg.AsyncConnection[tuple[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever that comes: before a connection is handed over, or just after."""
    monkeypatch.setattr(module, "CONNECTION_WAIT", PATIENCE)
    for delay in [step / 2000 for step in range(40)]:
        calls = [asyncio.ensure_future(runner.run("queue_ids/read")) for runner in runners for _ in range(2)]
        await asyncio.sleep(delay)
        for call in calls[KEPT_CONNECTIONS::2]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert all(call.cancelled() or call.result() is not None for call in calls)
    for runner in runners:
        await runner.run("queue_ids/read")
    assert await count(observer) <= KEPT_CONNECTIONS


async def test_a_lost_connection_is_not_lent_again(runners: list[SerialRunner], postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as blocker:
        blocker.execute("lock table leaders in access exclusive mode")
        hanging = [
            asyncio.ensure_future(runner.run("store/leaders", {"duties": []})) for runner in runners[:KEPT_CONNECTIONS]
        ]
        waits = "select pid from pg_locks where not granted and relation = 'leaders'::regclass"
        assert await eventually(lambda: len(blocker.execute(waits).fetchall()) == KEPT_CONNECTIONS)
        blocker.execute(f"select pg_terminate_backend(pid) from ({waits}) waiting")
        for one in await asyncio.gather(*hanging, return_exceptions=True):
            assert isinstance(one, StoreUnavailable)
    await asyncio.gather(*(runner.run("queue_ids/read") for runner in runners))


async def test_an_operators_connection_is_closed_when_it_is_not_used(
    postgres_url: str, observer: psycopg.AsyncConnection[tuple[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.2)
    inspector = PostgresInspector(PostgresSettings(url=postgres_url))
    await asyncio.gather(*(inspector.overview() for _ in range(3)))
    assert await eventually(lambda: _is(count(observer), 0))
    await inspector.overview()
    await inspector.close()


@pytest.mark.parametrize("mode", ["postgres", "postgres+redis"])
async def test_a_worker_keeps_at_most_four_connections(
    mode: str,
    postgres_url: str,
    redis_url: str,
    redis_prefix: str,
    observer: psycopg.AsyncConnection[tuple[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also the one that leads, and while its jobs have keys, write lines and enqueue others."""
    monkeypatch.setattr(module, "CONNECTION_WAIT", PATIENCE)
    both = mode == "postgres+redis"
    settings = JobsSettings(
        queue_backend="redis" if both else "postgres",
        postgres=PostgresSettings(url=postgres_url),
        redis=RedisSettings(url=redis_url if both else None, prefix=redis_prefix),
    )
    async with JobQueue(settings=settings) as jobs:
        done = 0

        @jobs.task
        async def last() -> None:
            nonlocal done
            done += 1

        @jobs.task
        async def first(ctx: JobContext, key: str) -> None:
            await ctx.log("a line")
            await last.options(ordering_key=key).enqueue()

        async with working(jobs) as worker:
            assert await eventually(lambda: worker._sweeper._leads)
            most, number, began = 0, 0, time.monotonic()
            while time.monotonic() - began < 3 * STAYS:
                number += 1
                await first.enqueue_many([{"key": str(number % 7)} for _ in range(5)])
                most = max(most, await count(observer, STAYS))
            assert await eventually(lambda: done == 5 * number)
            assert 0 < max(most, await count(observer, STAYS)) <= MOST


async def _is(found: object, wanted: int) -> bool:
    return await found == wanted  # type: ignore[misc, no-any-return]


async def test_a_connection_that_is_made_while_all_are_closed_is_closed_too(
    sessions: Sessions,
    runners: list[SerialRunner],
    observer: psycopg.AsyncConnection[tuple[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(*args: Any) -> psycopg.AsyncConnection[Any]:
        connection = await connecting.connect(*args)
        made.set()
        await go_on.wait()
        return connection

    monkeypatch.setattr(module, "connect", slowly)
    asked = asyncio.create_task(runners[0].run("queue_ids/read"))
    await made.wait()
    await sessions.close()
    go_on.set()
    with pytest.raises(StoreUnavailable):
        await asked
    assert await eventually(lambda: nobody(observer))


async def test_who_waits_for_a_connection_while_all_are_closed_gets_none(
    sessions: Sessions,
    runners: list[SerialRunner],
    observer: psycopg.AsyncConnection[tuple[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once, and without a new connection, which would stay open behind the close."""
    monkeypatch.setattr(module, "CONNECTION_WAIT", 0.5)
    ends = asyncio.get_running_loop().time() + PATIENCE
    for _ in range(KEPT_CONNECTIONS):
        await sessions.take(None, ends)
    asked, cancelled = [asyncio.create_task(runner.run("queue_ids/read")) for runner in runners[:2]]
    assert await eventually(lambda: _is(waiting(sessions), 2))
    closing = asyncio.create_task(sessions.close())
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(StoreUnavailable, match="closed while a connection was waited for"):
        await asked
    await asyncio.wait([closing, cancelled])
    assert cancelled.cancelled()
    assert await eventually(lambda: nobody(observer))


async def waiting(sessions: Sessions) -> int:
    return len(sessions._waiting)


@pytest.mark.parametrize(
    ("owner", "name"), [(connecting, "_detect_pooler"), (psycopg.AsyncConnection, "set_isolation_level")]
)
async def test_a_connection_is_closed_when_who_wanted_it_gives_up(
    sessions: Sessions,
    runners: list[SerialRunner],
    observer: psycopg.AsyncConnection[tuple[int]],
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
) -> None:
    looking = asyncio.Event()

    async def for_ever(*_: Any) -> None:
        looking.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(owner, name, for_ever)
    asked = asyncio.create_task(runners[0].run("queue_ids/read"))
    await looking.wait()
    asked.cancel()
    await asyncio.wait([asked])
    assert await eventually(lambda: nobody(observer))


async def test_a_handlers_connection_is_closed_after_the_pool(
    postgres_url: str, observer: psycopg.AsyncConnection[tuple[int]]
) -> None:
    """A handler that takes its time is still in its transaction when its worker's queue closes."""
    transactions = Transactions(PostgresSettings(url=postgres_url), AsyncMock())
    async with transactions.begin() as connection:
        await transactions.close()
        assert await count(observer) == 1
    assert connection.closed
    assert await eventually(lambda: nobody(observer))


async def nobody(observer: psycopg.AsyncConnection[tuple[int]]) -> bool:
    return await count(observer) == 0


async def test_a_cancelled_call_does_not_wait_for_a_server_that_hangs(
    own_servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "CANCEL_SECONDS", 0.05)
    await asyncio.to_thread(migrate, own_servers.postgres_url)
    sessions = Sessions(PostgresSettings(url=own_servers.postgres_url))
    runner = SerialRunner(PostgresSettings(url=own_servers.postgres_url, timeout=60.0), sessions)
    session = await sessions.take(None, asyncio.get_running_loop().time() + PATIENCE)
    sessions.put_back(session)
    status = session.connection.info
    await asyncio.to_thread(own_servers.postgres.pause)
    try:
        call = asyncio.create_task(runner.run("queue_ids/read"))
        await eventually(lambda: status.transaction_status is psycopg.pq.TransactionStatus.ACTIVE)
        call.cancel()
        # The driver alone would wait 5 s for the server to cancel, and 5 s more for the answer.
        async with asyncio.timeout(4.0):
            await asyncio.wait([call])
        assert call.cancelled()
        assert session.connection.closed
    finally:
        await asyncio.to_thread(own_servers.postgres.resume)
    assert isinstance(await runner.run("queue_ids/read"), list)
    await sessions.close()
