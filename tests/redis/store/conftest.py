"""The store of mode redis on the session's server, under a prefix of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from queue_core.model.settings import RedisSettings
from queue_core.stores.redis.read import RedisInspector
from queue_core.stores.redis.store import RedisStore
from tests.conformance.modes import redis as opener
from tests.conformance.world import World
from tests.redis.store.stored import Look


@pytest.fixture
async def world(redis_url: str, redis_prefix: str) -> AsyncIterator[World]:
    """The store with a hand on its clock, and nothing in it."""
    world = await opener(f"{redis_url} {redis_prefix}")()
    yield world
    await world.close()


@pytest.fixture
def look(client: Redis, redis_prefix: str) -> Look:
    """Reads everything that is stored."""
    return Look(client, redis_prefix)


@pytest.fixture
async def store(settings: RedisSettings) -> AsyncIterator[RedisStore]:
    """A store of its own."""
    store = RedisStore(settings)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def inspector(settings: RedisSettings) -> AsyncIterator[RedisInspector]:
    """An inspector of its own."""
    inspector = RedisInspector(settings)
    yield inspector
    await inspector.close()
