"""What `doctor` checks about a Redis server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

_NAMES = {
    "version": "valkey_version",
    "redis_version": "redis_version",
    "aof_enabled": "aof_enabled",
    "aof_last_write_status": "aof_last_write_status",
    "maxmemory": "maxmemory",
    "maxmemory_policy": "maxmemory_policy",
    "used_memory": "used_memory",
    "role": "role",
    "evicted_keys": "evicted_keys",
    "connected_clients": "connected_clients",
    "rdb_last_bgsave_status": "rdb_last_bgsave_status",
}


async def server_facts(client: Redis) -> dict[str, Any]:
    """Return what a server tells of itself; what it does not tell is None.

    `clock_skew` in seconds, its minus ours; `cluster`: None, or the state, the slots that are served by anybody, and
    the number of servers that serve some; tcp_keepalive in seconds; appendfsync.
    """
    information: Mapping[str, Any] = await client.info("everything")
    seconds, microseconds = await client.time()
    skew = seconds + microseconds / 1e6 - time.time()
    keepalive = await _setting(client, "tcp-keepalive")
    return {fact: information.get(name) for fact, name in _NAMES.items()} | {
        "clock_skew": skew,
        "tcp_keepalive": None if keepalive is None else int(keepalive),
        "appendfsync": await _setting(client, "appendfsync"),
        "cluster": await _cluster(client) if information.get("cluster_enabled") else None,
    }


async def _setting(client: Redis, name: str) -> str | None:
    try:
        found: dict[Any, Any] = await client.config_get(name)
    except ResponseError:
        # Where a provider runs it, this is often forbidden.
        return None
    return found.get(name)


async def _cluster(client: Redis) -> dict[str, Any]:
    told: Mapping[str, Any] = await client.execute_command("CLUSTER INFO")  # type: ignore[no-untyped-call]
    return {
        "state": str(told.get("cluster_state")),
        "slots": int(told.get("cluster_slots_ok", 0)),
        "servers": int(told.get("cluster_size", 0)),
    }
