"""The nodes of a Redis Cluster, the slots they serve, and how commands find the node of their keys.

Every key has its queue in a hash tag, so that a queue is in one slot. Commands on keys of several slots are sent to
each node apart; a transaction holds for each slot. Where a slot is on its way to another node, or its node to a
successor, commands that have done nothing are sent again, for a bounded time.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import redis
from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError, ResponseError

from queue_core.model.addresses import Host, RedisAddress, named
from queue_core.redis.failover import ask_once, login_of, replication_of
from queue_core.runtime import end_tasks

SLOTS = 16_384
NOWHERE: Host = ("", 0)
"""In place of the node of a slot that none serves."""
RETRY_SHARE = 0.75
"""Part of the time limit of a call for which commands are sent again that no node takes now."""
FIRST_PAUSE, MAX_PAUSE = 0.01, 0.2
"""Seconds between two tries, doubling."""
FRESH_SECONDS = 0.2
"""Seconds for which an answer about the slots counts as new."""
_KEYLESS = frozenset({"CLUSTER", "CONFIG", "INFO", "PING", "PUBLISH", "SCRIPT", "TIME", "WAIT"})
_KEY_AT = {"EVAL": 3, "EVALSHA": 3, "BZMPOP": 3, "ZMPOP": 2}
"""Places of the first keys of commands that do not begin with one."""

_REDIRECTION = re.compile(r"\b(MOVED|ASK) \d+ (\S*):(\d+)")
_AGAIN = re.compile(r"\b(TRYAGAIN|CLUSTERDOWN|MASTERDOWN|LOADING|UNBLOCKED)\b")


class Redirection(NamedTuple):
    """Where a command has to be sent instead."""

    host: Host
    # for this once, behind ASKING
    behind_ask: bool


def slot_of(command: Sequence[Any]) -> int | None:
    """Return the slot of a command's first key; None: it has none."""
    word = str(command[0]).upper().partition(" ")[0]
    if word in _KEYLESS:
        return None
    key = command[_KEY_AT.get(word, 1)]
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


def redirection_of(answer: Any, host: Host) -> Redirection | None:
    """Return where to send a command instead that a host has answered so."""
    if isinstance(answer, MovedError | AskError):
        return Redirection((answer.host or host[0], int(answer.port)), isinstance(answer, AskError))
    if isinstance(answer, ResponseError) and (match := _REDIRECTION.search(str(answer))):
        return Redirection((match[2] or host[0], int(match[3])), match[1] == "ASK")
    return None


def has_to_wait(answer: Any) -> bool:
    """Return whether a command has done nothing, and may do something a little later."""
    return isinstance(answer, RedisError) and (
        type(answer).__name__ in {"TryAgainError", "ClusterDownError", "MasterDownError", "BusyLoadingError"}
        or _AGAIN.search(str(answer)) is not None
    )


class Topology:
    """The nodes of a cluster and their slots, as they were last reported.

    All clients of a process share it, in whatever event loop: what one of them learns, the others need not fail for.
    """

    primary = False

    def __init__(
        self, address: RedisAddress, kind: type[AbstractConnection], options: Mapping[str, Any], timeout: float
    ) -> None:
        self._seeds = address.hosts
        self._kind = kind
        self._options = login_of(options, timeout)
        self.timeout = timeout
        self._owners: list[Host | None] = [None] * SLOTS
        self.masters: tuple[Host, ...] = ()
        # of each master
        self.replicas: dict[Host, tuple[Host, ...]] = {}
        # a node did not answer, or has answered that slots have moved
        self.doubtful = True
        self._learned_at = float("-inf")
        self._refreshes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()
        self._away: dict[Host, float] = {}
        # slots whose masters count for the era, and the replication ids that these have had last
        self._watched: set[int] = set()
        self._lineages: dict[Host, str] = {}
        self._era = 0

    def __str__(self) -> str:
        """The addresses of the settings, for people."""
        return ", ".join(named(host, str(port)) for host, port in self._seeds)

    def opened(self, writer: asyncio.StreamWriter, host: Host) -> None:
        """Do nothing: a node that no longer serves a slot answers so."""

    def note_connection(self, writer: asyncio.StreamWriter, primary: str) -> None:
        """Do nothing: the slots decide which nodes count."""

    def closed(self) -> None:
        """Do nothing: nothing is listened to."""

    def era(self) -> int:
        """Return how often a watched slot has got another master, or its master another replication id."""
        return self._era

    def watch(self, keys: Iterable[str]) -> None:
        """Count the masters of these keys."""
        self._watched.update(slot_of(("", key)) or 0 for key in keys)

    async def check(self, client: Any) -> None:
        """Ask the masters of the slots that are watched whether they still are, and the same ones.

        Raises:
            redis.RedisError, OSError: one of them does not answer, or none serves a slot.
        """
        if self.doubtful:
            await self.refresh()
        hosts = list({self._owners[slot] or NOWHERE for slot in self._watched})
        if NOWHERE in hosts:
            self.doubtful = True
            raise redis.ConnectionError(f"the cluster ({self}) is down")
        calls = (client.node(host).info("replication") for host in hosts)
        failures = []
        for host, answer in zip(hosts, await asyncio.gather(*calls, return_exceptions=True), strict=True):
            if isinstance(answer, ResponseError):  # not allowed
                continue
            if isinstance(answer, BaseException):
                failures.append(answer)
                continue
            found = replication_of(answer)
            if found.get("role") == "slave":
                failures.append(redis.ConnectionError(f"the node {named(host[0], str(host[1]))} is a replica"))
            elif self._lineages.setdefault(host, lineage := str(found.get("master_replid"))) != lineage:
                self._lineages[host] = lineage
                self._era += 1
        if failures:
            self.doubtful = True
            await self.refresh()
            raise failures[0]

    async def find(self) -> Host:
        """Return a node that answers, as far as is known.

        Raises:
            redis.ConnectionError: no node answers.
        """
        if self.doubtful:
            await self.refresh()
        known = self.masters or self._seeds
        good = [host for host in known if host not in self._away] or list(known)
        return random.choice(good)

    async def owner_of(self, key: str) -> Host | None:
        """Return the node that serves a key; None: no node does."""
        return await self.owner(slot_of(("", key)) or 0)

    def known_owner(self, key: str) -> Host | None:
        """Return the node that serves a key, as it was last reported."""
        return self._owners[slot_of(("", key)) or 0]

    def describe_unreachable(self, host: Host) -> str:
        """Return the beginning of a sentence about a node that cannot be connected to; others are tried first."""
        self._away[host] = time.monotonic()
        self.doubtful = True
        return f"the node {named(host[0], str(host[1]))} of the cluster is away"

    def moved(self, slot: int, host: Host) -> None:
        """Note that a slot is served by another node; the other slots are asked for."""
        before, self._owners[slot] = self._owners[slot], host
        # Behind the change: what is sent from now on reaches the new one.
        self._era += slot in self._watched and before != host
        self.doubtful = True

    async def owner(self, slot: int) -> Host | None:
        """Return the node that serves a slot; None: no node does."""
        if self.doubtful:
            await self.refresh()
        return self._owners[slot]

    async def refresh(self) -> None:
        """Ask for the slots, unless that has just been done; callers at the same time share one answer.

        Raises:
            redis.ConnectionError: no node answers.
        """
        loop = asyncio.get_running_loop()
        task = self._refreshes.get(loop)
        if task is None or task.done():
            if time.monotonic() - self._learned_at < FRESH_SECONDS:
                return
            task = self._refreshes[loop] = asyncio.create_task(self._refresh())
        await asyncio.shield(task)

    async def _refresh(self) -> None:
        hosts = list(dict.fromkeys([*self.masters, *sum(self.replicas.values(), ()), *self._seeds]))
        tasks = {asyncio.create_task(self._ask(host)): host for host in hosts}
        failures: list[BaseException] = []
        try:
            pending = set(tasks)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if (error := task.exception()) is None:
                        self._learn(task.result(), tasks[task])
                        return
                    failures.append(error)
            raise redis.ConnectionError(f"no node of the cluster answers ({self}): {failures[0] or 'in time'}")
        finally:
            await end_tasks(*tasks)

    async def _ask(self, host: Host) -> Any:
        return await ask_once(self._kind, host, self._options, ("CLUSTER", "SLOTS"))

    def _learn(self, rows: Sequence[Any], asked: Host) -> None:
        owners: list[Host | None] = [None] * SLOTS
        masters: dict[Host, None] = {}
        replicas: dict[Host, tuple[Host, ...]] = {}
        for first, last, *nodes in rows:
            hosts = [(str(node[0]) if node[0] not in (None, "", "?") else asked[0], int(node[1])) for node in nodes]
            masters[hosts[0]] = None
            replicas[hosts[0]] = tuple(hosts[1:])
            owners[int(first) : int(last) + 1] = [hosts[0]] * (int(last) + 1 - int(first))
        before, self._owners = self._owners, owners
        self._era += any(before[slot] != owners[slot] for slot in self._watched)
        self.masters, self.replicas = tuple(masters), replicas
        self._learned_at = now = time.monotonic()
        self._away = {host: at for host, at in self._away.items() if now - at < self.timeout}
        self.doubtful = bool(self._away.keys() & masters.keys()) or not masters

    async def direct(
        self, commands: Sequence[Sequence[Any]], send: Callable[[Host, list[int], bool], Awaitable[list[Any]]],
        by_slot: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Send commands to the nodes of their keys, and again where those have moved; return the answers.

        `send` sends those at some places to a node, behind ASKING if so, and returns answers with errors among them.
        Those of one node, or with `by_slot` of one slot, are sent together. What has no key goes to any node.

        Raises:
            redis.ConnectionError: a node is away, or none serves a slot.
        """
        sending = _Sending(commands, by_slot)
        until, pause = float("inf"), FIRST_PAUSE
        while True:
            groups = await sending.groups(self)
            waits = sending.take(groups, await self._send_groups(groups, send), self)
            if not sending.left:
                return sending.answers
            # Not from the start: a blocking command may have waited for long before its slot went away.
            until = min(until, time.monotonic() + self.timeout * RETRY_SHARE)
            if time.monotonic() > until:
                error = sending.answers[sending.left[0]]
                text = re.sub(r"^CLUSTERDOWN ", "", str(error))
                raise redis.ConnectionError(f"the cluster ({self}) is down: {text}") from error
            if waits:
                self.doubtful = True
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(MAX_PAUSE, pause * 2)

    async def _send_groups(
        self,
        groups: Mapping[_Group, list[int]],
        send: Callable[[Host, list[int], bool], Awaitable[list[Any]]],
    ) -> dict[int, list[Any]]:
        """Return the answers of each group by its first place."""

        async def sent(host: Host, places: list[int], behind_ask: bool) -> list[Any]:
            if host == NOWHERE:
                return [redis.ResponseError("CLUSTERDOWN no node serves a slot of these keys")] * len(places)
            try:
                return await send(host, places, behind_ask)
            except ResponseError as error:
                # Of a transaction: nothing of it was done.
                return [error] * len(places)
            except (RedisError, OSError) as error:
                self.doubtful = True
                place = named(host[0], str(host[1]))
                raise redis.ConnectionError(f"the node {place} of the cluster ({self}) is away: {error}") from error
            except asyncio.CancelledError:
                self.doubtful = True
                raise

        calls = [sent(host, places, behind_ask) for (host, behind_ask, _), places in groups.items()]
        if len(calls) == 1:
            found = [await calls[0]]
        else:
            done = await asyncio.gather(*calls, return_exceptions=True)
            for one in done:
                if isinstance(one, BaseException):
                    raise one
            found = [one for one in done if not isinstance(one, BaseException)]
        return {places[0]: answers for places, answers in zip(groups.values(), found, strict=True)}


_Group = tuple[Host, bool, int | None]
"""A node, whether behind ASKING, and where commands of one slot are sent together that slot."""


class _Sending:
    """Commands on their way, some of them for the second time."""

    def __init__(self, commands: Sequence[Sequence[Any]], by_slot: bool) -> None:
        self._slots = [slot_of(command) for command in commands]
        self._by_slot = by_slot
        self._sent_to: dict[int, Redirection] = {}
        self.answers: list[Any] = [None] * len(commands)
        # the places of those that have to be sent
        self.left = list(range(len(commands)))

    async def groups(self, topology: Topology) -> dict[_Group, list[int]]:
        """Return the places of what is to be sent now, by node."""
        groups: dict[_Group, list[int]] = {}
        for place in self.left:
            slot, target = self._slots[place], self._sent_to.pop(place, None)
            if target is None:
                host = await (topology.find() if slot is None else topology.owner(slot))
                target = Redirection(host or NOWHERE, False)
            groups.setdefault((*target, slot if self._by_slot else None), []).append(place)
        return groups

    def take(
        self, groups: Mapping[_Group, Sequence[int]], found: Mapping[int, Sequence[Any]], topology: Topology
    ) -> bool:
        """Take the answers; return whether some of what is sent again has to wait a little."""
        self.left, waits = [], False
        for (host, _, _), places in groups.items():
            for place, answer in zip(places, found[places[0]], strict=True):
                self.answers[place], slot = answer, self._slots[place]
                target = redirection_of(answer, host)
                if target is not None:
                    self._sent_to[place] = target
                    if slot is not None and not target.behind_ask:
                        topology.moved(slot, target.host)
                wait = target is None and has_to_wait(answer)
                waits = waits or wait
                if target is not None or wait:
                    self.left.append(place)
        return waits


_known: WeakValueDictionary[tuple[str, float], Topology] = WeakValueDictionary()


def topology_of(
    address: RedisAddress, kind: type[AbstractConnection], options: Mapping[str, Any], timeout: float
) -> Topology:
    """Return what is known in this process of the cluster at an address."""
    key = (f"{address.url} {address.hosts}", timeout)
    found = _known.get(key)
    if found is None:
        found = _known[key] = Topology(address, kind, options, timeout)
    return found
