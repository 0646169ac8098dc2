"""Connections to PostgreSQL: how they are opened, with which options, and the poolers in between."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from queue_core.errors import ConfigurationError
from queue_core.model.addresses import named, postgres_options
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.session.answers import WatchedConnection
from queue_core.stores.postgres.session.bounds import LOCK_TIMEOUT_MS, Connection, Try, cut
from queue_core.stores.postgres.session.failures import found_reader

T = TypeVar("T")


logger = logging.getLogger("queue_core.ports.store")


CANCEL_SECONDS = 1.0
"""How long a cancelled caller waits for the server to cancel its query."""


class _Connection(WatchedConnection):
    """Closed where its server does not cancel a query: the driver waits up to 10 s for one that hangs."""

    async def cancel_safe(self, *, timeout: float = CANCEL_SECONDS) -> None:
        try:
            await super().cancel_safe(timeout=min(timeout, CANCEL_SECONDS))
        except BaseException:
            self.pgconn.finish()
            raise


BY_INDEX = "-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c plan_cache_mode=force_generic_plan"
"""Every statement here has an index to go by; statistics from when a table was nearly empty lead away from it. By
default the server plans every second claim of a single job again, which takes longer than the claim."""

EXPECTED = (
    r"-c default_transaction_isolation=read\ committed -c DateStyle=ISO -c IntervalStyle=postgres -c array_nulls=on"
    " -c standard_conforming_strings=on -c extra_float_digits=1"
)
"""What this package's statements, and how the driver reads their answers, rest on. A role, a database, an address or
the environment may set it otherwise for other programs."""

WRITABLE = "read-write"
"""The server that is asked for by `target_session_attrs`, unless the address names another."""

REFUSAL = re.compile(r"unsupported startup parameter.*\boptions\b|command-line options")
"""Errors of poolers about a connection with options of its own: PgBouncer, and RDS Proxy."""

_poolers: set[str] = set()
"""Addresses that turned out to lead through a pooler that keeps no session, and those that lead to a server."""
_direct: set[str] = set()

R = TypeVar("R")


class BlockingConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection for a thread of its own, which waits for no answer longer than until `ends`.

    A server process that was stopped, or a proxy that swallows what it is sent, acknowledges every byte and never
    answers: neither the server's time limits nor those of TCP end such a wait.
    """

    # seconds of time.monotonic
    ends = math.inf

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **given: Any) -> R:
        """Wait for an answer as the driver does, which resumes a generator many times a second."""
        return super().wait(self._until_end(gen), *args, **given)

    def _until_end(self, waiting: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if time.monotonic() >= self.ends:
                    raise TimeoutError("no answer in time")
                wanted = waiting.send(ready)
        except StopIteration as end:
            result: R = end.value
            return result


def prepares(settings: PostgresSettings) -> bool:
    """Return whether sessions keep prepared statements and take options: no pooler is known to prevent it."""
    if not _poolers or settings.url is None:
        return settings.prepare
    return settings.prepare and settings.url.get_secret_value() not in _poolers


def place_of(settings: PostgresSettings) -> str:
    """Return the server, the database and the schema of the settings, for people; it distinguishes two queues.

    Raises:
        ConfigurationError: the URL cannot be read.
    """
    if settings.url is None:
        return "no database"
    parts = read_address(settings.url.get_secret_value())
    hosts = str(parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "localhost").split(",")
    ports = str(parts.get("port") or os.environ.get("PGPORT") or "5432").split(",")
    ports *= len(hosts) if len(ports) == 1 else 1
    servers = [named(host, "" if host.startswith("/") else port) for host, port in zip(hosts, ports, strict=False)]
    name = parts.get("dbname") or os.environ.get("PGDATABASE") or parts.get("user") or os.environ.get("PGUSER", "")
    return f"'{name}' at {', '.join(servers)}, schema '{settings.schema}'"


def found_pooler(settings: PostgresSettings, why: str) -> None:
    """Go on as with `jobs.postgres.prepare: false` from now on, and log it once."""
    assert settings.url is not None
    address = settings.url.get_secret_value()
    if address not in _poolers:
        _poolers.add(address)
        logger.warning("a pooler is in front of PostgreSQL, going on as with jobs.postgres.prepare: false (%s)", why)


def wanted_server(settings: PostgresSettings) -> str:
    """Return the `target_session_attrs` that is wanted; a program that writes nothing makes do with less."""
    return str(_address(settings).get("target_session_attrs") or WRITABLE)


def any_server(settings: PostgresSettings, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options of a connection to the same server that may be read-only, too.

    None where another one may be meant: the address names several, or which kind it wants.
    """
    return {**options, "target_session_attrs": "any"} if _means_one(settings) else None


def _means_one(settings: PostgresSettings) -> bool:
    read = _address(settings)
    hosts = str(read.get("host") or read.get("hostaddr") or os.environ.get("PGHOST") or "")
    return "target_session_attrs" not in read and "," not in hosts


def _address(settings: PostgresSettings) -> dict[str, Any]:
    return read_address("" if settings.url is None else settings.url.get_secret_value())


def connection_options(settings: PostgresSettings, ours: str = "", expected: str = EXPECTED) -> dict[str, Any]:
    """Return the keyword arguments of `psycopg.connect` that every connection here is opened with.

    `ours` are the options of the session that this package wants; those of the address, or of PGOPTIONS, come behind
    them and win, but for what is expected. Through a pooler in transaction mode only theirs are sent.

    Raises:
        ConfigurationError: no URL is set, or one that cannot be read.
    """
    if settings.url is None:
        raise ConfigurationError("jobs.postgres.url is not set")
    url = settings.url.get_secret_value()
    read = read_address(url)
    hosts = str(read.get("host") or "").count(",") + 1
    prepared = prepares(settings)
    options: dict[str, Any] = {
        "conninfo": url,
        "autocommit": True,
        "prepare_threshold": 2 if prepared else None,
        # Of several hosts each has its part: one that hangs must not take the time of the next one.
        "connect_timeout": max(2, int(settings.timeout / hosts)),
        "target_session_attrs": "any" if settings.reads_alone and _means_one(settings) else wanted_server(settings),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "application_name": "queue_core",
        # Poolers know this one. With SQL_ASCII the driver reads bytes in place of texts.
        "client_encoding": "UTF8",
    }
    if ours and prepared:
        theirs = read.get("options") or os.environ.get("PGOPTIONS") or ""
        options["options"] = " ".join(filter(None, [ours, theirs, expected]))
    return options


def hot_options(settings: PostgresSettings, statement_ms: int | None = None) -> dict[str, Any]:
    """Return the options of a connection for prepared statements, which the server ends after some milliseconds.

    So if this process dies, no server process is left that waits for a lock or for its reader.
    """
    limit = max(1, round(settings.timeout * 1000)) if statement_ms is None else statement_ms
    bounds = {"statement_timeout": limit, "lock_timeout": min(LOCK_TIMEOUT_MS, limit), "tcp_user_timeout": limit}
    return connection_options(settings, BY_INDEX + "".join(f" -c {name}={value}" for name, value in bounds.items()))


async def connect(
    settings: PostgresSettings,
    options: dict[str, Any],
    level: psycopg.IsolationLevel | None = None,
    ours: bool = True,
) -> WatchedConnection:
    """Open a connection; where a pooler refuses this package's options, without them.

    A program that writes nothing, where none of several servers takes writes, gets the primary, which has the latest.
    `level`: of transactions, where the server's own does not count; `ours`: this package's statements run in it, and
    no handler's, which are for the role's own settings.

    Raises:
        ConfigurationError: a pooler refuses the options of the address.
        psycopg.Error: there is no connection.
    """
    try:
        return await _connect(settings, options, level, ours)
    except psycopg.OperationalError as error:
        if not settings.reads_alone or "target_session_attrs" in _address(settings) or not found_reader(error):
            raise
    return await _connect(settings, {**options, "target_session_attrs": "primary"}, level, ours)


async def _connect(
    settings: PostgresSettings, options: dict[str, Any], level: psycopg.IsolationLevel | None, ours: bool
) -> WatchedConnection:
    for tried in _tries(options):
        try:
            connection = await _Connection.connect(**tried)
            # Each await is a place where the caller can be cancelled, and no other code knows of the connection yet.
            try:
                if level is not None:
                    await connection.set_isolation_level(level)
                if prepares(settings):
                    await _detect_pooler(settings, connection)
                if ours and not (connection.info.parameter_status("DateStyle") or "ISO").startswith("ISO"):
                    # A pooler has left out the options. It knows this one, and sets it on each session that it gives.
                    await connection.execute(load("connection/dates"))
            except BaseException:
                await connection.close()
                raise
            if not prepares(settings):
                connection.prepare_threshold = None
            return connection
        except psycopg.OperationalError as error:
            _refused(settings, tried, error)
    raise _unacceptable()


async def _detect_pooler(settings: PostgresSettings, connection: Connection) -> None:
    """Find out, once for each address, whether something in between keeps sessions of its own.

    Prepared statements are identified by numbers: in another session the same number is another client's statement.
    Who has set `prepare` to true is believed: a pooler in session mode, or one that follows prepared statements.
    """
    assert settings.url is not None
    address = settings.url.get_secret_value()
    if address in _direct or "prepare" in settings.model_fields_set:
        return
    loop = asyncio.get_running_loop()
    one = Try(loop.time() + settings.timeout, settings.timeout)
    watch = loop.call_at(one.ends, cut, connection, one)
    try:
        cursor = await connection.execute(load("connection/backend"), prepare=False)
        ((backend,),) = await cursor.fetchall()
    finally:
        watch.cancel()
    if backend == connection.info.backend_pid:
        _direct.add(address)
    else:
        found_pooler(settings, "set it to true where the pooler keeps sessions or prepared statements")


def connect_blocking(settings: PostgresSettings, options: dict[str, Any]) -> BlockingConnection:
    """Open a connection for a thread of its own; see `connect`."""
    for tried in _tries(options):
        try:
            return BlockingConnection.connect(**tried)
        except psycopg.OperationalError as error:
            _refused(settings, tried, error)
    raise _unacceptable()


async def close_all(connections: Iterable[Connection]) -> None:
    """Close connections on which nothing is under way."""
    for connection in connections:
        await connection.close()


def _tries(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield options
    if "options" in options:
        yield {key: value for key, value in options.items() if key != "options"} | {"prepare_threshold": None}


def _refused(settings: PostgresSettings, tried: dict[str, Any], error: psycopg.OperationalError) -> None:
    """Note that a pooler refused the options of a connection; any other error is raised again."""
    if REFUSAL.search(str(error)) is None:
        raise error
    if "options" in tried:
        found_pooler(settings, "it refuses options of sessions")


def _unacceptable() -> ConfigurationError:
    return ConfigurationError(
        "the pooler in front of PostgreSQL refuses the options of jobs.postgres.url or PGOPTIONS: "
        "set them for the role instead (ALTER ROLE … SET …), or in the pooler"
    )


def read_address(url: str, setting: str = "jobs.postgres.url") -> dict[str, Any]:
    """Return what a URL gives; `setting` is the name under which it was set.

    Raises:
        ConfigurationError: the driver cannot read it.
    """
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The driver's message contains the address, and that may contain a password.
        raise ConfigurationError(f"{setting}: {_unread(url)}") from None


def _unread(url: str) -> str:
    """Return why the driver cannot read a URL."""
    known = {one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults()}
    try:
        # Behind a / and a ? in a password that is not escaped, what looks like an option may be a part of it.
        options = [] if "@" in url.partition("?")[2] else postgres_options(url)
    except ValueError as error:
        return str(error)
    for name, _ in options:
        if name not in known and re.fullmatch(r"[A-Za-z]\w{0,40}", name):
            near = get_close_matches(name.lower(), known, 1)
            return f"PostgreSQL's client knows no option '{name}'" + (f"; did you mean '{near[0]}'?" if near else "")
    return "this is no address that PostgreSQL's client understands"
