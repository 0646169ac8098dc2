"""The operations path on a database of the test's own."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.read import PostgresInspector
from tests.postgres.operations.filling import Database


@pytest.fixture
async def inspector(postgres_url: str) -> AsyncIterator[PostgresInspector]:
    """An inspector that has not connected yet."""
    opened = PostgresInspector(PostgresSettings(url=postgres_url))
    yield opened
    await opened.close()


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    """A direct way into the same database."""
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        # Pages with rows that are not yet flushed are not marked as visible to all, and then no plan trusts an index.
        await connection.execute("set synchronous_commit = on")
        yield Database(connection)
