"""Clients of one Redis server, and the one place where its errors become this package's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from queue_core.delivery.circuit import Circuit
from queue_core.dispatch import DispatchUnavailable
from queue_core.errors import ConfigurationError
from queue_core.settings import RedisSettings


def make_client(settings: RedisSettings, *, blocking: bool = False) -> Redis:
    """Return a client; one for blocking pops and subscriptions has no time limit on answers.

    Raises:
        ConfigurationError: no URL is set.
    """
    if settings.url is None:
        raise ConfigurationError("jobs.redis.url is not set")
    url = settings.url.get_secret_value()
    # A unix socket has no keepalive, and its connection class refuses the word.
    options = {} if url.startswith("unix:") else {"socket_keepalive": True}
    pool: ConnectionPool = ConnectionPool.from_url(
        url,
        decode_responses=True,
        socket_connect_timeout=settings.timeout,
        socket_timeout=None if blocking else settings.timeout,
        retry=Retry(NoBackoff(), 0),
        max_connections=64,
        **options,
    )
    return Redis(connection_pool=pool)


@asynccontextmanager
async def within(seconds: float | None, circuit: Circuit | None = None) -> AsyncIterator[None]:
    """Turn every failure to reach the server, and the end of the time, into DispatchUnavailable.

    With a circuit, the call is refused at once while the server is taken for lost, and its outcome is noted.
    """
    if circuit is not None and not circuit.allows():
        raise DispatchUnavailable(circuit.reason)
    try:
        async with asyncio.timeout(seconds):
            yield
    except (RedisError, OSError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        if circuit is not None:
            circuit.failed(reason)
        raise DispatchUnavailable(reason) from error
    if circuit is not None:
        circuit.worked()
