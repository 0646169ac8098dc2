"""Ready sets on Redis sorted sets, and workers woken one by one through blocking pops."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from queue_core.delivery.circuit import Circuit
from queue_core.delivery.pairing import Kept
from queue_core.delivery.redis.reaching import within
from queue_core.delivery.redis.wholeness import Wholeness
from queue_core.dispatch import Taken
from queue_core.job import Ready
from queue_core.redis.client import keys_of, make_client, place_of
from queue_core.redis.facts import server_facts
from queue_core.redis.scripts import Call, Scripts
from queue_core.settings import RedisSettings

CHUNK = 1000
"""Ids handed to one script: some 0.5 ms of Redis, and below Lua's limit on unpacked arguments."""

_T = TypeVar("_T")


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]


class RedisDispatcher:
    """See queue_core.dispatch.Dispatcher for what each method does.

    `ready` names the set of a queue's ready jobs. Where the store is in this Redis, too, that is its own set.
    """

    def __init__(self, settings: RedisSettings, circuit: Circuit, ready: str = "pending") -> None:
        self._timeout = settings.timeout
        self._circuit = circuit
        self._ready = ready
        self._keys = keys_of(settings)
        self.place = place_of(settings)
        self._client = make_client(settings)
        # Blocking pops wait on their own connections, which never hold up a short command.
        self._blocking = make_client(settings, held=True)
        self._scripts = Scripts(self._client, "queue_core.delivery.redis")
        self._wholeness = Wholeness(self._client, self._keys, ready)

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Make these jobs known and wake as many waiting workers; offering again is harmless."""
        groups: dict[str, list[Ready]] = {}
        for job in ready:
            groups.setdefault(job.queue, []).append(job)
        calls: list[Call] = []
        for queue, jobs in groups.items():
            keys = [self._keys.of(queue, self._ready)]
            calls += [
                Call("offer", keys, [part for job in chunk for part in (job.rank, job.id)]) for chunk in _chunks(jobs)
            ]
        async with within(self._timeout, self._circuit):
            for some in _chunks(calls):
                await self._scripts.run_many(list(some))

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Taken | None:
        """Wait until one of the queues has candidates, first in the order given, and take up to `limit` of them."""
        keys = [self._keys.of(queue, self._ready) for queue in queues]
        # The server ends the wait; a little more time here for the answer's way.
        async with within(timeout + self._timeout, self._circuit):
            found: Any = await self._blocking.bzmpop(timeout, len(keys), keys, min=True, count=limit)
        if not found:
            return None
        key, members = found
        return Taken(self._keys.queue_of(key, self._ready), [member for member, _ in members])

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Drop candidates that are no longer ready."""
        async with within(self._timeout, self._circuit):
            for chunk in _chunks(ids):
                await self._client.zrem(self._keys.of(queue, self._ready), *chunk)

    async def lacking(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return those of the store's first ready jobs that the ready sets do not hold."""
        groups: dict[str, list[Ready]] = {}
        for job in heads:
            groups.setdefault(job.queue, []).append(job)
        parts = [(queue, chunk) for queue, jobs in groups.items() for chunk in _chunks(jobs)]
        missing: list[Ready] = []
        async with within(self._timeout, self._circuit):
            for some in _chunks(parts):
                commands = self._client.pipeline(transaction=False)
                for queue, chunk in some:
                    commands.zmscore(self._keys.of(queue, self._ready), [job.id for job in chunk])
                for (_, chunk), scores in zip(some, await commands.execute(), strict=True):
                    missing += [job for job, score in zip(chunk, scores, strict=True) if score is None]
        return missing

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return those of the queues whose ready sets may have lost jobs: emptied, restored or failed over."""
        async with within(self._timeout, self._circuit):
            return await self._wholeness.doubtful(queues)

    async def mark(self, queue: str) -> None:
        """Declare the ready set whole, after a rebuild."""
        async with within(self._timeout, self._circuit):
            await self._wholeness.mark(queue)

    async def kept(self, turn: float = 0.0) -> tuple[Kept, bool]:
        """Return what is kept under the prefix about the database, and whether no other process took this turn before.

        `turn` are the seconds for which this process takes it; 0 = not at all.
        """
        keys = self._keys
        async with within(self._timeout, self._circuit):
            commands = self._client.pipeline(transaction=False)
            commands.mget(keys.identity, keys.confirmed, keys.others, keys.beside)
            if turn:
                commands.set(keys.turn, 1, nx=True, px=round(turn * 1000))
            found, *taken = await commands.execute()
        return Kept(*found), taken != [None]

    async def identify(self, identity: str, database: str, seconds: float) -> str:
        """Keep an identity where there is none, return the one that is there, and confirm its database for a while."""
        async with within(self._timeout, self._circuit):
            commands = self._client.pipeline(transaction=False)
            commands.set(self._keys.identity, identity, nx=True)
            commands.get(self._keys.identity)
            found = str((await commands.execute())[1])
            if found == identity:
                await self._client.set(self._keys.confirmed, database, px=round(seconds * 1000))
            return found

    async def intrude(self, database: str, seconds: float) -> None:
        """Say for some seconds that processes of another database use this Redis, too."""
        async with within(self._timeout, self._circuit):
            await self._client.set(self._keys.others, database, px=round(seconds * 1000))

    async def pass_on(self, redis: str, seconds: float) -> None:
        """Say for some seconds that processes of the database use another Redis."""
        async with within(self._timeout, self._circuit):
            await self._client.set(self._keys.beside, redis, px=round(seconds * 1000))

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        start = time.perf_counter()
        async with within(self._timeout):
            await self._client.ping()
        return time.perf_counter() - start

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server; what a server does not tell is None."""
        async with within(self._timeout):
            return await server_facts(self._client)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        for client in (self._client, self._blocking):
            await client.aclose()
            await client.connection_pool.disconnect()
