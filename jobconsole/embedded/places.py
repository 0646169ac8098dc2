"""Where the servers of the demo or of a benchmark are: embedded ones, or empty ones that its command line names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, Protocol

from jobconsole.embedded.folders import EmbeddedError, create_folder, discard, sweep
from queue_core.model.addresses import check_postgres_url, check_redis_url, mask

FAILED, USAGE, UNREACHABLE, REFUSED = 1, 2, 3, 5
"""Exit codes of the command line."""


class DemoError(Exception):
    """The demo cannot run; the message is one sentence a person can act on."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


CONNECT_SECONDS = 5


class ServerNeeds(Protocol):
    """The servers that were asked for; None: an embedded one."""

    @property
    def postgres_url(self) -> str | None:
        """A PostgreSQL whose database must be empty."""
        ...

    @property
    def redis_url(self) -> str | None:
        """A Redis in which the prefix must be empty."""
        ...

    @property
    def prefix(self) -> str:
        """Of all keys in Redis."""
        ...


class ServerPlaces(NamedTuple):
    """Addresses and the folder that goes away with them."""

    postgres_url: str
    redis_url: str
    redis_prefix: str
    # the run's own folder, which the warden removes
    folder: Path


@contextmanager
def open_places(options: ServerNeeds, who: str = "demo") -> Iterator[ServerPlaces]:
    """Start or check the servers, and leave nothing of them behind; `who` is the name used in messages about them.

    Raises:
        DemoError: no server can be started, or one that was named does not answer or is not empty.
    """
    _check_addresses(options)
    with ExitStack() as stack:
        if options.postgres_url and options.redis_url:
            postgres_url, redis_url, folder = options.postgres_url, options.redis_url, own_folder(stack)
        else:
            postgres_url, redis_url, folder = _embedded(stack, who)
        if options.postgres_url:
            postgres_url = options.postgres_url
            check_database(postgres_url, who)
        if options.redis_url:
            redis_url = options.redis_url
            check_prefix(redis_url, options.prefix, who)
        yield ServerPlaces(postgres_url, redis_url, options.prefix, folder)


def _check_addresses(options: ServerNeeds) -> None:
    for name, url, check in (
        ("--postgres-url", options.postgres_url, check_postgres_url),
        ("--redis-url", options.redis_url, check_redis_url),
    ):
        try:
            if url is not None:
                check(url)
        except ValueError as problem:
            raise DemoError(f"{name}: {problem}.", USAGE) from None


def _embedded(stack: ExitStack, who: str) -> tuple[str, str, Path]:
    from jobconsole.embedded.servers import EmbeddedServers

    try:
        servers = stack.enter_context(EmbeddedServers.start(durable=True, redis_appendonly=True))
    except EmbeddedError as problem:
        raise DemoError(str(problem)) from problem
    return servers.postgres_url, servers.redis_url, servers.folder / who


def own_folder(stack: ExitStack) -> Path:
    """Make a locked folder as the embedded servers' are, so that the next start sweeps it should all else fail."""
    try:
        sweep(None)
        made = create_folder(None)
    except EmbeddedError as problem:
        raise DemoError(str(problem)) from problem
    stack.callback(discard, made.path)
    stack.callback(os.close, made.lock)
    return made.path


def check_database(url: str, who: str) -> None:
    """Refuse a database that holds anything."""
    import psycopg

    text = (files("jobconsole.demo") / "queries" / "relations.sql").read_text()
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
            row = connection.execute(text.encode()).fetchone()
    except psycopg.Error as problem:
        raise DemoError(
            f"PostgreSQL at --postgres-url cannot be reached: {_first_line(problem)}.", UNREACHABLE
        ) from None
    count = int(row[0]) if row else 0
    if count:
        raise DemoError(
            f"The database at --postgres-url is not empty ({count} tables and other relations): "
            f"the {who} only runs in an empty one.",
            REFUSED,
        )


def check_prefix(url: str, prefix: str, who: str) -> None:
    """Refuse a prefix under which there are keys."""
    import redis

    try:
        with redis.Redis.from_url(
            url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=CONNECT_SECONDS
        ) as client:
            found = next(client.scan_iter(match=f"{_escaped(prefix)}*", count=1000), None)
    except (redis.RedisError, OSError, ValueError) as problem:
        raise DemoError(f"Redis at --redis-url cannot be reached: {_first_line(problem)}.", UNREACHABLE) from None
    if found is not None:
        raise DemoError(
            f"The Redis at --redis-url holds keys under '{prefix}': the {who} only runs under an empty prefix.",
            REFUSED,
        )


def _escaped(prefix: str) -> str:
    return "".join(f"\\{character}" if character in "*?[]^\\" else character for character in prefix)


def _first_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return mask(lines[0] if lines else type(problem).__name__).rstrip(".")
