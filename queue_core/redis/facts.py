"""What `doctor` checks about a Redis server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

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


def server_facts(information: Mapping[str, Any], now: tuple[int, int]) -> dict[str, Any]:
    """Return what INFO and TIME tell; what a server does not tell is None. `clock_skew` in seconds, its minus ours."""
    seconds, microseconds = now
    return {fact: information.get(name) for fact, name in _NAMES.items()} | {
        "clock_skew": seconds + microseconds / 1e6 - time.time()
    }
