"""The commands that a user of Redis needs, and a rehearsal that finds those which the server refuses to this one.

They are sent between MULTI and DISCARD: the server checks rights as it queues each command, and runs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoPermissionError, ResponseError

from queue_core.redis.keys import Keys

DELIVERY: Mapping[str, int] = {
    "DEL": 0, "EXISTS": 0, "GET": 0, "INCR": 0, "INCRBY": 1, "MGET": 0, "PEXPIRE": 1, "PTTL": 0, "SET": 1, "TYPE": 0,
    "ZADD": 2, "ZMSCORE": 1, "ZREM": 1, "ZREMRANGEBYSCORE": 2,
}  # fmt: skip
"""Commands on a key that delivery needs, and how many other arguments each has at least."""
STORE: Mapping[str, int] = {
    **DELIVERY,
    "EXPIRE": 1, "GETRANGE": 2, "HDEL": 1, "HEXISTS": 1, "HGET": 1, "HGETALL": 0, "HINCRBY": 2, "HKEYS": 0, "HLEN": 0,
    "HMGET": 1, "HSET": 2, "HSETNX": 2, "HSTRLEN": 1, "HVALS": 0, "LINDEX": 1, "LLEN": 0, "LPOP": 0, "LRANGE": 2,
    "LTRIM": 2, "RENAME": 1, "RPUSH": 1, "SADD": 1, "SETNX": 1, "SETRANGE": 2, "SISMEMBER": 1, "SMEMBERS": 0, "SREM": 1,
    "STRLEN": 0, "UNLINK": 0, "ZCARD": 0, "ZCOUNT": 2, "ZLEXCOUNT": 2, "ZPOPMIN": 0, "ZRANGE": 2, "ZRANGEBYSCORE": 2,
    "ZREMRANGEBYRANK": 2, "ZREVRANGEBYSCORE": 2, "ZSCORE": 1,
}  # fmt: skip
"""The same for a Redis that is the store as well."""
Command = tuple[str | int, ...]


def commands_of(keys: Keys, store: bool) -> list[Command]:
    """Return each command once, on a key that is never there; `store`: this Redis is the store as well."""
    key = keys.probe
    channels = [keys.events, keys.done("", "probe"), *([keys.notifications] if store else [])]
    # It does not matter what the others are, since none of these is run.
    on_keys = [(name, *[key] * (1 + others)) for name, others in (STORE if store else DELIVERY).items()]
    return [
        *on_keys,
        ("BZMPOP", 1, 1, key, "MIN"),
        ("EVALSHA", "0" * 40, 1, key),
        ("SCRIPT", "LOAD", ""),
        ("SUBSCRIBE", *channels),
        ("UNSUBSCRIBE", *channels),
        ("PUBSUB", "NUMSUB", *channels),
        *(("PUBLISH", channel, "") for channel in channels),
        ("PING",),
        ("TIME",),
        *([("EVAL", "", 1, key)] if store else []),
    ]


async def find_refused(client: Redis, keys: Keys, store: bool) -> dict[str, str]:
    """Return the commands that the user of a client may not run, or not on our keys and channels: name to answer.

    Raises:
        RedisError: the server cannot be reached.
    """
    pool = client.connection_pool
    connection = pool.connection_class(**pool.connection_kwargs)
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        refused, queues = await _ask(connection, [("MULTI",)])
        if queues:  # else each of these would be run
            refused |= (await _ask(connection, [*commands_of(keys, store), ("DISCARD",)]))[0]
        return refused
    finally:
        await connection.disconnect(nowait=True)


async def _ask(connection: AbstractConnection, commands: Sequence[Command]) -> tuple[dict[str, str], bool]:
    """Send commands; return those that the user may not run, and whether all were taken."""
    for command in commands:
        await connection.send_command(*command)
    refused: dict[str, str] = {}
    taken = True
    for command in commands:
        try:
            await connection.read_response()
        except NoPermissionError as error:
            refused[str(command[0]).lower()] = str(error)
            taken = False
        except ResponseError:  # of a server that is full, or a replica, which are findings of their own
            taken = False
    return refused, taken
