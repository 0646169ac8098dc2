"""Queue objects of both modes that have transactions, and the table that handlers write to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings
from tests.postgres.transactions.receipts import Books


@pytest.fixture
def books(postgres_url: str) -> Any:
    books = Books(postgres_url)
    yield books
    books.close()


@pytest.fixture(params=["postgres+redis", "postgres"])
async def jobs(
    request: pytest.FixtureRequest, postgres_url: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[JobQueue]:
    both = request.param == "postgres+redis"
    settings = JobsSettings(
        queue_backend="redis" if both else "postgres",
        postgres=PostgresSettings.model_validate({"url": postgres_url, "pool": 2}),
        redis=RedisSettings.model_validate({"url": redis_url if both else None, "prefix": redis_prefix}),
    )
    async with JobQueue(settings=settings) as opened:
        yield opened
