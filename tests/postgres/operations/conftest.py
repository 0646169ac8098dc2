"""The operations path on a database of the test's own."""

from collections.abc import AsyncIterator

import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.read import PostgresInspector
from tests.postgres.operations.filling import Database, direct


@pytest.fixture
async def inspector(postgres_url: str) -> AsyncIterator[PostgresInspector]:
    """An inspector that has not connected yet."""
    opened = PostgresInspector(PostgresSettings(url=postgres_url))
    yield opened
    await opened.close()


@pytest.fixture
async def operations(postgres_url: str) -> AsyncIterator[PostgresOperations]:
    """The store's changing side, not connected yet."""
    opened = PostgresOperations(PostgresSettings(url=postgres_url))
    yield opened
    await opened.close()


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    """A direct way into the same database."""
    async with direct(postgres_url) as database:
        yield database
