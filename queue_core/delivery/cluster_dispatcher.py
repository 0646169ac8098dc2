"""Delivery through a Redis Cluster: a blocking pop waits on the queues of one slot, so that there is one for each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from queue_core.delivery.redis_dispatcher import IDS_PER_SCRIPT, ReadySetMarkers, RedisDispatcher, as_it_came, is_of
from queue_core.model.addresses import Host
from queue_core.model.job import Ready
from queue_core.model.settings import RedisSettings
from queue_core.ports.delivery import DispatchUnavailable, Nomination
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import address_of, within
from queue_core.redis.cluster import ClusterClient
from queue_core.redis.failover import receive
from queue_core.redis.keys import ClusterKeys
from queue_core.redis.pipeline import PipelinedConnection
from queue_core.redis.scripts import Call, Scripts
from queue_core.redis.topology import slot_of
from queue_core.runtime import end_tasks

logger = logging.getLogger("queue_core.delivery")

MAX_BLOCKING_POPS = 32
"""Blocking pops of one process at a time, a connection each. Queues of more slots are asked when an offer to one of
them is announced, and at the end of each wait."""
SLEEPER_SECONDS, SLEEPER_RENEWAL = 30, 10.0
"""Seconds for which offers to a queue are announced, and after which a worker asks for that again."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0
"""Seconds between two tries to subscribe, doubling."""

_Popped = tuple[str, Sequence[tuple[str, Any]]]
"""A key, and ids with their scores."""


class ClusterReadySetMarkers(ReadySetMarkers):
    """The markers of queues begin with the run id of the node that serves them: another master is another one."""

    _client: ClusterClient

    def __init__(self, client: ClusterClient, scripts: Scripts, keys: ClusterKeys, ready: str) -> None:
        super().__init__(client, scripts, keys, ready)
        # as of the last check
        self._runs: dict[Host, str] = {}
        self._homes: dict[str, Host | None] = {}

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return those of the queues whose ready sets may have lost jobs since they were declared whole."""
        await self._locate(queues)
        return await super().doubtful(queues)

    async def _locate(self, queues: Sequence[str]) -> None:
        owner = self._client.topology.owner_of
        self._homes |= {queue: await owner(self._keys.of(queue, "generation")) for queue in queues}

    async def _check_server(self) -> str:
        nodes = await self._client.masters()
        found = await asyncio.gather(*(self._ask_run(node) for node in nodes.values()))
        self._runs = dict(zip(nodes, found, strict=True))
        marker = " ".join(sorted(self._runs.values()))
        if marker != self._marker:
            self._marker = marker
            self._whole_at.clear()
        await self._check_witnesses()
        return ""

    async def _check_witnesses(self) -> None:
        """Forget what was known of the queues of a node on which the marker of one of them is gone: it was emptied."""
        witnesses = {home: queue for queue in self._whole_at if (home := self._homes.get(queue)) is not None}
        commands = self._client.pipeline(transaction=False)
        for queue in witnesses.values():
            commands.get(self._keys.of(queue, "generation"))
        for (host, _), marker in zip(witnesses.items(), await commands.execute(), strict=True):
            if not is_of(marker, self._runs.get(host)):
                for queue in [queue for queue in self._whole_at if self._homes.get(queue) == host]:
                    del self._whole_at[queue]

    def _run_of(self, queue: str, run: str) -> str:
        home = self._homes.get(queue)
        return "" if home is None else self._runs.get(home, "")

    async def _read_run(self, queues: Sequence[str]) -> str:
        await self._locate(queues)
        homes = {home for queue in queues if (home := self._homes[queue]) is not None}
        for home in homes.difference(self._runs):
            self._runs[home] = await self._ask_run(self._client.node(home))
        return ""


class _Taker(NamedTuple):
    """A call that waits for candidates."""

    queues: frozenset[str]
    future: asyncio.Future[_Popped]


class ClusterDispatcher(RedisDispatcher):
    """See queue_core.ports.delivery.Dispatcher for what each method does."""

    _client: ClusterClient
    _keys: ClusterKeys

    def __init__(
        self, settings: RedisSettings, circuit: CircuitBreaker, pipelined: PipelinedConnection, ready: str = "pending"
    ) -> None:
        super().__init__(settings, circuit, pipelined, ready)
        self._blocking.set_response_callback("ZMPOP", as_it_came)
        # ready sets of one slot -> what waits for them. It goes on when a call has got its candidates elsewhere: the
        # next call relies on it, and what comes meanwhile is put back.
        self._waits: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._takers: list[_Taker] = []
        listening = self._blocking, self._keys.wakeups, self._timeout
        self._wakeups = Wakeups(*listening, self._pop_for_takers, self._announce_sleep)
        # what is being put back
        self._returning: set[asyncio.Task[None]] = set()

    def _reach(self, seconds: float = 0.0) -> AbstractAsyncContextManager[None]:
        """Bound a call in time, beside the seconds that it may wait, and note its outcome."""
        return within(seconds + self._timeout, self._circuit)

    def _make_markers(self) -> ReadySetMarkers:
        return ClusterReadySetMarkers(self._client, self._scripts, self._keys, self._ready)

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Make these jobs known and wake as many waiting workers; offering again is harmless."""
        groups: dict[str, list[Any]] = {}
        for job in ready:
            groups.setdefault(job.queue, []).extend((job.rank, job.id))
        calls = [
            self._offer_call(queue, pairs[start : start + 2 * IDS_PER_SCRIPT])
            for queue, pairs in groups.items()
            for start in range(0, len(pairs), 2 * IDS_PER_SCRIPT)
        ]
        if calls:
            async with self._reach():
                await self._scripts.run_many(calls)

    def _offer_call(self, queue: str, pairs: Sequence[Any]) -> Call:
        keys = [self._keys.of(queue, name) for name in (self._ready, "sleepers")]
        return Call("offer_and_wake", keys, [self._keys.wakeups, queue, *pairs])

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        """Look at the first queue, then at all; when they are empty wait, a blocking pop for each slot."""
        end = time.monotonic() + timeout
        async with self._reach(timeout):
            found = await self._pop_any(queues, limit)
            if found is None and (seconds := end - time.monotonic()) > 0:
                found = await self._wait(queues, limit, seconds)
        if found is None:
            return None
        key, members = found
        if len(members) > limit:
            self._put_back((key, members[limit:]))
        return Nomination(self._keys.queue_of(key, self._ready), [member for member, _ in members[:limit]])

    async def _pop_any(self, queues: Sequence[str], limit: int) -> _Popped | None:
        first = self._keys.of(queues[0], self._ready)
        found = await self._pop(first, limit)
        if found is not None or len(queues) == 1:
            return found
        keys = [self._keys.of(queue, self._ready) for queue in queues[1:]]
        commands = self._client.pipeline(transaction=False)
        for key in keys:
            commands.exists(key)
        there = await commands.execute()
        for key, exists in zip(keys, there, strict=True):
            if exists and (found := await self._pop(key, limit)) is not None:
                return found
        return None

    async def _pop(self, key: str, limit: int) -> _Popped | None:
        found: Any = await self._blocking.zmpop(1, [key], min=True, count=limit)
        return (found[0], found[1]) if found else None

    async def _wait(self, queues: Sequence[str], limit: int, seconds: float) -> _Popped | None:
        taker = _Taker(frozenset(queues), asyncio.get_running_loop().create_future())
        self._takers.append(taker)
        try:
            self._start_waits(queues, limit, seconds)
            done, _ = await asyncio.wait([taker.future], timeout=seconds)
            return taker.future.result() if done else None
        except asyncio.CancelledError:
            if taker.future.done() and taker.future.exception() is None:
                self._put_back(taker.future.result())
            raise
        finally:
            self._takers.remove(taker)
            taker.future.cancel()

    def _start_waits(self, queues: Sequence[str], limit: int, seconds: float) -> None:
        slots: dict[int | None, list[str]] = {}
        for queue in sorted(queues):
            key = self._keys.of(queue, self._ready)
            slots.setdefault(slot_of(("", key)), []).append(key)
        groups = [tuple(keys) for keys in slots.values()]
        for keys in groups[:MAX_BLOCKING_POPS]:
            if keys not in self._waits and len(self._waits) < MAX_BLOCKING_POPS:
                self._waits[keys] = asyncio.create_task(self._wait_on(keys, limit, seconds))
        rest = [self._keys.queue_of(key, self._ready) for keys in groups[MAX_BLOCKING_POPS:] for key in keys]
        if rest:
            self._wakeups.want(rest, limit)

    async def _wait_on(self, keys: tuple[str, ...], limit: int, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds + self._timeout):
                found: Any = await self._blocking.bzmpop(seconds, len(keys), list(keys), min=True, count=limit)
        except (RedisError, OSError, TimeoutError) as error:
            self._fail(error)
        else:
            if found:
                self.give((found[0], found[1]))
        finally:
            self._waits.pop(keys, None)

    def _fail(self, error: Exception) -> None:
        for taker in self._takers:
            if not taker.future.done():
                taker.future.set_exception(error)

    async def _pop_for_takers(self, queue: str, limit: int) -> None:
        """Get candidates of a queue for a call that waits for them."""
        if any(queue in taker.queues and not taker.future.done() for taker in self._takers):
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                async with asyncio.timeout(self._timeout):
                    found = await self._pop(self._keys.of(queue, self._ready), limit)
                if found is not None:
                    self.give(found)

    def give(self, found: _Popped) -> None:
        """Hand candidates to a call that waits for this queue, or put them back."""
        queue = self._keys.queue_of(found[0], self._ready)
        for taker in self._takers:
            if queue in taker.queues and not taker.future.done():
                taker.future.set_result(found)
                return
        self._put_back(found)

    def _put_back(self, found: _Popped) -> None:
        """Return candidates that no call waits for now: other workers must not wait for the audit."""
        task = asyncio.create_task(self._return(found))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(self, found: _Popped) -> None:
        key, members = found
        pairs = [part for member, score in members for part in (_digits(score), member)]
        with contextlib.suppress(DispatchUnavailable):  # the audit finds them
            async with self._reach():
                await self._scripts.run_many([self._offer_call(self._keys.queue_of(key, self._ready), pairs)])

    async def _announce_sleep(self, queues: Sequence[str]) -> None:
        """Have offers to these queues announced for a while."""
        with contextlib.suppress(DispatchUnavailable):  # each wait ends with a look at all queues
            async with self._reach():
                commands = self._client.pipeline(transaction=False)
                for queue in queues:
                    commands.set(self._keys.of(queue, "sleepers"), 1, ex=SLEEPER_SECONDS)
                await commands.execute()

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._wakeups.close()
        await end_tasks(*self._waits.values())
        await asyncio.gather(*self._returning, return_exceptions=True)
        await super().close()


def _digits(score: Any) -> Any:
    """Return a rank as the digits that it had, which are fewer than a float holds."""
    return f"{score:.0f}" if isinstance(score, float) else score


class Wakeups:
    """Messages about offers to queues on which no blocking pop waits: one subscription of a process, on any node."""

    def __init__(
        self,
        client: Redis,
        channel: str,
        timeout: float,
        pop: Callable[[str, int], Awaitable[None]],
        announce: Callable[[Sequence[str]], Coroutine[Any, Any, None]],
    ) -> None:
        self._client = client
        self._channel = channel
        self._timeout = timeout
        # gets so many candidates of a queue for calls that wait
        self._pop = pop
        # has offers to queues announced for a while
        self._announce = announce
        self._limit = 1
        # queue -> time.monotonic until which its offers are announced
        self._asleep: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    def want(self, queues: Sequence[str], limit: int) -> None:
        """Listen for offers to these queues; a message makes the dispatcher ask for so many candidates."""
        self._limit = limit
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        now = time.monotonic()
        due = [queue for queue in queues if self._asleep.get(queue, 0.0) <= now]
        if due and (self._renewing is None or self._renewing.done()):
            self._asleep |= dict.fromkeys(due, now + SLEEPER_RENEWAL)
            self._renewing = asyncio.create_task(self._announce(due))

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            pubsub = self._client.pubsub()
            try:
                async with asyncio.timeout(self._timeout):
                    await pubsub.subscribe(self._channel)
                pause = FIRST_PAUSE
                while True:
                    message = await receive(pubsub)
                    if message is not None and message["type"] == "message":
                        await self._pop(str(message["data"]), self._limit)
            except (RedisError, OSError, TimeoutError) as error:
                logger.debug("announcements of offers are interrupted: %s", error)
            finally:
                await pubsub.aclose()  # type: ignore[no-untyped-call]
            await asyncio.sleep(pause)
            pause = min(MAX_PAUSE, pause * 2)

    async def close(self) -> None:
        """Stop listening; doing it twice is safe."""
        tasks = self._task, self._renewing
        self._task = self._renewing = None
        await end_tasks(*tasks)


def make_dispatcher(
    settings: RedisSettings, circuit: CircuitBreaker, pipelined: PipelinedConnection, ready: str = "pending"
) -> RedisDispatcher:
    """Return the dispatcher for what the URL of the settings names."""
    kind = ClusterDispatcher if address_of(settings).kind == "cluster" else RedisDispatcher
    return kind(settings, circuit, pipelined, ready)
