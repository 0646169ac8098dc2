"""Clients of one Redis server."""

from __future__ import annotations

from typing import Any

import redis
from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.retry import Retry as BlockingRetry

from queue_core.errors import ConfigurationError
from queue_core.settings import RedisSettings


def make_client(settings: RedisSettings, *, blocking: bool = False) -> Redis:
    """Return a client; one for blocking pops and subscriptions has no time limit on answers.

    Raises:
        ConfigurationError: no URL is set.
    """
    options = _options(settings, None if blocking else settings.timeout)
    pool: ConnectionPool = ConnectionPool.from_url(
        _url(settings), retry=Retry(NoBackoff(), 0), max_connections=64, **options
    )
    return Redis(connection_pool=pool)


def make_thread_client(settings: RedisSettings, timeout: float) -> redis.Redis:
    """Return a client for a thread outside the event loop; `timeout` in seconds, for connecting and for answers.

    Raises:
        ConfigurationError: no URL is set.
    """
    return redis.Redis.from_url(_url(settings), retry=BlockingRetry(NoBackoff(), 0), **_options(settings, timeout))


def _url(settings: RedisSettings) -> str:
    if settings.url is None:
        raise ConfigurationError("jobs.redis.url is not set")
    return settings.url.get_secret_value()


def _options(settings: RedisSettings, answer: float | None) -> dict[str, Any]:
    # A unix socket has no keepalive, and its connection class refuses the word.
    keepalive = {} if _url(settings).startswith("unix:") else {"socket_keepalive": True}
    return {
        "decode_responses": True,
        # Whatever somebody wrote into the server by hand can be read; it is then simply no job that is known.
        "encoding_errors": "replace",
        "socket_connect_timeout": settings.timeout if answer is None else min(answer, settings.timeout),
        "socket_timeout": answer,
        **keepalive,
    }
