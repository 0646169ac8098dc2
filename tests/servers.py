"""The servers that tests run on: started for the session, or named by the environment."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql

from jobconsole.embedded import servers
from jobconsole.embedded.binaries import POSTGRES_VARIABLE, REDIS_VARIABLE, Source
from jobconsole.embedded.servers import EmbeddedServers
from queue_core.stores.postgres.migrate import migrate
from tests.redis_topology.clients import plain_client

PARALLEL_VARIABLE = "TEST_POSTGRES_PARALLEL"
"""Set where PostgreSQL makes parallel plans for tables of any size, as it otherwise does for large ones alone."""


@dataclass(frozen=True)
class SessionServers:
    """The two servers of a test session."""

    # Any database of the PostgreSQL server, for making others.
    postgres_url: str
    redis_url: str
    # None when both addresses come from the environment.
    embedded: EmbeddedServers | None
    # Where the programs are looked for first.
    prefer: Source


def chosen_source(config: pytest.Config) -> Source:
    """Answer what `--servers` says."""
    return cast("Source", config.getoption("--servers"))


def name_servers(config: pytest.Config) -> None:
    """Make what servers are started with known to whatever starts them, processes of tests included."""
    for option, variable in (("--postgres-bin", POSTGRES_VARIABLE), ("--redis-bin", REDIS_VARIABLE)):
        named: Path | None = config.getoption(option)
        if named is not None:
            os.environ[variable] = str(named)
    if config.getoption("--parallel-plans"):
        os.environ[PARALLEL_VARIABLE] = "on"


@contextmanager
def session_servers(prefer: Source) -> Iterator[SessionServers]:
    """Start what the environment does not name."""
    postgres_url = os.environ.get("TEST_POSTGRES_URL")
    redis_url = os.environ.get("TEST_REDIS_URL")
    if postgres_url and redis_url:
        yield SessionServers(postgres_url, redis_url, None, prefer)
        return
    with EmbeddedServers.start(prefer=prefer) as embedded:
        found = {embedded.postgres.source, embedded.redis.source}
        if prefer == "system" and "wheel" in found:
            pytest.exit("--servers=system: PostgreSQL 15 and Redis 7, or later ones, have to be installed", 4)
        yield SessionServers(postgres_url or embedded.postgres_url, redis_url or embedded.redis_url, embedded, prefer)


def random_name(kind: str) -> str:
    """Answer a name that no other test uses, on a server that others may use too."""
    return f"{kind}{secrets.token_hex(5)}"


@contextmanager
def fresh_database(server_url: str, template: str | None = None, encoding: str | None = None) -> Iterator[str]:
    """Make a database, answer its address, and remove it at the end; with an encoding, an empty one that has it."""
    name = random_name("jobconsole_test_")
    try:
        if encoding is None:
            url = servers.create_database(server_url, name, template)
        else:
            url = _encoded_database(server_url, name, encoding)
        see_tables(url)
        yield url
    finally:
        servers.drop_database(server_url, name)


def _encoded_database(server_url: str, name: str, encoding: str) -> str:
    made = "create database {} encoding {} template template0 lc_collate 'C' lc_ctype 'C'"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL(made).format(sql.Identifier(name), encoding))
    return servers.database_url(server_url, name)


def see_tables(url: str) -> None:
    """Let tests find the queue's tables for what they write and read themselves; tests/postgres/schema does without."""
    with psycopg.connect(url, autocommit=True) as connection:
        place = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("alter database {} set search_path = jobconsole, public").format(place))
    if PARALLEL_VARIABLE in os.environ:
        plan_parallel(url)


def plan_parallel(url: str) -> None:
    """Let the sessions of a database plan every statement in parallel that they may."""
    with psycopg.connect(url, autocommit=True) as connection:
        place = sql.Identifier(connection.info.dbname)
        name = sql.SQL("force_parallel_mode" if connection.info.server_version < 160_000 else "debug_parallel_query")
        connection.execute(sql.SQL("alter database {} set {} = on").format(place, name))


@contextmanager
def fresh_prefix(redis_url: str) -> Iterator[str]:
    """Answer a prefix that nobody uses, and remove all its keys at the end."""
    prefix = f"{random_name('t')}:"
    yield prefix
    with plain_client(redis_url) as client:
        keys: list[Any] = list(client.scan_iter(f"{prefix}*", count=1000))
        for start in range(0, len(keys), 1000):
            client.unlink(*keys[start : start + 1000])


def prepare_template(url: str) -> None:
    """Bring the template database, of which every test gets a copy, to the newest schema."""
    migrate(url)
