"""What servers report about themselves, for `doctor`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from queue_core.redis.cluster import ClusterClient
from queue_core.redis.failover import Sentinels
from queue_core.redis.keys import Keys
from queue_core.redis.rehearsal import find_refused

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


async def server_facts(client: Redis, keys: Keys, store: bool = False) -> dict[str, Any]:
    """Return what a server reports about itself; what it does not report is None.

    `clock_skew` in seconds, its minus ours; `cluster`: None, or the state, the slots that are served by any node, the
    number of servers that serve some, and where all of them are used, how many have no replica or are away;
    `sentinel`: None, or what Sentinels find; tcp_keepalive in seconds; appendfsync; `refused`: what this user may not
    run of what a Redis needs that delivers, or is the `store` as well, with the answers.
    """
    if isinstance(client, ClusterClient):
        return await _of_nodes(client, keys, store)
    information: Mapping[str, Any] = await client.info("everything")
    seconds, microseconds = await client.time()
    skew = seconds + microseconds / 1e6 - time.time()
    keepalive = await _setting(client, "tcp-keepalive")
    finder = client.connection_pool.connection_kwargs.get("finder")
    return {fact: information.get(name) for fact, name in _NAMES.items()} | {
        "clock_skew": skew,
        "tcp_keepalive": None if keepalive is None else int(keepalive),
        "appendfsync": await _setting(client, "appendfsync"),
        "cluster": await _cluster(client) if information.get("cluster_enabled") else None,
        "sentinel": await finder.facts() if isinstance(finder, Sentinels) else None,
        "refused": await find_refused(client, keys, store),
    }


async def _of_nodes(client: ClusterClient, keys: Keys, store: bool) -> dict[str, Any]:
    """Return the facts of the nodes that serve slots, of each fact the worst one."""
    client.topology.doubtful = True
    nodes = await client.masters()
    asked = (server_facts(node, keys, store) for node in nodes.values())
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found = [one for one in answers if not isinstance(one, BaseException)]
    if not found:
        raise next(one for one in answers if isinstance(one, BaseException))
    worst = dict(found[0])
    for name, judge in _WORST.items():
        worst[name] = judge([one[name] for one in found])
    crowded = max(found, key=lambda one: int(one["used_memory"] or 0) / (int(one["maxmemory"] or 0) or 1 << 60))
    worst |= {name: crowded[name] for name in ("used_memory", "maxmemory")}
    states = [one["cluster"] for one in found]
    report = min(states, key=lambda one: (one["state"] == "ok", one["slots"]))
    alone = [host for host, replicas in client.topology.replicas.items() if not replicas]
    return worst | {"cluster": report | {"alone": len(alone), "away": len(answers) - len(found)}}


def _least(values: Sequence[Any]) -> Any:
    return min((one for one in values if one is not None), default=None)


def _other_than(good: str) -> Callable[[Sequence[Any]], Any]:
    return lambda values: next((one for one in values if one not in (good, None)), values[0])


_WORST: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "aof_enabled": _least,
    "aof_last_write_status": _other_than("ok"),
    "maxmemory_policy": _other_than("noeviction"),
    "evicted_keys": lambda values: sum(int(one or 0) for one in values),
    "clock_skew": lambda values: max(values, key=abs),
    "tcp_keepalive": _least,
    "appendfsync": lambda values: "no" if "no" in values else values[0],
    "rdb_last_bgsave_status": _other_than("ok"),
    # users are each node's own
    "refused": lambda values: {name: why for one in values for name, why in one.items()},
}


async def _setting(client: Redis, name: str) -> str | None:
    try:
        found: dict[Any, Any] = await client.config_get(name)
    except ResponseError:
        # Where a provider runs it, this is often forbidden.
        return None
    return found.get(name)


async def _cluster(client: Redis) -> dict[str, Any]:
    info: Mapping[str, Any] = await client.execute_command("CLUSTER INFO")  # type: ignore[no-untyped-call]
    return {
        "state": str(info.get("cluster_state")),
        "slots": int(info.get("cluster_slots_ok", 0)),
        "servers": int(info.get("cluster_size", 0)),
    }
