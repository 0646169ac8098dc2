"""Connections that ask where they lead to each time: to the primary that Sentinels know, or to a node of a cluster."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import redis
from redis.asyncio.client import PubSub
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from queue_core.model.addresses import Host, RedisAddress, named
from queue_core.redis.primary_changes import PrimaryChanges
from queue_core.runtime import end_tasks

SENTINEL_SHARE = 0.4
"""Part of the time limit of a call that Sentinels have for their answers: the rest is left for the primary."""


GOSSIP_SECONDS = 10.0
"""Seconds within which all Sentinels have heard of a failover that one of them announces; they greet every 2 s."""


class Finder(Protocol):
    """Knows where to connect to now."""

    # whether the server has to be a primary
    primary: bool

    async def find(self) -> Host:
        """Return the address of a server.

        Raises:
            redis.ConnectionError: there is none now.
        """
        ...

    def describe_unreachable(self, host: Host) -> str:
        """Return the beginning of a sentence about a server that was found and cannot be connected to."""
        ...

    def opened(self, writer: asyncio.StreamWriter, host: Host) -> None:
        """Look after a connection that leads to this server."""
        ...

    def note_connection(self, writer: asyncio.StreamWriter, primary: str) -> None:
        """Note which primary a connection leads to."""
        ...

    def closed(self) -> None:
        """Look whether connections are left to look after."""
        ...

    def era(self) -> int:
        """Return a number that grows whenever a primary is replaced, for what this event loop sends."""
        ...

    def watch(self, keys: Iterable[str]) -> None:
        """Let `era` grow for the primaries of these keys."""
        ...

    async def check(self, client: Any) -> None:
        """Ask the primaries of these keys whether they still are, and the same ones.

        Raises:
            redis.RedisError, OSError: one of them does not answer.
        """
        ...


class Following(AbstractConnection):
    """A connection to whichever server its finder names when it connects."""

    def __init__(self, *, finder: Finder, **kwargs: Any) -> None:
        super().__init__(**kwargs, redis_connect_func=_prepare)  # type: ignore[arg-type]
        self.finder = finder

    async def _connect(self) -> None:
        self.host, self.port = host = await self.finder.find()
        try:
            await super()._connect()  # type: ignore[safe-super, no-untyped-call]
        except (OSError, TimeoutError) as error:
            server = self.finder.describe_unreachable(host)
            raise redis.ConnectionError(f"{server}: {error or 'no answer in time'}") from error
        assert self._writer is not None, "the connection is open"
        self.finder.opened(self._writer, host)

    async def disconnect(self, *args: Any, **kwargs: Any) -> None:
        """Close the connection."""
        await super().disconnect(*args, **kwargs)
        self.finder.closed()


async def _prepare(connection: Following) -> None:
    """Prepare a connection as ever, and make sure that it leads to a primary."""
    await connection.on_connect()
    if not connection.finder.primary:
        return
    place = named(connection.host, str(connection.port))
    role, name = await _role_of(connection)
    if role not in ("", "master"):
        raise redis.ConnectionError(f"{place} is a replica: a failover is under way")
    if connection._writer is not None:
        connection.finder.note_connection(connection._writer, name or place)


async def _role_of(connection: Following) -> tuple[str, str]:
    """Return the role of a server and its replication id; each is empty where that is not answered."""
    try:
        await connection.send_command("INFO", "replication", check_health=False)
        found = replication_of(await connection.read_response())
        return found["role"], found.get("master_replid", "")
    except (ResponseError, KeyError):  # not allowed, or the server is loading: its answers to commands show that
        pass
    try:
        await connection.send_command("ROLE", check_health=False)
        answer = await connection.read_response()
    except ResponseError:
        return "", ""
    return str(answer[0]) if isinstance(answer, list) else "", ""


def replication_of(answer: Any) -> Mapping[str, Any]:
    """Return the fields of an answer to INFO."""
    if isinstance(answer, Mapping):
        return answer
    return dict(line.partition(":")[::2] for line in str(answer).splitlines() if ":" in line)


class Sentinels:
    """Asks all Sentinels at once which server is the primary of a name; the answer that most of them give counts."""

    primary = True

    def __init__(
        self, address: RedisAddress, kind: type[AbstractConnection], options: Mapping[str, Any], timeout: float
    ) -> None:
        self._hosts = address.hosts
        self._name = address.name
        # Sentinels that named a primary when they were asked last
        self._answered = 0
        self._kind = kind
        self._primary_changes: WeakKeyDictionary[asyncio.AbstractEventLoop, PrimaryChanges] = WeakKeyDictionary()
        # a primary, its successor, and until when (time.monotonic) Sentinels that have not heard of it are not believed
        self._moved: tuple[Host, Host, float] | None = None
        username, password = address.sentinel_login
        # Of the servers' own options those of TLS count for the Sentinels, too.
        tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
        self._options = login_of(tls | {"username": username, "password": password}, timeout)

    def __str__(self) -> str:
        """The addresses of all Sentinels, for people."""
        return ", ".join(named(host, str(port)) for host, port in self._hosts)

    async def find(self) -> Host:
        """Return the address of the primary.

        Raises:
            redis.ConnectionError: no Sentinel answers, or none of them knows the name.
        """
        answers = await self._ask_all("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name, majority=True)
        votes = Counter((str(one[0]), int(one[1])) for one in answers if isinstance(one, list | tuple) and len(one) > 1)
        self._answered = sum(not isinstance(one, Exception) for one in answers)
        if votes:
            return self._newest(votes.most_common(1)[0][0])
        failures = [one for one in answers if isinstance(one, Exception)]
        if len(failures) == len(answers) and any(demands_login(str(one)) for one in failures):
            raise redis.ConnectionError(
                f"the Sentinels ({self}) demand a password; set sentinel_password in jobs.redis.url"
            )
        if len(failures) == len(answers):
            raise redis.ConnectionError(f"no Sentinel answers ({self}): {failures[0] or type(failures[0]).__name__}")
        raise redis.ConnectionError(f"the Sentinels ({self}) know no primary of the name '{self._name}'")

    def describe_unreachable(self, host: Host) -> str:
        """Return the beginning of a sentence about a primary that cannot be connected to."""
        answer = "Sentinel answers" if len(self._hosts) == 1 else "Sentinels answer"
        known = f"{self._answered} of {len(self._hosts)} {answer}"
        least = len(self._hosts) // 2 + 1
        quorum = "" if self._answered >= least else f", and without {least} of them there is no failover"
        return f"the primary '{self._name}' at {named(host[0], str(host[1]))} is away ({known}{quorum})"

    def _newest(self, host: Host) -> Host:
        if self._moved is None or time.monotonic() > self._moved[2]:
            return host
        return self._moved[1] if host == self._moved[0] else host

    def opened(self, writer: asyncio.StreamWriter, host: Host) -> None:
        """Close a connection when Sentinels announce that this server has a successor."""
        loop = asyncio.get_running_loop()
        changes = self._primary_changes.get(loop)
        if changes is None:
            changes = self._primary_changes[loop] = PrimaryChanges(self._name, self._sentinel, self.find, self._note)
        changes.add(writer, host)

    def note_connection(self, writer: asyncio.StreamWriter, primary: str) -> None:
        """Close the connections to other primaries than this one."""
        self._primary_changes[asyncio.get_running_loop()].note_primary(writer, primary)

    def closed(self) -> None:
        """End listening where no connection is left."""
        changes = self._primary_changes.get(asyncio.get_running_loop())
        if changes is not None:
            changes.stop()

    def era(self) -> int:
        """Return how often connections of this event loop have led to another primary than before."""
        changes = self._primary_changes.get(asyncio.get_running_loop())
        return 0 if changes is None else changes.era

    def watch(self, keys: Iterable[str]) -> None:
        """Do nothing: all keys have one primary."""

    async def check(self, client: Any) -> None:
        """Make sure that the primary is one; a connection that is made for it finds another one.

        Raises:
            redis.RedisError, OSError: it does not answer, or is none any more.
        """
        try:
            found = replication_of(await client.info("replication"))
        except ResponseError:  # not allowed
            await client.ping()
            return
        if found.get("role") == "slave":
            self._primary_changes[asyncio.get_running_loop()].close_connections()
            raise redis.ConnectionError("the primary has become a replica")

    def _sentinel(self, number: int) -> AbstractConnection:
        host, port = self._hosts[number % len(self._hosts)]
        place: dict[str, Any] = {"host": host, "port": port}
        return self._kind(**place, **self._options, protocol=2)

    def _note(self, before: Host, after: Host) -> None:
        self._moved = before, after, time.monotonic() + GOSSIP_SECONDS

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks: how many Sentinels answer, what they find of a quorum, the replicas they see."""
        answers = await self._ask_all("SENTINEL", "CKQUORUM", self._name)
        replicas = await self._ask_all("SENTINEL", "REPLICAS", self._name)
        seen = [one for one in replicas if isinstance(one, list | tuple)]
        refusals = [str(one) for one in answers if isinstance(one, ResponseError)]
        return {
            "name": self._name,
            "sentinels": len(self._hosts),
            "answering": sum(isinstance(one, ResponseError) or not isinstance(one, Exception) for one in answers),
            "quorum": not refusals and any(not isinstance(one, Exception) for one in answers),
            "reason": refusals[0] if refusals else "",
            "replicas": max((sum(_is_up(replica) for replica in one) for one in seen), default=0),
        }

    async def _ask_all(self, *command: str, majority: bool = False) -> Sequence[Any]:
        """Return the answers of the Sentinels, or the errors; `majority`: do not wait for more when most agree."""
        tasks = [asyncio.create_task(self._ask(host, command)) for host in self._hosts]
        try:
            pending = set(tasks)
            while pending:
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                found = [str(task.result()) for task in tasks if task.done() and task.exception() is None]
                if found and majority and Counter(found).most_common(1)[0][1] * 2 > len(tasks):
                    break
            silent = redis.ConnectionError("not waited for")
            return [silent if not task.done() else task.exception() or task.result() for task in tasks]
        finally:
            await end_tasks(*tasks)

    async def _ask(self, host: Host, command: Sequence[str]) -> Any:
        return await ask_once(self._kind, host, self._options, command)


_known: WeakValueDictionary[tuple[int, str, float], Sentinels] = WeakValueDictionary()


def sentinels_of(
    address: RedisAddress, kind: type[AbstractConnection], options: Mapping[str, Any], timeout: float
) -> Sentinels:
    """Return what is known in this process of the Sentinels at an address: all clients listen to them together."""
    key = (os.getpid(), f"{address.url} {address.hosts} {address.name} {address.sentinel_login}", timeout)
    found = _known.get(key)
    if found is None:
        found = _known[key] = Sentinels(address, kind, options, timeout)
    return found


def demands_login(text: str) -> bool:
    """Return whether an error is a server's answer to who has not logged in: to HELLO, or to another command."""
    return _NO_LOGIN.search(text) is not None


_NO_LOGIN = re.compile(r"\bNOAUTH\b|authentication required|client already authenticated", re.IGNORECASE)


def login_of(options: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Return the options of a connection that asks one question about the topology, and must not take long."""
    own = {name: value for name, value in options.items() if name.startswith("ssl_") or name in _LOGIN}
    seconds = timeout * SENTINEL_SHARE
    return own | {"decode_responses": True, "socket_timeout": seconds, "socket_connect_timeout": seconds}


_LOGIN = ("username", "password")


async def ask_once(kind: Callable[..., Any], host: Host, options: Mapping[str, Any], command: Sequence[str]) -> Any:
    """Return a server's answer on a connection of its own.

    Raises:
        redis.RedisError, OSError: it does not answer in time, or with an error.
    """
    connection = kind(host=host[0], port=host[1], **options)
    try:
        await connection.connect()
        await connection.send_command(*command, check_health=False)
        return await connection.read_response()
    finally:
        await connection.disconnect(nowait=True)


PROBE_AFTER = 5.0
"""Seconds without a message after which a subscriber makes sure that its server is there: one that hangs, or that was
cut off together with it, looks like one that has nothing to report."""


async def receive(pubsub: PubSub) -> Any:
    """Return the next message of a subscription, or None; for ever where its server cannot become another one.

    Raises:
        redis.RedisError: the connection was lost, or the server hangs.
    """
    connection: Any = pubsub.connection
    if not isinstance(connection, Following):
        return await pubsub.get_message(timeout=None)
    message = await pubsub.get_message(timeout=PROBE_AFTER)
    if message is None:
        await pubsub.ping()
        message = await pubsub.get_message(timeout=PROBE_AFTER)
        if message is None:
            await connection.disconnect(nowait=True)
            raise redis.ConnectionError("a subscription gets no answer")
    return None if message["type"] == "pong" else message


def _is_up(replica: Any) -> bool:
    """Return whether a Sentinel's report of a replica calls it reachable."""
    fields = dict(zip(replica[::2], replica[1::2], strict=False)) if isinstance(replica, list) else dict(replica)
    flags = str(fields.get("flags", "")).split(",")
    return not {"s_down", "o_down", "disconnected"}.intersection(flags)
