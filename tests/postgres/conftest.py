"""The transaction of another application, for tests of what waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

Caller = psycopg.AsyncConnection[tuple[Any, ...]]


@pytest.fixture
async def holder(postgres_url: str) -> AsyncIterator[Caller]:
    """The connection of the transaction that others wait for."""
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        yield connection
