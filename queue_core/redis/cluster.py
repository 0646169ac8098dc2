"""Clients of a Redis Cluster: commands go to the nodes of their keys, each on connections of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import redis
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ResponseError

from queue_core.model.addresses import Host
from queue_core.redis.pipeline import PipelinedConnection
from queue_core.redis.topology import NOWHERE, Topology
from queue_core.runtime import end_tasks

OTHER_NODES_SECONDS = 0.5
"""Seconds that a script's load waits for nodes that do not serve its keys: one of them may be away."""


class ClusterClient(Redis):
    """A client of all nodes; its own connections, for subscriptions, lead to any of them."""

    def __init__(self, topology: Topology, pool: ConnectionPool, make_node: Callable[[Host], Redis]) -> None:
        super().__init__(connection_pool=pool)
        self.topology = topology
        self._make_node = make_node
        self._nodes: dict[Host, Redis] = {}

    def node(self, host: Host) -> Redis:
        """Return the client of a node."""
        if host not in self._nodes:
            node = self._nodes[host] = self._make_node(host)
            node.response_callbacks = self.response_callbacks
        return self._nodes[host]

    async def masters(self) -> dict[Host, Redis]:
        """Return the clients of all nodes that serve slots."""
        if self.topology.doubtful:
            await self.topology.refresh()
        return {host: self.node(host) for host in self.topology.masters}

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command to the node of its key."""
        (answer,) = await self.send([(args, options)], False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def load(self, script: str, keys: Iterable[str]) -> None:
        """Load a script on all nodes; only those of these keys have to be there.

        Raises:
            redis.RedisError, OSError: one of these cannot be reached.
        """
        # A node that has just become a master is the one that lacks it.
        self.topology.doubtful = True
        nodes = await self.masters()
        needed = {await self.topology.owner_of(key) for key in keys}
        loads = {host: asyncio.ensure_future(node.script_load(script)) for host, node in nodes.items()}
        try:
            await asyncio.gather(*(load for host, load in loads.items() if host in needed))
            # A slot on its way is served by another one, too.
            await asyncio.wait(loads.values(), timeout=OTHER_NODES_SECONDS)
        finally:
            await end_tasks(*loads.values())

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return an empty list of commands; a transaction of them holds for each slot."""
        return _ClusterPipeline(self, transaction)

    async def send(self, stack: Sequence[tuple[Sequence[Any], Mapping[str, Any]]], transaction: bool) -> list[Any]:
        """Send commands to the nodes of their keys and return the answers, with errors among them."""

        async def on_node(host: Host, places: list[int], behind_ask: bool) -> list[Any]:
            node: Any = self.node(host)
            if len(places) == 1 and not behind_ask and not transaction:
                args, options = stack[places[0]]
                try:
                    return [await node.execute_command(*args, **options)]
                except ResponseError as error:
                    return [error]
            commands = node.pipeline(transaction=transaction)
            for place in places:
                args, options = stack[place]
                if behind_ask:
                    commands.execute_command("ASKING")
                commands.execute_command(*args, **options)
            answers = await commands.execute(raise_on_error=False)
            return list(answers[1::2] if behind_ask else answers)

        return await self.topology.direct([args for args, _ in stack], on_node, by_slot=transaction)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Disconnect from all nodes; doing it twice is safe.

        Their clients stay: a call that runs meanwhile may connect again, and then the next close ends that.
        """
        for node in list(self._nodes.values()):
            await node.aclose()
            await node.connection_pool.disconnect()
        await super().aclose(close_connection_pool)


class _ClusterPipeline(Pipeline):
    def __init__(self, client: ClusterClient, transaction: bool) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, None)
        self._cluster = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack: Any = self.command_stack
        self.command_stack = []
        answers = await self._cluster.send(stack, bool(self.is_transaction)) if stack else []
        for answer in answers if raise_on_error else ():
            if isinstance(answer, Exception):
                raise answer
        return answers


class ClusterPipelined(PipelinedConnection):
    """A pipelined connection to each node."""

    def __init__(self, topology: Topology, connect: Callable[[Host], AbstractConnection]) -> None:
        super().__init__(lambda: connect(NOWHERE))
        self._topology = topology
        self._connect_to = connect
        self._nodes: dict[Host, PipelinedConnection] = {}

    async def execute(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send commands to the nodes of their keys and return their answers; an error that one answers is one of them.

        Raises:
            redis.RedisError: a node cannot be reached, or was lost: commands may or may not have been run.
        """

        async def on_node(host: Host, places: list[int], behind_ask: bool) -> list[Any]:
            if not behind_ask:
                return await self._on(host).execute([commands[place] for place in places])
            both = [command for place in places for command in (("ASKING",), commands[place])]
            return (await self._on(host).execute(both))[1::2]

        return await self._topology.direct(commands, on_node)

    async def confirm(
        self, commands: Sequence[Sequence[Any]], together: bool, replicas: int, seconds: float
    ) -> list[Any]:
        """Send commands of each slot to its node, and wait until replicas of that one have what they wrote."""

        async def on_node(host: Host, places: list[int], behind_ask: bool) -> list[Any]:
            if behind_ask:
                return [redis.ResponseError("TRYAGAIN the slot is on its way")] * len(places)
            return await self._on(host).confirm([commands[place] for place in places], together, replicas, seconds)

        return await self._topology.direct(commands, on_node, by_slot=together)

    def _on(self, host: Host) -> PipelinedConnection:
        if host not in self._nodes:
            self._nodes[host] = PipelinedConnection(lambda: self._connect_to(host))
            self._nodes[host].prepare = self.prepare
        return self._nodes[host]

    async def close(self) -> None:
        """Disconnect from all nodes; idempotent. What connects again meanwhile is ended by the next close."""
        for node in list(self._nodes.values()):
            await node.close()
