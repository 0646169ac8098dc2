"""Without notifications everything is found by looking: behind a pooler, and where only the listening is cut off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from jobconsole.core.connection import Connection
from jobconsole.core.doctor.postgres import check_postgres
from queue_core import JobContext, JobQueue, Retry
from queue_core.errors import JobCancelled
from queue_core.model.settings import JobsSettings, PostgresSettings
from queue_core.ports.delivery import NotificationHealth
from queue_core.stores.postgres.delivery import dispatcher
from queue_core.stores.postgres.delivery.events import PostgresEventBus
from queue_core.stores.postgres.session import listening
from queue_core.stores.postgres.session.listening import Notifications
from tests.conformance.working import until_status, working
from tests.postgres.poolers.pooler import Wire
from tests.waiting import PATIENCE, eventually

CLOSED = "postgresql://app@127.0.0.1:9/nowhere"
"""An address at which nothing answers."""
DEAF = "notifications do not arrive"
LEADS = "jobs.postgres.listen_url has to lead to the database of jobs.postgres.url, without a pooler in between"


def settings(url: str, **postgres: Any) -> JobsSettings:
    """Return settings of mode postgres."""
    return JobsSettings(postgres=PostgresSettings.model_validate({"url": url, **postgres}))


@asynccontextmanager
async def opened(url: str, **postgres: Any) -> AsyncIterator[JobQueue]:
    """Give a queue object with tasks that return, wait, and fail once."""
    async with JobQueue(settings=settings(url, **postgres)) as jobs:

        @jobs.task
        async def work(n: int) -> int:
            return n

        @jobs.task
        async def wait() -> None:
            await asyncio.Event().wait()

        @jobs.task(retry=Retry(max_retries=1, delay=0.05))
        async def stumble(ctx: JobContext) -> int:
            if ctx.attempt == 1:
                raise ValueError("once")
            return ctx.attempt

        yield jobs


def hearing(jobs: JobQueue) -> NotificationHealth:
    """Return what a queue object knows about its notifications."""
    assert isinstance(jobs.bus, PostgresEventBus)
    return jobs.bus.notification_health


async def everything_works(jobs: JobQueue, producer: JobQueue) -> None:
    """Let another queue object enqueue, wait for results, cancel, delay and schedule while a worker runs."""
    # One at a time, so that a worker that does not look by itself stands still after the first.
    for n in range(5):
        handle = await producer.enqueue("work", {"n": n})
        assert await handle.result(PATIENCE) == n
    handles = [await producer.enqueue("work", {"n": n}, delay=0.2 * (n % 2)) for n in range(40)]
    assert [await handle.result(PATIENCE) for handle in handles] == list(range(40))
    assert await (await producer.enqueue("stumble")).result(PATIENCE) == 2
    waiting = await producer.enqueue("wait")
    await until_status(jobs, waiting.id, "running")
    assert await producer.cancel(waiting.id)
    with pytest.raises(JobCancelled):
        await waiting.result(PATIENCE)


async def ticks(jobs: JobQueue) -> bool:
    """Tell whether a schedule of every second has brought a job."""
    return any(tick.job_id for tick in await jobs.schedules.ticks("tick", 10))


def once(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    """Tell whether exactly one record says this."""
    return sum(text in record.message for record in caplog.records) == 1


async def test_every_job_runs_behind_a_pooler(pooled_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """76 of 300 did, then nothing, with two idle workers and healthy=True: LISTEN is accepted and nothing comes."""
    async with opened(pooled_url) as jobs, opened(pooled_url) as other, opened(pooled_url) as producer:
        jobs.schedule("tick", "* * * * * *", "work", {"n": 0})
        async with working(jobs), working(other):
            await everything_works(jobs, producer)
            assert await eventually(lambda: ticks(jobs))
            health = await jobs.health()
    assert health.healthy
    assert health.degraded_since is not None
    assert DEAF in health.reason
    assert sum(DEAF in record.message for record in caplog.records) == 3, "once in each that listens"
    advice = "behind a pooler, set jobs.postgres.listen_url to a direct address"
    assert advice in caplog.text
    assert health.reason.endswith(f"; {advice}")


async def test_subscribers_behind_a_pooler_read_the_store(pooled_url: str) -> None:
    """No event comes; a gap each second lets whoever shows state look."""
    async with opened(pooled_url) as jobs:
        gaps = 0
        async with asyncio.timeout(PATIENCE):
            async for batch in jobs.bus.subscribe():
                gaps += batch.gap
                if gaps == 4:
                    break


async def test_a_direct_listen_url_is_enough(pooled_url: str, postgres_url: str) -> None:
    async with opened(pooled_url, listen_url=postgres_url) as jobs, opened(pooled_url) as producer, working(jobs):
        assert await hearing(jobs).known(PATIENCE)
        await everything_works(jobs, producer)
        assert (await jobs.health()).degraded_since is None


async def test_every_job_runs_with_a_listen_url_at_which_nothing_answers(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """0 of 200 did."""
    async with opened(postgres_url, listen_url=CLOSED) as jobs, opened(postgres_url) as producer:
        jobs.schedule("tick", "* * * * * *", "work", {"n": 0})
        async with working(jobs):
            await everything_works(jobs, producer)
            assert await eventually(lambda: ticks(jobs))
            health = await jobs.health()
    assert health.healthy
    assert health.reason.startswith(f"{DEAF}: jobs.postgres.listen_url: ")
    assert "refused" in health.reason
    assert health.reason.endswith(f"; {LEADS}")
    assert once(caplog, DEAF)
    assert once(caplog, LEADS)
    assert "set jobs.postgres.listen_url" not in caplog.text


async def test_a_server_that_refuses_the_connection_is_no_pooler(caplog: pytest.LogCaptureFixture) -> None:
    notifications = Notifications(PostgresSettings.model_validate({"url": CLOSED}))
    try:
        assert not await notifications.known(PATIENCE)
        assert "refused" in notifications.explanation
        assert notifications.advice == ""
    finally:
        await notifications.close()
    assert once(caplog, DEAF)
    assert "listen_url" not in caplog.text


async def test_a_listen_url_that_leads_through_the_pooler_is_not_advised_again(
    pooled_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, by health(), in the console and by doctor."""
    async with opened(pooled_url, listen_url=pooled_url) as jobs, working(jobs):
        reason = f"jobs.postgres.listen_url: one that was sent was not heard within 3 s; {LEADS}"
        assert (await jobs.health()).reason == f"{DEAF}: {reason}"
        assert once(caplog, reason)
        facts = await (await jobs.backend()).inspector.facts()
        console = Connection(jobs)
        await console.check()
        assert console.deaf == reason
        await console.close()
    (check,) = [check for check in check_postgres(dict(facts)) if check.name == "notifications"]
    assert (check.level, check.finding) == ("warn", "do not arrive: " + reason.partition(";")[0])
    assert check.advice == f"{LEADS}; until then jobs are found by looking, up to 1 s late"
    assert "set jobs.postgres.listen_url" not in caplog.text


@pytest.mark.parametrize("frozen_first", [True, False], ids=["from the start", "later"])
async def test_every_job_runs_while_only_the_listen_connection_hangs(
    postgres_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, frozen_first: bool
) -> None:
    """Nothing fails there: that nothing comes is all that there is to see."""
    monkeypatch.setattr(listening, "PROBE_AFTER", 0.5)
    monkeypatch.setattr(listening, "PROBE_TIMEOUT", 1.0)
    caplog.set_level(logging.INFO)
    async with (
        Wire(postgres_url) as wire,
        opened(postgres_url) as producer,
        opened(postgres_url, listen_url=wire.url) as jobs,
    ):
        if frozen_first:
            wire.freeze()
        async with working(jobs):
            if not frozen_first:
                assert await hearing(jobs).known(PATIENCE)
                await everything_works(jobs, producer)
                wire.freeze()
            await everything_works(jobs, producer)
            assert await eventually(lambda: DEAF in caplog.text)
            wire.thaw()
            assert await eventually(lambda: hearing(jobs).arriving)
            assert (await jobs.health()).degraded_since is None
    assert once(caplog, DEAF)
    assert once(caplog, "notifications arrive again")


async def test_a_connection_that_the_server_ends_comes_back(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = Notifications(PostgresSettings(url=postgres_url))
    heard: list[str] = []
    one.on("ready", heard.append)
    try:
        assert await one.known(PATIENCE)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            ended = other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where query like 'LISTEN%'"
                " and datname = current_database()"
            ).fetchall()
            assert ended == [(True,)]
            assert await eventually(lambda: not one.arriving)
            assert await eventually(lambda: one.arriving)
            await one.wait_until_listening(PATIENCE)
            other.execute("notify queue_core_jobconsole_ready, 'again'")
        assert await eventually(lambda: heard == ["again"])
    finally:
        await one.close()
    assert DEAF not in caplog.text, "one that comes back at once is no news"


async def test_a_worker_looks_by_itself_though_notifications_arrive(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that nobody told of: their producer died between its commit and its NOTIFY, and no leader audits."""
    monkeypatch.setattr(dispatcher, "POLL_INTERVAL", 1.0)
    async with opened(postgres_url) as jobs, opened(postgres_url) as producer, working(jobs) as worker:
        worker._sweeper._audit = None
        assert await (await producer.enqueue("work", {"n": 1})).result(PATIENCE) == 1
        assert hearing(jobs).arriving
        assert producer.dispatcher is not None
        producer.dispatcher.offer = _nothing  # type: ignore[method-assign]
        assert await (await producer.enqueue("work", {"n": 2})).result(PATIENCE) == 2


async def _nothing(_ready: object) -> None:
    pass


async def test_looks_are_rare_while_notifications_arrive(postgres_url: str) -> None:
    """Else an idle fleet costs the server as much as one that polls."""
    async with opened(postgres_url) as jobs:
        looks = 0
        claim = jobs.store.claim

        async def counted(request: Any) -> Any:
            nonlocal looks
            looks += 1
            return await claim(request)

        jobs.store.claim = counted  # type: ignore[method-assign]
        async with working(jobs):
            assert await (await jobs.enqueue("work", {"n": 1})).result(PATIENCE) == 1
            before = looks
            await asyncio.sleep(3)
            assert looks - before <= 2


async def test_a_fleet_shares_its_probes(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification that one process sends proves to all others, too, that they arrive."""
    monkeypatch.setattr(listening, "PROBE_AFTER", 0.5)
    fleet = [Notifications(PostgresSettings(url=postgres_url)) for _ in range(8)]
    sent = 0

    def counting(send: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(channel: str, messages: Any) -> None:
            nonlocal sent
            sent += 1
            await send(channel, messages)

        return counted

    try:
        for one in fleet:
            assert await one.known(PATIENCE)
            one.notify = counting(one.notify)  # type: ignore[method-assign]
        await asyncio.sleep(3)
        assert all(one.arriving for one in fleet)
        assert sent <= 2 * 3 / 0.5, "each for itself would send 36 or more"
    finally:
        for one in fleet:
            await one.close()


async def test_a_notification_that_comes_with_an_answer_proves_nothing(postgres_url: str) -> None:
    """A pooler hands on what comes while a statement of this client runs, and nothing afterwards."""
    one = Notifications(PostgresSettings(url=postgres_url))
    connection: Any = await psycopg.AsyncConnection.connect(postgres_url, autocommit=True)
    try:
        connection.add_notify_handler(lambda notification: one._hear(notification.channel, notification.payload))
        await one._listen(connection)
        await connection.execute("notify queue_core_jobconsole_probe")
        one._read(connection, proof=False)
        assert not one.arriving
    finally:
        await connection.close()
        await one.close()


async def test_nothing_is_listened_to_for_the_next_client_of_a_pooler(pooled_url: str) -> None:
    """A pooler in transaction mode keeps what a session listens to, and sends its next client what comes there."""
    async with opened(pooled_url) as jobs:
        notifications = hearing(jobs)
        assert isinstance(notifications, Notifications)
        notifications.on("events", lambda _: None)
        assert not await notifications.known(PATIENCE)
    async with await psycopg.AsyncConnection.connect(pooled_url, autocommit=True, prepare_threshold=None) as client:

        async def listened() -> set[str]:
            answer = await client.execute("SELECT pg_listening_channels()")
            return {name for (name,) in await answer.fetchall()}

        # One after the other, each of the pooler's sessions may answer.
        assert set().union(*[await listened() for _ in range(20)]) == set()
