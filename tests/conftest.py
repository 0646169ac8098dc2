"""Options and fixtures of all tests."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis.utils
from hypothesis import settings

from jobconsole.embedded.servers import EmbeddedServers
from tests import slow
from tests.emptying import emptied, shared_by_tests
from tests.order import spread
from tests.parts import mark_parts
from tests.redis_topology.rig import Cluster, started
from tests.servers import (
    SessionServers,
    chosen_source,
    fresh_database,
    fresh_prefix,
    name_servers,
    prepare_template,
    see_tables,
    session_servers,
)

StartServers = Callable[..., EmbeddedServers]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        choices=("wheel", "system"),
        default="wheel",
        help="PostgreSQL and Redis of the wheels (the default), or those installed on this machine; "
        "TEST_POSTGRES_URL and TEST_REDIS_URL name running ones instead",
    )
    parser.addoption(
        "--postgres-bin", type=Path, metavar="FOLDER", help="start the PostgreSQL whose programs are there"
    )
    parser.addoption("--redis-cluster", action="store_true", help="run on a Redis Cluster in place of one server")
    parser.addoption("--redis-bin", type=Path, metavar="FILE", help="start this Redis-protocol server")
    parser.addoption("--parallel-plans", action="store_true", help="let PostgreSQL plan small tables in parallel, too")
    slow.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    name_servers(config)
    slow.choose_mode(config)
    keep_bytecode()
    remember_version()
    hear_signals()
    # Examples take as long as the machine lets them.
    settings.register_profile("no deadline", deadline=None)
    settings.load_profile("no deadline")


def keep_bytecode() -> None:
    """Let the processes of the tests and those that tests start keep what they compile, whatever the environment says.

    Images of containers often set PYTHONDONTWRITEBYTECODE. Each of the hundreds of interpreters that tests start would
    then compile the product again, 0.4 s of its 0.6 s, and each process of the tests all of their files, 6 of 10 s.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def remember_version() -> None:
    """Let the driver read its version once: it parses its metadata for each connection, which takes 0.4 ms."""
    redis.utils.get_lib_version = cache(redis.utils.get_lib_version)


def hear_signals() -> None:
    """Let programs that tests start hear signals which whoever started the tests ignores, as `nohup` and `&` do."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        # Ignored here as before: a function is not inherited.
        signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which servers a run is about, where that was asked for."""
    named = {option: config.getoption(option) for option in ("--postgres-bin", "--redis-bin")}
    return [f"{option.removeprefix('--')}: {value}" for option, value in named.items() if value is not None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what a run of everything has left out."""
    if config.option.slow == "some":
        seed = config.option.slow_seed
        terminalreporter.write_line(
            f"One in {slow.SHARE} of the slow tests was run (seed {seed}); --slow rest runs the others."
        )


def pytest_collection(session: pytest.Session) -> None:
    """Collect ten thousand tests, all of which stay, without the collector: it takes half of the time."""
    gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_parts(items)
    slow.select(config, items)
    spread(items)


def pytest_collection_finish() -> None:
    """Let the collector look at what tests make, not at what was there before them.

    That are ten thousand tests and all modules. A test makes more than 700 objects and leaves few, so that looking
    after each 700 finds nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 5, 5)
    gc.enable()


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Iterator[SessionServers]:
    """The two servers of this session; a test must not stop them."""
    with session_servers(chosen_source(pytestconfig)) as found, ExitStack() as stack:
        running = found
        if pytestconfig.getoption("--redis-cluster"):
            running = replace(running, redis_url=stack.enter_context(started(Cluster)).url)
        yield running


@pytest.fixture(scope="session")
def migrated_template(servers: SessionServers) -> Iterator[str]:
    """The name of a database with the newest schema, to make copies of; nobody may stay connected to it."""
    with fresh_database(servers.postgres_url) as url:
        prepare_template(url)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture
def postgres_url(servers: SessionServers, migrated_template: str) -> Iterator[str]:
    """A database of this test alone, with the newest schema."""
    with fresh_database(servers.postgres_url, migrated_template) as url:
        yield url


@pytest.fixture
def empty_postgres_url(servers: SessionServers) -> Iterator[str]:
    """A database of this test alone, with nothing in it."""
    with fresh_database(servers.postgres_url) as url:
        yield url


@pytest.fixture(scope="session")
def shared_database(servers: SessionServers, migrated_template: str) -> Iterator[str]:
    """One migrated database for many tests: see tests/emptying.py."""
    with shared_by_tests(servers, migrated_template) as url:
        yield url


@pytest.fixture
def empty_store_url(shared_database: str) -> Iterator[str]:
    """The migrated database with nothing in it."""
    with emptied(shared_database) as url:
        yield url


@pytest.fixture(scope="session")
def workers_database(servers: SessionServers, migrated_template: str) -> Iterator[str]:
    """Another one for the tests with workers: one that a failing test leaves running disturbs no other tests."""
    with shared_by_tests(servers, migrated_template) as url:
        yield url


@pytest.fixture
def empty_workers_url(workers_database: str) -> Iterator[str]:
    """The migrated database of tests with workers, with nothing in it."""
    with emptied(workers_database) as url:
        yield url


@pytest.fixture
def redis_url(servers: SessionServers) -> str:
    """The Redis-protocol server of the session: keys go under `redis_prefix`."""
    return servers.redis_url


@pytest.fixture
def redis_prefix(servers: SessionServers) -> Iterator[str]:
    """A prefix of this test alone, such as "t0a1b2c3d4e:"."""
    with fresh_prefix(servers.redis_url) as prefix:
        yield prefix


@pytest.fixture
def start_servers(servers: SessionServers) -> Iterator[StartServers]:
    """Start private servers with options of `EmbeddedServers.start`; they end with the test."""
    with ExitStack() as stack:

        def start(**options: Any) -> EmbeddedServers:
            # A copy of an initialised data folder takes a fifth of the time of initdb.
            template = servers.embedded.data_template() if servers.embedded else None
            options = {"prefer": servers.prefer, "template": template} | options
            started = stack.enter_context(EmbeddedServers.start(**options))
            see_tables(started.postgres_url)
            return started

        yield start


@pytest.fixture
def own_servers(start_servers: StartServers) -> EmbeddedServers:
    """Private servers that a test may stop, kill and freeze."""
    return start_servers()
