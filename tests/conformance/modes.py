"""How each mode is opened, and how time passes in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from queue_core.settings import JobsSettings, PostgresSettings, RedisSettings
from queue_core.stores.memory.inspector import MemoryInspector
from queue_core.stores.memory.store import MemoryStore
from queue_core.testing import FakeClock
from tests.conformance.world import World

QUERIES = Path(__file__).parent / "queries"

Opener = Callable[[], Awaitable[World]]


class PassingClock(FakeClock):
    """No two moments are the same, as in life."""

    def now(self) -> float:
        """Return a moment later than every one before."""
        self.advance(1e-6)
        return super().now()


def memory(_address: str | None) -> Opener:
    """Return what opens the memory mode."""

    clock = PassingClock()
    store = MemoryStore(clock)

    async def advance(seconds: float) -> None:
        clock.advance(seconds)

    async def opened() -> World:
        await store.open()
        return World(store, MemoryInspector(store), advance)

    return opened


def postgres(url: str | None) -> Opener:
    """Return what opens the PostgreSQL store of a migrated database."""
    from queue_core.stores.postgres.inspector import PostgresInspector
    from queue_core.stores.postgres.store import PostgresStore

    async def opened() -> World:
        settings = PostgresSettings(url=url)
        store = PostgresStore(settings)
        await store.open()
        # Claims find nothing before a first leader has made sure that no token comes twice.
        await store.lead("conformance", "conformance", 0)
        return World(store, PostgresInspector(settings), partial(_advance, str(url)))

    return opened


async def _advance(url: str, seconds: float) -> None:
    """Move every stored time back, which is what time passing looks like to a store that asks its own clock."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute((QUERIES / "pass_time.sql").read_bytes())
        await connection.execute((QUERIES / "advance.sql").read_bytes(), {"seconds": seconds})


@contextmanager
def emptied(url: str) -> Iterator[str]:
    """Give an address of a store, and leave the store empty."""
    try:
        yield url
    finally:
        empty(url)


def empty(url: str) -> None:
    """Leave nothing in the database's store."""
    with psycopg.connect(url) as connection:
        connection.execute((QUERIES / "empty.sql").read_bytes())


OPENERS: dict[str, tuple[str | None, Callable[[str | None], Opener]]] = {
    # mode -> the fixture with its address, and its opener
    "memory": (None, memory),
    "postgres": ("empty_store_url", postgres),
}


def settings_of(mode: str, request: pytest.FixtureRequest) -> JobsSettings:
    """Return the settings of a queue object in this mode, with addresses of servers that hold nothing."""
    if mode == "memory":
        return JobsSettings(queue_backend="memory")
    postgres = PostgresSettings(url=request.getfixturevalue("empty_store_url"))
    if mode == "postgres":
        return JobsSettings(queue_backend="postgres", postgres=postgres)
    redis = RedisSettings(url=request.getfixturevalue("redis_url"), prefix=request.getfixturevalue("redis_prefix"))
    return JobsSettings(queue_backend="redis", postgres=postgres, redis=redis)


MODES = ("memory", "postgres", "postgres+redis")
"""What a queue object can be made of: store and delivery."""
