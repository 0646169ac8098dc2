"""Delivery on the session's Redis under a prefix of the test's own, and a plain client to look and to meddle with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.delivery.redis_dispatcher import RedisDispatcher
from queue_core.delivery.redis_events import RedisEventBus
from queue_core.model.settings import RedisSettings
from queue_core.ports.store import HeartbeatRequest, JobStore
from queue_core.queue import JobQueue
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import make_pipelined
from tests.conformance.making import worker_beat

Announce = Callable[..., None]


@pytest.fixture
def settings(redis_url: str, redis_prefix: str) -> RedisSettings:
    """A patient client: the machine may be busy, the server is there."""
    return RedisSettings.model_validate({"url": redis_url, "prefix": redis_prefix, "timeout": 30})


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    """A client of nobody's code."""
    async with Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
async def dispatcher(settings: RedisSettings) -> AsyncIterator[RedisDispatcher]:
    """Ready sets under the test's prefix."""
    dispatcher = RedisDispatcher(settings, CircuitBreaker("redis"), make_pipelined(settings))
    yield dispatcher
    await dispatcher.close()


@pytest.fixture
async def bus(settings: RedisSettings) -> AsyncIterator[RedisEventBus]:
    """Events under the test's prefix."""
    bus = RedisEventBus(settings, CircuitBreaker("redis"), make_pipelined(settings))
    yield bus
    await bus.close()


@pytest.fixture
async def jobs(postgres_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[JobQueue]:
    """A queue in mode postgres+redis, whose jobs can be claimed; no worker runs."""
    async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
        await jobs.store.acquire_leadership("sweep", "test", 0)
        yield jobs


def announce(store: JobStore, *types: str, **given: Any) -> HeartbeatRequest:
    """Let a worker that has these types show that it lives; nobody works."""
    beat = worker_beat(types=types, **{"queues": ("default",), "interval": 3600.0} | given)
    heart = store.open_heartbeat()
    heart.renew(beat)
    heart.close()
    return beat
