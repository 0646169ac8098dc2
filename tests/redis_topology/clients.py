"""A client for tests that look and clean up: of one server, or of all nodes of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import redis
from redis.crc import key_slot

from queue_core.model.addresses import redis_address


class PlainCluster:
    """What tests do with keys of several slots, node by node."""

    def __init__(self, client: redis.RedisCluster) -> None:
        self._client = client

    def scan_iter(self, match: str, count: int) -> Iterator[Any]:
        """Yield the keys of all masters."""
        return iter(list(self._client.scan_iter(match, count=count, target_nodes=redis.RedisCluster.PRIMARIES)))

    def unlink(self, *keys: Any) -> None:
        """Remove keys."""
        for key in keys:
            self._client.unlink(key)

    def eval(self, script: str, count: int, *rest: Any) -> None:
        """Run a script on the keys of each slot."""
        slots: dict[int, list[Any]] = {}
        for key in rest[:count]:
            slots.setdefault(key_slot(key if isinstance(key, bytes) else key.encode()), []).append(key)
        for keys in slots.values():
            self._client.eval(script, len(keys), *keys, *rest[count:])


@contextmanager
def _of_cluster(url: str) -> Iterator[Any]:
    with redis.RedisCluster.from_url(redis_address(url).url, socket_timeout=10) as client:
        yield PlainCluster(client)


def plain_client(url: str) -> AbstractContextManager[Any]:
    """Return a client of what the URL names."""
    if url.startswith("redis+cluster:"):
        return _of_cluster(url)
    return redis.Redis.from_url(url, socket_timeout=10)
