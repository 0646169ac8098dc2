"""A client for a thread outside the event loop that goes the ways of the asynchronous ones: one code for Sentinels and
clusters, whose topology a second one would have to follow in the same way."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future
from typing import Any, TypeVar

import redis
from redis.asyncio import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError

from queue_core.model.addresses import Host
from queue_core.redis.cluster import ClusterClient
from queue_core.runtime import end_tasks
from queue_core.threads import DaemonThreads

T = TypeVar("T")


class ThreadClient(redis.Redis):
    """Waits for answers no longer than its time limit. Its event loop runs on a thread of its own."""

    def __init__(self, client: Redis, timeout: float) -> None:
        # Its own pool connects to nothing: each command goes through the other client.
        super().__init__()
        self._client = client
        self._timeout = timeout
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="redis-heartbeat", daemon=True)
        self._thread.start()

    def owner_of(self, key: str) -> Host | None:
        """Return the node of a cluster that serves a key, as far as is known."""
        return self._client.topology.known_owner(key) if isinstance(self._client, ClusterClient) else None

    def info_of(self, node: Host | None) -> Mapping[str, Any]:
        """Return what a server reports of itself: of a cluster this node, where it is known.

        Raises:
            redis.RedisError: it does not, or not in time.
        """
        if not isinstance(self._client, ClusterClient):
            return self.wait_for(_info(self._client))
        return {} if node is None else self.wait_for(_info(self._client.node(node)))

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command.

        Raises:
            redis.RedisError: the server answers with an error, or does not answer in time.
        """
        return self.wait_for(self._client.execute_command(*args, **options))  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        """Return an empty list of commands."""
        return _ThreadPipeline(self, transaction)

    async def send(self, stack: list[Any], transaction: bool, raise_on_error: bool) -> list[Any]:
        """Run a list of commands."""
        commands = self._client.pipeline(transaction=transaction)
        for args, options in stack:
            commands.execute_command(*args, **options)
        return list(await commands.execute(raise_on_error))

    def wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop and return what it returns."""

        async def limited() -> T:
            async with asyncio.timeout(self._timeout):
                return await what

        try:
            return asyncio.run_coroutine_threadsafe(limited(), self._loop).result(self._timeout * 2)
        except (TimeoutError, concurrent.futures.TimeoutError) as error:
            raise redis.TimeoutError(f"no answer within {self._timeout:g} s") from error

    def close(self) -> None:
        """Disconnect and end the thread; doing it twice is safe."""
        if self._loop.is_closed():
            return

        async def disconnect() -> None:
            await self._client.aclose()
            await self._client.connection_pool.disconnect()
            # Listening to Sentinels ends with the last connection, and a call whose time was over may still be ending.
            await end_tasks(*asyncio.all_tasks() - {asyncio.current_task()})
            await asyncio.sleep(0)  # sockets are closed one round after their connections

        asyncio.run_coroutine_threadsafe(disconnect(), self._loop).result(self._timeout * 2)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(self._timeout)
        if not self._thread.is_alive():
            self._loop.close()


async def _info(client: Redis) -> Mapping[str, Any]:
    found: Mapping[str, Any] = await client.info("server")
    return found


class _ThreadPipeline(Pipeline):
    def __init__(self, client: ThreadClient, transaction: bool) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, None)
        self._client = client

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack, self.command_stack = [(args, options) for args, options in self.command_stack], []
        return self._client.wait_for(self._client.send(stack, bool(self.transaction), raise_on_error))


NODES_AT_ONCE = 64
"""Nodes that are asked at the same time."""


class Nodes:
    """Asks several nodes at the same time, each in a thread of its own. One that hangs holds up the others once."""

    def __init__(self) -> None:
        self._threads: DaemonThreads | None = None
        self._busy: dict[Hashable, Future[Any]] = {}

    def ask(
        self, calls: Mapping[Hashable, Callable[[], Any]], patience: float
    ) -> tuple[dict[Hashable, Any], Exception | None]:
        """Return what these calls by node return, and the first failure.

        When one has answered the others have so many seconds more. A call that takes longer goes on, and what it
        returns is dropped; its node is not asked again until then.
        """
        if self._threads is None:
            self._threads = DaemonThreads(NODES_AT_ONCE, "redis-node")
        free = [node for node in calls if node not in self._busy or self._busy[node].done()]
        asked = {self._threads.submit(calls[node]): node for node in free}
        self._busy |= {node: future for future, node in asked.items()}
        found: dict[Hashable, Any] = {}
        failures: list[Exception] = []
        pending = set(asked)
        while pending:
            done, pending = concurrent.futures.wait(pending, patience if found else None, FIRST_COMPLETED)
            if not done:
                break
            for future in done:
                try:
                    found[asked[future]] = future.result()
                except (RedisError, OSError, concurrent.futures.CancelledError) as error:
                    failures.append(error)
        if not failures and len(found) < len(calls):
            failures.append(redis.TimeoutError("a node has not answered yet"))
        return found, failures[0] if failures else None

    def close(self) -> None:
        """Let the threads end; doing it twice is safe."""
        threads, self._threads = self._threads, None
        self._busy.clear()
        if threads is not None:
            threads.shutdown()
