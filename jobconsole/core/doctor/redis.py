"""The checks of `doctor` on the facts about a Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobconsole.core.doctor.checks import CROWDED, Check, Facts, Level, check_schema, skew, some
from jobconsole.format.humanize import exact, plural
from queue_core.model.text import safe

MIN_REDIS = (7, 0)
SLOTS = 16_384
_ROOM = "raise maxmemory, or find what else fills this server"


RIGHTS = "-@all +@read +@write +@pubsub +@scripting +@connection +@transaction -@dangerous +info +time"
"""What a user needs; docs/operating.md has the same."""


def check_redis(facts: Facts, read_only: bool = False) -> list[Check]:
    """Return the findings about Redis; with `read_only`, nothing about the rights of those who write."""
    sentinel = facts.get("sentinel")
    left_out = {_rights} if read_only else set()
    found = [check(facts) for check in _REDIS if check not in left_out]
    return found + ([] if sentinel is None else [_sentinel(sentinel)])


def check_redis_store(facts: Facts, read_only: bool = False) -> list[Check]:
    """Return the findings about a Redis that is the store itself."""
    return [check_schema(facts), *check_redis(facts, read_only)]


def _redis_version(facts: Facts) -> Check:
    version = str(facts["redis_version"] or "unknown")
    text = f"Valkey {facts['version']} (Redis {version})" if facts["version"] else f"Redis {version}"
    numbers = version.split(".")[:2]
    if all(part.isdecimal() for part in numbers) and tuple(map(int, numbers)) < MIN_REDIS:
        return Check("redis version", "fail", text, "upgrade the server to Redis 7.0 or later, or to Valkey")
    return Check("redis version", "ok", text)


def _redis_role(facts: Facts) -> Check:
    role = str(facts["role"])
    most = int(facts["maxmemory"] or 0)
    if most and int(facts["used_memory"] or 0) >= most and facts["maxmemory_policy"] == "noeviction":
        return Check("redis role", "fail", "refuses writes: it is full", _ROOM)
    if role in {"master", "None"}:
        return Check("redis role", "ok", "accepts writes")
    return Check("redis role", "fail", f"a {role}", "connect to the primary server")


def _rights(facts: Facts) -> Check:
    refused = facts["refused"]
    if not refused:
        return Check("redis rights", "ok", "every command can be run")
    text = f"this user may not run {some(sorted(refused))}: {safe(next(iter(refused.values())), 200)}"
    advice = f"give it the keys and channels of jobs.redis.prefix and {RIGHTS} (docs/operating.md, The user of Redis)"
    return Check("redis rights", "fail", text, advice)


def _persistence(facts: Facts) -> Check:
    if not facts["aof_enabled"] and facts.get("backend") == "redis":
        advice = "set 'appendonly yes': without it, a restart of Redis loses all jobs"
        return Check("redis persistence", "fail", "the append-only file is off", advice)
    if not facts["aof_enabled"]:
        advice = "set 'appendonly yes': without it, a restart of Redis costs a rebuild from PostgreSQL (no job is lost)"
        return Check("redis persistence", "warn", "the append-only file is off", advice)
    if facts["appendfsync"] == "no":
        lost = "loses jobs whose enqueue had returned" if facts.get("backend") == "redis" else "costs a rebuild"
        level: Level = "fail" if facts.get("backend") == "redis" else "warn"
        advice = f"set 'appendfsync everysec' (or always): a crash of the machine {lost}"
        return Check("redis persistence", level, "append-only file on, appendfsync no", advice)
    if facts["aof_last_write_status"] not in {None, "ok"}:
        return Check("redis persistence", "fail", "the last write to the append-only file failed", "look at its disk")
    return Check("redis persistence", "ok", "append-only file on")


def _eviction(facts: Facts) -> Check:
    policy = str(facts["maxmemory_policy"])
    evicted = int(facts["evicted_keys"] or 0)
    text = f"{policy}, {plural(evicted, 'key')} evicted" if evicted else policy
    if policy == "noeviction":
        return Check("redis eviction", "ok", text)
    level: Level = "fail" if facts["maxmemory"] else "warn"
    return Check("redis eviction", level, text, "set maxmemory-policy to noeviction: ready sets must not be evicted")


def _memory(facts: Facts) -> Check:
    used, most = int(facts["used_memory"] or 0), int(facts["maxmemory"] or 0)
    text = f"{used / 1048576:.0f} MiB of {most / 1048576:.0f} MiB" if most else f"{used / 1048576:.0f} MiB, no limit"
    if not most or used <= CROWDED * most:
        return Check("redis memory", "ok", text)
    return Check("redis memory", "warn", text, _ROOM)


def _redis_clock(facts: Facts) -> Check:
    return skew("redis clock", facts["clock_skew"])


def _keepalive(facts: Facts) -> Check:
    seconds = facts["tcp_keepalive"]
    if seconds is None:
        return Check("redis keepalive", "ok", "not known: CONFIG GET is not allowed")
    if seconds:
        return Check("redis keepalive", "ok", f"{seconds} s")
    advice = "set tcp-keepalive to 300: a client whose host is gone stays connected, and is handed jobs to start"
    return Check("redis keepalive", "warn", "off", advice)


def _cluster(facts: Facts) -> Check:
    cluster = facts["cluster"]
    if cluster is None:
        return Check("redis cluster", "ok", "none")
    text = f"state {cluster['state']}, {exact(cluster['slots'])} of {exact(SLOTS)} slots served"
    # Without it, the address names one server alone.
    whole = "alone" in cluster
    if cluster["state"] != "ok" or cluster["slots"] < SLOTS:
        where = "a server" if whole else "this server"
        advice = f"assign every slot to {where} (redis-cli --cluster fix), or turn cluster-enabled off"
        return Check("redis cluster", "fail", text, advice)
    if not whole and cluster["servers"] > 1:
        advice = "name it by redis+cluster://, or use a server that holds all slots: keys of another are refused here"
        return Check("redis cluster", "fail", f"{text} by {cluster['servers']} servers", advice)
    if not whole:
        return Check("redis cluster", "ok", text)
    text = f"{text} by {plural(cluster['servers'], 'master')}"
    if cluster["away"]:
        return Check("redis cluster", "fail", f"{text}, {cluster['away']} of them away", "look at the servers")
    if cluster["alone"]:
        advice = "give every master a replica: when it is lost, its queues wait until it is back"
        return Check("redis cluster", "warn", f"{text}, {cluster['alone']} of them without a replica", advice)
    return Check("redis cluster", "ok", f"{text} with replicas")


def _sentinel(found: Facts) -> Check:
    replicas = plural(found["replicas"], "replica")
    answer = "answers" if found["sentinels"] == 1 else "answer"
    text = f"{found['answering']} of {plural(found['sentinels'], 'Sentinel')} of '{found['name']}' {answer}, {replicas}"
    if not found["quorum"]:
        advice = "start the other Sentinels: when the primary is lost, there is no failover"
        return Check("redis sentinel", "fail", f"no quorum: {text}", advice)
    if found["answering"] < found["sentinels"]:
        return Check(
            "redis sentinel", "warn", text, "start the Sentinels that do not answer, or remove their addresses"
        )
    if not found["replicas"]:
        return Check("redis sentinel", "warn", text, "add a replica: there is no server to fail over to")
    return Check("redis sentinel", "ok", f"{text}, with a quorum")


_REDIS: Sequence[Callable[[Facts], Check]] = (
    _redis_version,
    _redis_role,
    _rights,
    _persistence,
    _eviction,
    _memory,
    _redis_clock,
    _keepalive,
    _cluster,
)
