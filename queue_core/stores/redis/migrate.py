"""Taking over what an earlier version has stored under a prefix: its keys get their names of today."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from redis.exceptions import RedisError

from queue_core.errors import SchemaEarlier, SchemaNewer
from queue_core.model.settings import RedisSettings
from queue_core.redis.client import make_client
from queue_core.redis.cluster import ClusterClient
from queue_core.redis.scripts import Call
from queue_core.stores.redis.records import entries_of
from queue_core.stores.redis.session import JOBS_PER_SCRIPT, RENAMED_SCHEMA, SCHEMA, RedisLink, chunks, unavailable

OF_QUEUES = {
    "gates": "admitted",
    "turns": "order_wait",
    "causes": "errors",
    "unique_ends": "unique_expires",
    "seen": "last_seen",
}
"""Names of a queue's keys in version 1, and those of today."""
FORGOTTEN = ("gen", "eseq", "admitted")
"""Texts of a queue in version 1 that are made again, under other names."""


class PendingVersions(NamedTuple):
    """What `migrate` would do with what is stored under a prefix."""

    # the version of what is stored; that of a new store where nothing is
    schema: int
    versions: list[int]
    # the prefix, where an earlier version has stored something under it
    earlier: str | None


def pending(settings: RedisSettings) -> PendingVersions:
    """Return what `migrate` would do.

    Raises:
        StoreUnavailable: the server cannot be reached.
        SchemaNewer: a newer version of this program has stored what is there.
    """

    async def read() -> PendingVersions:
        async with _link(settings) as link:
            found = await _version(link)
        return PendingVersions(found, [SCHEMA] if found < SCHEMA else [], settings.prefix if found < SCHEMA else None)

    return asyncio.run(read())


def migrate(settings: RedisSettings) -> list[int]:
    """Take over what an earlier version has stored under the prefix; return the version that was made by it, if any.

    A step at a time; where it is interrupted, nothing is lost, and programs refuse the prefix until it is run again.

    Raises:
        StoreUnavailable: the server cannot be reached.
        SchemaNewer: a newer version of this program has stored what is there.
        SchemaEarlier: workers of the earlier version still run.
    """

    async def run() -> list[int]:
        async with _link(settings) as link:
            if await _version(link) == SCHEMA:
                return []
            await _require_no_workers(link)
            await _rename(link, settings.prefix)
            commands = link.batch()
            commands.set(link.keys.schema, SCHEMA)
            await link.send(commands)
        return [SCHEMA]

    return asyncio.run(run())


def drop(settings: RedisSettings) -> None:
    """Remove all keys of a prefix, after a test or benchmark that had it for itself.

    Raises:
        StoreUnavailable: the server cannot be reached.
    """

    async def run() -> None:
        client = make_client(settings)
        try:
            nodes = (await client.masters()).values() if isinstance(client, ClusterClient) else [client]
            for node in nodes:
                async for key in node.scan_iter(match=_beginning(settings.prefix), count=JOBS_PER_SCRIPT):
                    await node.unlink(key)
        except (RedisError, OSError) as error:
            raise unavailable(error) from error
        finally:
            await client.aclose()
            await client.connection_pool.disconnect()

    asyncio.run(run())


def _beginning(begin: str) -> str:
    """Return the pattern of the keys that begin so."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", begin) + "*"


@asynccontextmanager
async def _link(settings: RedisSettings) -> AsyncIterator[RedisLink]:
    link = RedisLink(settings)
    try:
        yield link
    finally:
        await link.close()


async def _version(link: RedisLink) -> int:
    commands = link.batch()
    commands.get(link.keys.schema)
    (text,) = await link.send(commands)
    found = int(text or SCHEMA)
    if found > SCHEMA:
        raise SchemaNewer(found, SCHEMA)
    return found


async def _require_no_workers(link: RedisLink) -> None:
    """Make sure that no worker of the earlier version goes on with keys that are no longer there."""
    commands = link.batch()
    commands.hgetall(link.keys.workers)
    (entries,) = await link.send(commands)
    _, now = await link.queues_and_time()
    alive = [worker for worker, entry in entries_of(entries).items() if not entry.is_lost(now)]
    if alive:
        raise SchemaEarlier(
            f"workers of an earlier version still run: {', '.join(sorted(alive)[:3])}",
            f"stop all programs of version {RENAMED_SCHEMA}, then migrate again",
        )


async def _rename(link: RedisLink, prefix: str) -> None:
    """Give the keys of version 1 their names of today; what was renamed before stays as it is."""
    named, _ = await link.queues_and_time()
    commands = link.batch()
    commands.hgetall(link.keys.schedules)
    commands.zrange(link.keys.operations, 0, -1)
    schedules, numbers = await link.send(commands)
    of = link.keys.of
    # Events that belong to no queue were counted, too.
    for queue in (*named, ""):
        names = OF_QUEUES | {f"passed:{name}": f"fired:{name}" for name, home in schedules.items() if home == queue}
        pairs = [(of(queue, old), of(queue, new)) for old, new in names.items()]
        await _rename_keys(link, pairs, [of(queue, name) for name in FORGOTTEN])
    await _rename_keys(link, [(f"{prefix}numbers", link.keys.operation_number)], [f"{prefix}gen"])
    operation = link.keys.operation
    await _rename_keys(link, [(operation(int(n), "marks"), operation(int(n), "changed")) for n in numbers])
    begin = f"{prefix}changes:"
    pattern = _beginning(begin)
    cursor = None
    while cursor != 0:
        commands = link.batch()
        commands.scan(int(cursor or 0), match=pattern, count=JOBS_PER_SCRIPT)
        ((cursor, found),) = await link.send(commands)
        ids = [key[len(begin) :] for key in found]
        await _rename_keys(link, list(zip(found, link.keys.operations_of(ids), strict=True)))


async def _rename_keys(link: RedisLink, pairs: Iterable[tuple[str, str]], forgotten: Iterable[str] = ()) -> None:
    """Remove texts, and rename the keys that are there."""
    calls = [Call("remove_text", [key], []) for key in forgotten]
    for part in chunks([*calls, *(Call("rename", pair, []) for pair in pairs)]):
        await link.run_many(part)
