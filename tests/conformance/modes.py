"""How each mode is opened, and how time passes in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from queue_core.model.rules import Rules
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings, RetentionSettings, SqliteSettings
from queue_core.stores.memory.operations import MemoryOperations
from queue_core.stores.memory.read import MemoryInspector
from queue_core.stores.memory.schedules import MemorySchedules
from queue_core.stores.memory.store import MemoryStore
from queue_core.testing import FakeClock
from tests import emptying
from tests.conformance.world import World
from tests.redis_topology.clients import plain_client

QUERIES = Path(__file__).parent / "queries"


class Opener(Protocol):
    """Opens the store and the inspector of a mode."""

    def __call__(self, rules: Rules | None = None, retention: RetentionSettings | None = None) -> Awaitable[World]:
        """Return another link to the same store, for which queues have these rules, and jobs this retention."""
        ...


class PassingClock(FakeClock):
    """No two moments are the same, as in life."""

    def now(self) -> float:
        """Return a moment later than every one before."""
        self.advance(1e-6)
        return super().now()

    def turn(self, seconds: float) -> None:
        """Let so much time pass, or be set back by as much as that is below 0."""
        if seconds < 0:
            self.set_back(-seconds)
        else:
            self.advance(seconds)


def memory(_address: str | None) -> Opener:
    """Return what opens the memory mode."""

    clock = PassingClock()
    store = MemoryStore(clock)

    async def advance(seconds: float) -> None:
        clock.turn(seconds)

    async def opened(rules: Rules | None = None, retention: RetentionSettings | None = None) -> World:
        store.state.rules, store.state.retention = rules or {}, retention or RetentionSettings()
        await store.open()
        return World(store, MemoryInspector(store), advance, MemorySchedules(store), MemoryOperations(store))

    return opened


def nowhere(url: str) -> str:
    """Return the address with a search_path on which there is nothing: the store names its schema itself."""
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D"


def postgres(url: str | None) -> Opener:
    """Return what opens the PostgreSQL store of a migrated database."""
    from queue_core.stores.postgres.operations import PostgresOperations
    from queue_core.stores.postgres.read import PostgresInspector
    from queue_core.stores.postgres.schedules import PostgresSchedules
    from queue_core.stores.postgres.store import PostgresStore

    async def opened(rules: Rules | None = None, retention: RetentionSettings | None = None) -> World:
        settings = PostgresSettings(url=nowhere(str(url)))
        store = PostgresStore(settings, rules=rules, retention=retention)
        await store.open()
        # Claims find nothing before a first leader has made sure that no token comes twice.
        await store.acquire_leadership("conformance", "conformance", 0)
        schedules = PostgresSchedules(settings, store)
        operations = PostgresOperations(settings, rules)
        inspector = PostgresInspector(settings, rules=rules)
        world = World(store, inspector, partial(_advance, str(url)), schedules, operations)
        world.beside = partial(_history_too, store)
        return world

    return opened


def sqlite(path: str | None) -> Opener:
    """Return what opens the SQLite store of a file."""
    from queue_core.stores.sqlite.operations import SqliteOperations
    from queue_core.stores.sqlite.read import SqliteInspector
    from queue_core.stores.sqlite.schedules import SqliteSchedules
    from queue_core.stores.sqlite.session import SqliteFile
    from queue_core.stores.sqlite.store import SqliteStore

    clock = PassingClock()

    async def advance(seconds: float) -> None:
        clock.turn(seconds)

    async def opened(rules: Rules | None = None, retention: RetentionSettings | None = None) -> World:
        file = SqliteFile(SqliteSettings(path=str(path)), clock)
        store = SqliteStore(file, retention, rules)
        await store.open()
        schedules, operations = SqliteSchedules(file, rules), SqliteOperations(file, rules)
        return World(store, SqliteInspector(file), advance, schedules, operations)

    return opened


def redis(address: str | None) -> Opener:
    """Return what opens the store under a prefix of a Redis."""
    from queue_core.stores.redis.operations.store import RedisOperations
    from queue_core.stores.redis.read import RedisInspector
    from queue_core.stores.redis.schedules import RedisSchedules
    from queue_core.stores.redis.store import RedisStore

    url, _, prefix = str(address).partition(" ")
    settings = RedisSettings(url=url, prefix=prefix)
    stores: list[RedisStore] = []

    async def advance(seconds: float) -> None:
        for store in stores:
            # What they know of times, they know by a clock that does not pass.
            store._hints.forget()
            store._upkeep._agenda._next.clear()
        scripts = [(QUERIES / name).read_text(encoding="utf-8") for name in ("pass_time_jobs.lua", "pass_time.lua")]
        with plain_client(url) as client:
            for script in scripts:
                client.eval(script, *_keys(client, prefix), round(seconds * 1_000_000))

    async def opened(rules: Rules | None = None, retention: RetentionSettings | None = None) -> World:
        store = RedisStore(settings, retention, rules)
        await store.open()
        stores.append(store)
        schedules, operations = RedisSchedules(settings, rules), RedisOperations(settings, rules)
        return World(store, RedisInspector(settings, rules=rules), advance, schedules, operations)

    return opened


def _keys(client: Any, prefix: str) -> tuple[Any, ...]:
    keys = list(client.scan_iter(f"{prefix}*", count=10_000))
    return len(keys), *keys


async def _history_too(store: Any) -> None:
    """Wait until days of the history are dropped, and do what follows from it in the next round."""
    await store._upkeep.history.idle()
    await store._upkeep.prune()


async def _advance(url: str, seconds: float) -> None:
    """Move every stored time back, which is what time passing looks like to a store that asks its own clock."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute((QUERIES / "pass_time.sql").read_bytes())
        await connection.execute((QUERIES / "advance.sql").read_bytes(), {"seconds": seconds})


def empty(url: str) -> None:
    """Leave nothing in the database's store, under the prefix of a Redis, or of the file."""
    if "://" not in url:
        emptying.new_file(Path(url))
        return
    if " " in url:
        url, _, prefix = url.partition(" ")
        with plain_client(url) as client:
            client.unlink(*_keys(client, prefix)[1:])
        return
    emptying.empty(url)


OPENERS: dict[str, tuple[str | None, Callable[[str | None], Opener]]] = {
    # mode -> the fixture with its address, and its opener
    "memory": (None, memory),
    "postgres": ("empty_store_url", postgres),
    "sqlite": ("sqlite_path", sqlite),
    "redis": ("redis_address", redis),
}


def settings_of(mode: str, request: pytest.FixtureRequest) -> JobsSettings:
    """Return the settings of a queue object in this mode, with addresses of servers that hold nothing."""
    if mode == "memory":
        return JobsSettings(queue_backend="memory")
    if mode == "sqlite":
        return JobsSettings(queue_backend="sqlite", sqlite=SqliteSettings(path=request.getfixturevalue("sqlite_path")))
    redis = RedisSettings(url=request.getfixturevalue("redis_url"), prefix=request.getfixturevalue("redis_prefix"))
    if mode == "redis":
        return JobsSettings(queue_backend="redis", redis=redis)
    postgres = PostgresSettings(url=nowhere(request.getfixturevalue("empty_workers_url")))
    if mode == "postgres":
        return JobsSettings(queue_backend="postgres", postgres=postgres)
    return JobsSettings(queue_backend="redis", postgres=postgres, redis=redis)


MODES = ("memory", "postgres", "postgres+redis", "sqlite", "redis")
"""What a queue object can be made of: store and delivery."""
