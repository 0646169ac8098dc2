"""Two applications on one database with different Redis: who differs is told, and the jobs of both run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
from redis.asyncio import Redis

from jobconsole.core.doctor.checks import check_pairing
from jobconsole.embedded.servers import EmbeddedServers
from queue_core.delivery import pairing as pairing_module
from queue_core.delivery import redis_dispatcher as dispatcher_module
from queue_core.delivery.pairing import Pairing
from queue_core.model.retry import Retry
from queue_core.model.states import Status
from queue_core.queue import JobQueue
from queue_core.redis.client import place_of
from queue_core.stores.postgres.migrate import migrate
from queue_core.stores.postgres.session.connection import place_of as place_of_database
from queue_core.worker.worker import Worker
from tests.postgres.schema.test_schema import role
from tests.redis.test_databases import in_database
from tests.servers import SessionServers, fresh_database
from tests.waiting import eventually

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are looked at often."""
    monkeypatch.setattr(pairing_module, "PAIRED_INTERVAL", 1.0)
    monkeypatch.setattr(pairing_module, "DOUBTFUL_INTERVAL", 0.2)


def pairing_of(jobs: JobQueue) -> Pairing:
    assert jobs.pairing is not None
    return jobs.pairing


async def found(jobs: JobQueue) -> tuple[bool, str]:
    """Look, as a worker that starts does; return what was found."""
    await pairing_of(jobs).check()
    return pairing_of(jobs).doubtful, pairing_of(jobs).reason


@asynccontextmanager
async def application(postgres: str, redis: str, prefix: str, queue: str) -> AsyncIterator[JobQueue]:
    """An application with a task that succeeds at the second try, and a worker."""
    async with JobQueue(postgres=postgres, redis=redis, prefix=prefix) as jobs:

        @jobs.task(name=queue, queue=queue, retry=Retry(max_retries=3, delay=0.2))
        async def flaky(job: str) -> str:
            if job not in failed:
                failed.add(job)
                raise ValueError("at first")
            return "done"

        failed: set[str] = set()
        worker = Worker(jobs)
        task = asyncio.create_task(worker.run())
        yield jobs
        worker.stop()
        await asyncio.wait_for(task, PATIENCE)


async def run_every_kind(jobs: JobQueue, postgres: str, queue: str) -> None:
    """Let a plain, a delayed and a transactional job run, each with a retry."""
    handles = [await jobs.enqueue(queue, {"job": "plain"}, queue=queue)]
    handles.append(await jobs.enqueue(queue, {"job": "delayed"}, queue=queue, delay=0.2))
    async with await psycopg.AsyncConnection.connect(postgres) as connection:
        handles.append(await jobs.enqueue(queue, {"job": "transactional"}, queue=queue, connection=connection))
    for handle in handles:
        assert await handle.result(timeout=PATIENCE) == "done"


@pytest.mark.parametrize("other", ["prefix", "database"])
async def test_jobs_of_two_applications_on_one_database_run(
    postgres_url: str, redis_url: str, redis_prefix: str, other: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Retries, delayed and transactional jobs are offered by the leader: to its own Redis."""
    prefix = f"{redis_prefix}other:" if other == "prefix" else redis_prefix
    url = in_database(redis_url, 5) if other == "database" else redis_url
    async with application(postgres_url, redis_url, redis_prefix, "one") as one:
        assert not (await one.health()).reason
        async with application(postgres_url, url, prefix, "two") as two:
            with caplog.at_level(logging.WARNING):
                await run_every_kind(two, postgres_url, "two")
            await run_every_kind(one, postgres_url, "one")
            for jobs in (one, two):
                health = await jobs.health()
                assert health.healthy
                assert "another" in health.reason
                assert health.degraded_since is not None
            assert f"'{prefix}'" in (await one.health()).reason
            assert "another Redis" in caplog.text


@asynccontextmanager
async def unopened(postgres: str, redis: str, prefix: str) -> AsyncIterator[JobQueue]:
    """A process of an application, without a worker."""
    async with JobQueue(postgres=postgres, redis=redis, prefix=prefix) as jobs:
        yield jobs


async def test_one_application_is_a_pair_from_the_start(postgres_url: str, redis_url: str, redis_prefix: str) -> None:
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(postgres_url, redis_url, redis_prefix) as second,
    ):
        # Who comes between the two writes of the other has to look again.
        assert {reason for _, reason in await asyncio.gather(found(first), found(second))} == {""}
        assert await asyncio.gather(found(first), found(second)) == [(False, "")] * 2


async def test_an_emptied_redis_gets_its_identity_again(
    postgres_url: str, redis_url: str, redis_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is warned: who has seen the pair puts it right, and who starts meanwhile waits for that."""
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(postgres_url, redis_url, redis_prefix) as second,
        Redis.from_url(redis_url) as client,
    ):
        await found(first)
        await client.delete(f"{redis_prefix}identity", f"{redis_prefix}identity:confirmed")
        with caplog.at_level(logging.WARNING, "queue_core"):
            assert await found(second) == (True, "")
            assert await found(first) == (False, "")
            assert await found(second) == (False, "")
        assert not caplog.records


async def test_a_new_redis_is_taken_when_nobody_uses_the_old_one(
    postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing_module, "IN_USE_SECONDS", 0.3)
    async with unopened(postgres_url, redis_url, redis_prefix) as old:
        await found(old)
    async with unopened(postgres_url, redis_url, f"{redis_prefix}new:") as new:
        await asyncio.sleep(0.4)
        assert await found(new) == (False, "")


async def test_a_restored_database_is_taken_when_nobody_uses_another(
    postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with unopened(postgres_url, redis_url, redis_prefix) as jobs:
        await found(jobs)
        with psycopg.connect(postgres_url) as connection:
            connection.execute("delete from leaders")
        assert await found(jobs) == (False, "")
        assert (await jobs.health()).reason == ""


async def test_an_application_that_was_down_for_long_learns_that_another_one_has_its_redis(
    postgres_url: str, second_postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    """The other one must not take over the identity that it finds: both databases would have the same one."""
    async with unopened(postgres_url, redis_url, redis_prefix) as one:
        assert await found(one) == (False, "")
        with psycopg.connect(postgres_url) as connection:
            connection.execute("update jobconsole.leaders set expires_at = now() - interval '1 minute'")
        async with Redis.from_url(redis_url) as client:
            await client.delete(f"{redis_prefix}identity:confirmed")
        async with unopened(second_postgres_url, redis_url, redis_prefix) as other:
            assert await found(other) == (False, "")
            async with unopened(postgres_url, redis_url, redis_prefix) as back:
                assert (await found(back))[1].endswith(f"delivers for another database ({database_of(other)})")
            assert "another application uses this Redis" in (await found(other))[1]


@pytest.fixture
def second_postgres_url(empty_postgres_url: str) -> str:
    """Another database with the schema."""
    migrate(empty_postgres_url)
    return empty_postgres_url


def database_of(jobs: JobQueue) -> str:
    return place_of_database(jobs.settings.postgres)


async def asked(jobs: JobQueue) -> str:
    """Return what `health()` and `doctor` of a program that does nothing else say."""
    # Who comes between the two writes of another process has to look again.
    while not (reason := (await jobs.health()).reason) and pairing_of(jobs).doubtful:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    assert reason == pairing_of(jobs).reason
    assert check_pairing(reason, pairing_of(jobs).doubtful).level == ("warn" if reason else "ok")
    return reason


async def test_two_databases_on_one_redis_are_said_to_both(
    postgres_url: str, second_postgres_url: str, redis_url: str, redis_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each takes the other's ids from Redis: in the logs of both, by health, by doctor; and the jobs of both run."""
    async with (
        application(postgres_url, redis_url, redis_prefix, "one") as one,
        unopened(postgres_url, redis_url, redis_prefix) as beside_one,
    ):
        assert await asked(beside_one) == ""
        with caplog.at_level(logging.WARNING, "queue_core.delivery"):
            async with (
                application(second_postgres_url, redis_url, redis_prefix, "two") as two,
                unopened(second_postgres_url, redis_url, redis_prefix) as beside_two,
            ):
                assert await eventually(lambda: pairing_of(one).reason and pairing_of(two).reason)
                first, second = await asked(beside_one), await asked(beside_two)
                await run_every_kind(two, second_postgres_url, "two")
                await run_every_kind(one, postgres_url, "one")
    assert f"for another database ({database_of(two)})" in first
    assert f"for another database ({database_of(one)})" in second
    said = [record.getMessage().partition(";")[0] for record in caplog.records if record.levelno == logging.WARNING]
    assert said[:2] in ([first, second], [second, first])


@asynccontextmanager
async def copied(servers: SessionServers, postgres: str) -> AsyncIterator[str]:
    """A copy of a database, to which nothing may be connected meanwhile."""
    with fresh_database(servers.postgres_url, urlsplit(postgres).path.removeprefix("/")) as url:
        yield url


async def test_a_copy_of_a_database_is_another_one(
    servers: SessionServers, postgres_url: str, redis_url: str, redis_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With the identity of the original it shared a Redis with it, and no one noticed. All jobs run, in both."""
    async with unopened(postgres_url, redis_url, redis_prefix) as one:
        assert await found(one) == (False, "")
        before = [await one.enqueue("one", {"job": str(n)}, queue="one") for n in range(20)]
    async with (
        copied(servers, postgres_url) as copy_url,
        unopened(postgres_url, redis_url, redis_prefix) as beside_one,
        unopened(copy_url, redis_url, redis_prefix) as beside_copy,
    ):
        with caplog.at_level(logging.WARNING, "queue_core.delivery"):
            async with application(postgres_url, redis_url, redis_prefix, "one") as one:
                assert await eventually(lambda: pairing_of(one)._identity)
                async with application(copy_url, redis_url, redis_prefix, "one") as copy:
                    assert await eventually(lambda: pairing_of(one).reason and pairing_of(copy).reason)
                    first, second = await asked(beside_one), await asked(beside_copy)
                    await run_every_kind(one, postgres_url, "one")
                    await run_every_kind(copy, copy_url, "one")
                    for jobs in (one, copy):
                        states = [await jobs.get(handle.id) for handle in before]
                        assert [job and (job.status, job.retry_count) for job in states] == [(Status.COMPLETED, 1)] * 20
    assert f"for another database ({database_of(copy)})" in first
    assert second.endswith(f"delivers for another database ({database_of(one)})")
    assert first in caplog.text
    assert second in caplog.text


async def test_a_copy_takes_a_redis_that_the_original_uses_no_more_with_an_identity_of_its_own(
    servers: SessionServers, postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a database that was restored does; the original learns of it when it is back."""
    monkeypatch.setattr(pairing_module, "IN_USE_SECONDS", 0.3)
    async with unopened(postgres_url, redis_url, redis_prefix) as one:
        await found(one)
    async with (
        copied(servers, postgres_url) as copy_url,
        unopened(copy_url, redis_url, redis_prefix) as copy,
        unopened(copy_url, redis_url, redis_prefix) as beside_copy,
    ):
        assert await eventually_paired(copy)
        assert await found(beside_copy) == (False, "")
        async with unopened(postgres_url, redis_url, redis_prefix) as one:
            monkeypatch.setattr(pairing_module, "IN_USE_SECONDS", 60.0)
            await asyncio.sleep(0.4)
            assert await found(copy) == (False, "")
            assert (await found(one))[1].endswith(f"delivers for another database ({database_of(copy)})")
            assert f"for another database ({database_of(one)})" in (await found(copy))[1]


async def eventually_paired(jobs: JobQueue) -> bool:
    """Return whether a process becomes one of a pair."""

    async def paired() -> bool:
        await found(jobs)
        return bool(pairing_of(jobs)._identity)

    return await eventually(paired)


async def test_a_database_that_a_copy_has_replaced_gets_an_identity_of_its_own(
    servers: SessionServers, postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a process that knows the one before: a copy may get the name of its original, which is still there."""
    monkeypatch.setattr(pairing_module, "IN_USE_SECONDS", 0.3)
    async with unopened(postgres_url, redis_url, redis_prefix) as one:
        await found(one)
        identity = pairing_of(one)._identity
    async with copied(servers, postgres_url) as copy_url, unopened(copy_url, redis_url, redis_prefix) as copy:
        pairing_of(copy)._identity = identity
        assert await eventually_paired(copy)
        assert pairing_of(copy)._identity != identity


async def test_a_server_that_does_not_report_which_database_it_is_is_paired_as_well(
    postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("revoke execute on function pg_control_system() from public")
    grants = ("grant usage on schema jobconsole to {role}", "grant all on all tables in schema jobconsole to {role}")
    with role(postgres_url, *grants) as (_, url):
        async with unopened(url, redis_url, redis_prefix) as jobs:
            assert await found(jobs) == (False, "")
            assert pairing_of(jobs)._identity


async def test_two_servers_of_redis_are_said_to_both_by_their_addresses(
    postgres_url: str, redis_url: str, redis_prefix: str, own_servers: EmbeddedServers, caplog: pytest.LogCaptureFixture
) -> None:
    """With the same prefix and number of the database: the first look of the second says so, the next of the first."""
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(postgres_url, own_servers.redis_url, redis_prefix) as second,
        unopened(postgres_url, redis_url, redis_prefix) as beside_first,
        unopened(postgres_url, own_servers.redis_url, redis_prefix) as beside_second,
    ):
        await found(first)
        with caplog.at_level(logging.WARNING, "queue_core.delivery"):
            assert await found(second) == (True, await asked(beside_second))
            assert await found(first) == (True, await asked(beside_first))
            said = [record.getMessage().partition(";")[0] for record in caplog.records]
            assert said == [pairing_of(second).reason, pairing_of(first).reason], "those who only ask log nothing"
        places = [place_of(jobs.settings.redis) for jobs in (first, second)]
        assert places[0] != places[1]
        assert all(place in pairing_of(second).reason for place in places)
        assert places[1] in pairing_of(first).reason


async def test_two_servers_of_one_address_are_said_to_both(
    postgres_url: str,
    redis_url: str,
    redis_prefix: str,
    own_servers: EmbeddedServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once the pair was confirmed again; whoever asks meanwhile does not hear that all is well."""
    monkeypatch.setattr(dispatcher_module, "place_of", lambda settings: "cache:6379")
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(postgres_url, own_servers.redis_url, redis_prefix) as second,
        unopened(postgres_url, own_servers.redis_url, redis_prefix) as beside,
    ):
        await found(first)
        assert await found(second) == (True, "")
        assert await asked_doubtful(beside)
        with psycopg.connect(postgres_url) as connection:
            connection.execute("update leaders set expires_at = expires_at + interval '5 s' where duty = 'delivery'")
        assert "another Redis" in (await found(second))[1]
        assert "another Redis" in await asked(beside)
        assert "another Redis" in (await found(first))[1]


async def asked_doubtful(jobs: JobQueue) -> bool:
    """Tell whether `doctor` says that it is not known."""
    await pairing_of(jobs).check(change=False)
    pairing = pairing_of(jobs)
    return (pairing.reason, check_pairing(pairing.reason, pairing.doubtful).level) == ("", "warn")


@asynccontextmanager
async def without_redis(postgres: str) -> AsyncIterator[JobQueue]:
    """A process in mode `postgres`."""
    async with JobQueue(postgres=postgres) as jobs:
        yield jobs


async def test_a_worker_without_redis_on_a_database_with_one_is_told(
    postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    """What it makes ready, as the leader, that Redis does not hear of; whoever uses it looks into the database then."""
    async with (
        without_redis(postgres_url) as alone,
        unopened(postgres_url, redis_url, redis_prefix) as pair,
    ):
        assert await found(alone) == (False, "")
        assert (await alone.health()).reason == ""
        await found(pair)
        assert await found(alone) == (False, "")
        with psycopg.connect(postgres_url) as connection:
            connection.execute("update leaders set expires_at = expires_at + interval '5 s' where duty = 'delivery'")
        doubtful, reason = await found(alone)
        assert doubtful
        assert "has none" in reason
        assert (await alone.health()).reason == reason
        doubtful, reason = await found(pair)
        assert doubtful
        assert "mode postgres" in reason


async def test_a_worker_without_redis_takes_over_from_those_that_had_one(
    postgres_url: str, redis_url: str, redis_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is warned: the pair is not confirmed any more."""
    async with (
        without_redis(postgres_url) as alone,
        unopened(postgres_url, redis_url, redis_prefix) as before,
    ):
        await found(before)
        with caplog.at_level(logging.WARNING, "queue_core"):
            for _ in range(3):
                assert await found(alone) == (False, "")
        assert not caplog.records


async def test_of_the_processes_of_a_pair_one_at_a_time_asks_the_database(
    postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it finds there the others hear through Redis."""
    monkeypatch.setattr(pairing_module, "PAIRED_INTERVAL", 600.0)
    async with (
        unopened(postgres_url, redis_url, redis_prefix) as first,
        unopened(postgres_url, redis_url, redis_prefix) as second,
        unopened(postgres_url, redis_url, f"{redis_prefix}other:") as other,
        Redis.from_url(redis_url) as client,
    ):
        for jobs in (first, second):
            await found(jobs)
        await pairing_of(first)._glance()
        await found(other)
        await pairing_of(second)._glance()
        assert pairing_of(second).reason == "", "it was not its turn"
        await client.delete(f"{redis_prefix}identity:checked")
        await pairing_of(first)._glance()
        await pairing_of(second)._glance()
        assert "another Redis" in pairing_of(first).reason == pairing_of(second).reason


async def test_only_who_has_the_identity_confirms_its_database(
    postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
        dispatcher = jobs.dispatcher
        assert isinstance(dispatcher, dispatcher_module.RedisDispatcher)
        first = (await dispatcher.read_record())[0].identity or await dispatcher.identify("first", None, "db-1", 60.0)
        assert await dispatcher.identify(first, None, "db-1", 60.0) == first
        assert await dispatcher.identify("second", None, "db-2", 60.0) == first
        assert (await dispatcher.read_record())[0].confirmed == "db-1"
        assert await dispatcher.identify("second", first, "db-2", 60.0) == "second"
        assert (await dispatcher.read_record())[0].confirmed == "db-2"


async def test_a_pair_is_confirmed_again_before_it_counts_as_unused(
    postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another application would take one of its sides."""
    monkeypatch.setattr(pairing_module, "PAIRED_INTERVAL", 8.0)
    async with unopened(postgres_url, redis_url, redis_prefix) as jobs:
        await found(jobs)
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            await connection.execute("update leaders set expires_at = now() + interval '20 s' where duty = 'delivery'")
            await found(jobs)
            left = "select expires_at > now() + interval '30 s' from leaders where duty = 'delivery'"
            assert await (await connection.execute(left)).fetchone() == (True,)


async def test_a_note_of_the_own_database_is_about_no_other_one(
    postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    """It is from before this database and its Redis were a pair."""
    async with unopened(postgres_url, redis_url, redis_prefix) as jobs:
        dispatcher = jobs.dispatcher
        assert isinstance(dispatcher, dispatcher_module.RedisDispatcher)
        await found(jobs)
        await dispatcher.note_other_database(pairing_of(jobs)._database, 60.0)
        assert await found(jobs) == (False, "")
        await dispatcher.note_other_database("db-2", 60.0)
        assert "another database (db-2)" in (await found(jobs))[1]
