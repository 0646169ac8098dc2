"""The server goes, freezes, turns read-only or has another schema: a typed error in bounded time; it comes back."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.server import Exporter, ExporterOptions
from queue_core import JobQueue
from queue_core.errors import ConfigurationError, SchemaMissing, SchemaNewer, StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.model.settings import PostgresSettings, settings_from
from queue_core.stores.postgres.migrate import KNOWN, migrate
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.read import PostgresInspector
from tests.exporter.test_server import ask
from tests.postgres.operations.filling import Database

TIMEOUT = 2.0
BOUND = 10.0
"""Seconds in which a call with `TIMEOUT` has ended on any machine."""


@pytest.fixture
async def own(own_servers: EmbeddedServers) -> AsyncIterator[PostgresInspector]:
    """An inspector on a server that may be stopped."""
    migrate(own_servers.postgres_url)
    opened = PostgresInspector(PostgresSettings(url=own_servers.postgres_url, timeout=TIMEOUT))
    yield opened
    await opened.close()


async def refused(ask: Callable[[], Awaitable[object]]) -> StoreUnavailable:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        await ask()
    assert time.monotonic() - began < BOUND
    assert "\n" not in str(caught.value)
    return caught.value


async def test_a_server_that_is_not_there_says_why() -> None:
    inspector = PostgresInspector(PostgresSettings(url="postgresql://app@127.0.0.1:1/nothing", timeout=TIMEOUT))
    error = await refused(inspector.overview)
    assert "refused" in error.reason
    await inspector.close()


async def test_an_address_that_cannot_be_read_says_why() -> None:
    url = "postgresql://app:secret@nonsense/x?y=z"
    with pytest.raises(ConfigurationError) as caught:
        await PostgresInspector(PostgresSettings(url=url)).overview()
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="url is not set"):
        await PostgresInspector(PostgresSettings()).overview()


async def test_a_restart_is_not_even_noticed(own: PostgresInspector, own_servers: EmbeddedServers) -> None:
    """Idle connections that the server has closed are not handed out."""
    for mode in ("fast", "immediate"):
        await asyncio.gather(*(own.overview() for _ in range(3)))
        own_servers.postgres.stop(mode)
        own_servers.postgres.start()
        await own.overview()


async def test_a_server_that_goes_and_comes_back(own: PostgresInspector, own_servers: EmbeddedServers) -> None:
    await own.ping()
    own_servers.postgres.stop()
    await refused(own.overview)
    await refused(own.facts)
    own_servers.postgres.start()
    await own.overview()


async def test_a_frozen_server_costs_bounded_time(own: PostgresInspector, own_servers: EmbeddedServers) -> None:
    await own.ping()
    own_servers.postgres.pause()
    await refused(own.overview)
    await refused(own.overview)
    own_servers.postgres.resume()
    await own.overview()


async def test_locked_tables_cost_bounded_time_and_no_connection(postgres_url: str, database: Database) -> None:
    settings = PostgresSettings(url=postgres_url, timeout=TIMEOUT)
    inspector, operations = PostgresInspector(settings), PostgresOperations(settings)
    await inspector.ping()
    async with database.connection.transaction():
        await database.do("lock table jobs_dead in access exclusive mode")
        error = await refused(lambda: inspector.jobs(Filter(), 10))
        assert "do not let go" in error.reason, "the server answers"
        await refused(lambda: operations.change("retry", ["0197f3c2-1111-7abc-8def-0123456789ab"]))
        left = "select count(*) from pg_stat_activity where state = 'active' and wait_event_type = 'Lock'"
        assert await database.value(left) == 0
    assert (await inspector.jobs(Filter(), 10)).jobs == ()
    await inspector.close()
    await operations.close()


async def test_a_server_that_turns_read_only_is_left_for_the_new_primary(
    own: PostgresInspector, own_servers: EmbeddedServers, own_database: Database
) -> None:
    operations = PostgresOperations(PostgresSettings(url=own_servers.postgres_url, timeout=TIMEOUT))
    await own_database.do("insert into queues (name) values ('q')")
    assert await operations.pause("q")
    await own_database.do("alter system set default_transaction_read_only = on")
    await own_database.do("select pg_reload_conf()")
    await own_database.until("select current_setting('default_transaction_read_only') = 'on'")
    # On the connection that it had, and then on new ones.
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"postgres accepts no writes: .*read-only"):
            await operations.resume("q")
    await own_database.do("alter system reset default_transaction_read_only")
    await own_database.do("select pg_reload_conf()")
    await own_database.until("select current_setting('default_transaction_read_only') = 'off'")
    assert await operations.resume("q")
    await operations.close()


async def test_health_finds_a_server_that_turns_read_only(own_servers: EmbeddedServers, own_database: Database) -> None:
    """On the connections that are kept; who asked for a server that may only be read is content."""
    migrate(own_servers.postgres_url)
    reading = f"{own_servers.postgres_url}&target_session_attrs=any"
    settings = settings_from(postgres=own_servers.postgres_url)
    async with JobQueue(settings=settings) as jobs, JobQueue(postgres=reading) as reader:
        with Exporter(settings, ExporterOptions(port=0, limit=BOUND)) as exporter:

            async def found() -> tuple[bool, bool, int]:
                answer, _ = await asyncio.to_thread(ask, exporter, "/healthz")
                return (await jobs.health()).healthy, (await reader.health()).healthy, answer.status

            await jobs.enqueue("work")
            assert await found() == (True, True, 200)
            await own_database.do("alter system set default_transaction_read_only = on")
            await own_database.do("select pg_reload_conf()")
            await own_database.until("select current_setting('default_transaction_read_only') = 'on'")
            assert await found() == (False, True, 503)
            assert "postgres accepts no writes" in (await jobs.health()).reason
            # On new connections, too, for the check has left those that were there.
            assert await jobs.inspector.count(Filter()) == 1
            _, metrics = await asyncio.to_thread(ask, exporter, "/metrics")
            assert b'jobconsole_up{backend="postgres"} 1.0' in metrics
            await own_database.do("alter system reset default_transaction_read_only")
            await own_database.do("select pg_reload_conf()")
            await own_database.until("select current_setting('default_transaction_read_only') = 'off'")
            assert await found() == (True, True, 200)


@pytest.fixture
async def own_database(own_servers: EmbeddedServers) -> AsyncIterator[Database]:
    async with await psycopg.AsyncConnection.connect(own_servers.postgres_url, autocommit=True) as connection:
        yield Database(connection)


async def test_a_missing_schema_is_named_and_found_after_the_migration(empty_postgres_url: str) -> None:
    inspector = PostgresInspector(PostgresSettings(url=empty_postgres_url, timeout=TIMEOUT))
    for read in (inspector.overview, inspector.tallies, inspector.conservation):
        with pytest.raises(SchemaMissing, match="run 'jobconsole migrate'"):
            await read()
    facts = await inspector.facts()
    assert (facts["schema"], facts["schema_known"]) == (0, KNOWN)
    assert facts["partitions_ahead_days"] is None
    migrate(empty_postgres_url)
    await inspector.overview()
    await inspector.close()


async def test_a_newer_schema_is_refused_and_doctor_may_still_look(
    inspector: PostgresInspector, database: Database
) -> None:
    await database.do("insert into schema_version (version, name) values (%(v)s, 'future')", {"v": KNOWN + 1})
    with pytest.raises(SchemaNewer):
        await inspector.overview()
    assert (await inspector.facts())["schema"] == KNOWN + 1


async def test_closing_twice_and_before_the_start_is_safe(postgres_url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        never = PostgresInspector(PostgresSettings(url=postgres_url))
        await never.close()
        used = PostgresInspector(PostgresSettings(url=postgres_url))
        await asyncio.gather(*(used.ping() for _ in range(10)))
        await used.close()
        await used.close()
        assert await used.ping() > 0
        await used.close()


async def test_connections_are_few_and_given_back(postgres_url: str, database: Database) -> None:
    inspector = PostgresInspector(PostgresSettings(url=postgres_url))
    await asyncio.gather(*(inspector.overview() for _ in range(40)))
    mine = "select count(*)::int from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    assert await database.value(mine) <= 4
    await inspector.close()
    await database.until(f"select ({mine}) = 0")
