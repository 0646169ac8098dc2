"""How each mode is opened, and how time passes in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import psycopg

from queue_core.settings import PostgresSettings
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


OPENERS: dict[str, tuple[str | None, Callable[[str | None], Opener]]] = {
    # mode -> the fixture with its address, and its opener
    "memory": (None, memory),
    "postgres": ("postgres_url", postgres),
}
