"""A hand that looks at the server, and the same database through a pooler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.poolers.pooler import PGBOUNCER, pgbouncer
from tests.postgres.traps.hands import Hand

POOL = {"default_pool_size": "80", "max_client_conn": "1000"}
"""Each that is frozen keeps a connection of the pooler for as long as its transaction lasts."""


@pytest.fixture
def hand(postgres_url: str) -> Iterator[Hand]:
    with Hand(postgres_url) as hand:
        yield hand


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    """The same database through PgBouncer in transaction mode, to which the server's connections belong."""
    if PGBOUNCER is None:
        pytest.skip("needs pgbouncer")
    with pgbouncer(postgres_url, **POOL) as url:
        yield url
