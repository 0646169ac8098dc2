"""Ready sets on Redis sorted sets, and workers woken one by one through blocking pops."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from queue_core.delivery.circuit import Circuit
from queue_core.delivery.redis.reaching import within
from queue_core.dispatch import Due, Taken
from queue_core.job import Ready
from queue_core.redis.client import keys_of, make_client
from queue_core.redis.facts import server_facts
from queue_core.redis.scripts import Call, Scripts
from queue_core.settings import RedisSettings

CHUNK = 1000
"""Ids handed to one script: some 0.5 ms of Redis, and below Lua's limit on unpacked arguments."""

STALE = 3600.0
"""Seconds after its time at which a hint is not taken for one any more."""
_OTHER_KEYS = {"eseq": "string", "waiters": "zset"}

_T = TypeVar("_T")

logger = logging.getLogger("queue_core.delivery")


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]


class RedisDispatcher:
    """See queue_core.dispatch.Dispatcher for what each method does.

    `ready` and `hints` name the two sets of a queue. Where the store is in this Redis, too, `pending` is its own set of
    ready jobs, and it needs no hints.
    """

    def __init__(
        self, settings: RedisSettings, circuit: Circuit, ready: str = "pending", hints: str | None = "scheduled"
    ) -> None:
        self._timeout = settings.timeout
        self._circuit = circuit
        self._ready = ready
        self._sets = [ready] if hints is None else [ready, hints]
        self._hints = hints
        self._keys = keys_of(settings)
        self._client = make_client(settings)
        # Blocking pops wait on their own connections, which never hold up a short command.
        self._blocking = make_client(settings, held=True)
        self._scripts = Scripts(self._client, "queue_core.delivery.redis")

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Make these jobs known and wake as many waiting workers; offering again is harmless."""
        groups: dict[str, list[Ready]] = {}
        for job in ready:
            groups.setdefault(job.queue, []).append(job)
        calls: list[Call] = []
        for queue, jobs in groups.items():
            keys = [self._keys.of(queue, name) for name in self._sets]
            calls += [
                Call("offer", keys, [part for job in chunk for part in (job.rank, job.id)]) for chunk in _chunks(jobs)
            ]
        async with within(self._timeout, self._circuit):
            for some in _chunks(calls):
                await self._scripts.run_many(list(some))

    async def schedule(self, due: Sequence[Due]) -> None:
        """Note when these jobs become ready, as a hint for the promoter."""
        if self._hints is None:
            return
        groups: dict[str, dict[str, int]] = {}
        for job in due:
            groups.setdefault(job.queue, {})[job.id] = int(job.due * 1000)
        async with within(self._timeout, self._circuit):
            pipeline = self._client.pipeline(transaction=False)
            for queue, scores in groups.items():
                pipeline.zadd(self._keys.of(queue, self._hints), scores)
            await pipeline.execute()

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
                pipeline = self._client.pipeline(transaction=False)
                for name in self._sets:
                    pipeline.zrem(self._keys.of(queue, name), *chunk)
                await pipeline.execute()

    async def lacking(self, queue: str, head: Sequence[Ready]) -> list[Ready]:
        """Return those of the store's first ready jobs that the ready set does not hold."""
        missing: list[Ready] = []
        async with within(self._timeout, self._circuit):
            for chunk in _chunks(head):
                scores = await self._client.zmscore(self._keys.of(queue, self._ready), [job.id for job in chunk])
                missing += [job for job, score in zip(chunk, scores, strict=True) if score is None]
        return missing

    async def intact(self, queue: str) -> bool:
        """Return False when the ready set may have lost jobs: emptied, restored or failed over since `mark`.

        The marker begins with the run id of the server that it was written on: after a restart or a failover the id is
        another one, after FLUSHALL the marker is gone.
        """
        async with within(self._timeout, self._circuit):
            marker, whole = await self._tidied(queue)
            return whole and isinstance(marker, str) and marker.partition(":")[0] == await self._run_id()

    async def _tidied(self, queue: str) -> tuple[Any, bool]:
        """Return the marker, and whether the ready set is one; remove what would stop delivery, or stay for ever."""
        names = [*self._sets, *_OTHER_KEYS]
        keys = [self._keys.of(queue, name) for name in names]
        pipeline = self._client.pipeline(transaction=False)
        pipeline.get(self._keys.of(queue, "gen"))
        for key in keys:
            pipeline.type(key)
        if self._hints is not None:
            # Left behind by jobs that were cancelled; the clock of this machine may be wrong by less than that.
            pipeline.zremrangebyscore(self._keys.of(queue, self._hints), "-inf", int((time.time() - STALE) * 1000))
        pipeline.get(self._keys.of(queue, "eseq"))
        answers = await pipeline.execute(raise_on_error=False)
        marker, types, number = answers[0], answers[1 : len(keys) + 1], answers[-1]
        strangers = [
            key
            for key, name, type_ in zip(keys, names, types, strict=True)
            if type_ not in {_OTHER_KEYS.get(name, "zset"), "none"}
        ]
        if isinstance(number, str) and not number.isdigit():
            strangers.append(self._keys.of(queue, "eseq"))
        if strangers:
            logger.warning("removed what somebody else wrote into Redis: %s", ", ".join(strangers))
            await self._client.delete(*strangers)
        return marker, keys[0] not in strangers

    async def mark(self, queue: str) -> None:
        """Declare the ready set whole, after a rebuild."""
        async with within(self._timeout, self._circuit):
            marker = f"{await self._run_id()}:{secrets.token_hex(4)}"
            await self._client.set(self._keys.of(queue, "gen"), marker)

    async def _run_id(self) -> str:
        information = await self._client.info("server")
        return str(information["run_id"])

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        start = time.perf_counter()
        async with within(self._timeout):
            await self._client.ping()
        return time.perf_counter() - start

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server; what a server does not tell is None."""
        async with within(self._timeout):
            information = await self._client.info("everything")
            now = await self._client.time()
        return server_facts(information, now)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        for client in (self._client, self._blocking):
            await client.aclose()
            await client.connection_pool.disconnect()
