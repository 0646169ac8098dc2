"""Clients of one Redis server."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import hiredis
import redis
from redis.asyncio import Connection, Redis, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool, ConnectionPool, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError
from redis.retry import Retry as BlockingRetry

from queue_core.errors import ConfigurationError
from queue_core.model.addresses import Host, RedisAddress, named, redis_address
from queue_core.model.settings import RedisSettings
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.cluster import ClusterClient, ClusterPipelined
from queue_core.redis.failover import Finder, Following, demands_login, sentinels_of
from queue_core.redis.keys import ClusterKeys, Keys
from queue_core.redis.pipeline import PipelinedConnection
from queue_core.redis.threads import ThreadClient
from queue_core.redis.topology import topology_of

MAX_CONNECTIONS = 64
"""The most connections of one client for short commands."""
DEFAULT_PORT = "6379"
LOGIN = "it demands a password; set it in jobs.redis.url"
_OF_A_PIPELINE = re.compile(
    r"Command # \d+ \(.*?\) of pipeline caused error: (?:\(['\"])?(.*?)(?:['\"],\))?", re.DOTALL
)
"""What the driver puts around the answer to one of several commands."""
_SCRIPT = re.compile(r" script: [0-9a-f]{40}, on @user_script:\d+\.$")
"""What the server puts behind its answer to a command of a script: which script it was, and at which line."""
_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
"""Parameters of a URL that name files."""


class _WholeCommands(AbstractConnection):
    """Never goes back to its pool with half a command sent: the next caller would read the answer to that one.

    What is closed without waiting is closed at once: what its buffer has left is not sent, and the goodbye of TLS is
    none that an event loop which ends waits for.
    """

    async def connect(self) -> None:
        """Connect, also where the server has closed the connection: the library would send it one more command."""
        if self._writer is not None and (self._writer.transport.is_closing() or self._at_end()):
            await self.disconnect(nowait=True)
        await super().connect()  # type: ignore[no-untyped-call]

    def _at_end(self) -> bool:
        return self._reader is not None and self._reader.at_eof()

    async def disconnect(self, nowait: bool = False, *args: Any, **kwargs: Any) -> None:
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait, *args, **kwargs)

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        try:
            await super().send_packed_command(command, check_health)
        except BaseException as error:  # above all the cancellation at the end of a time limit
            lost = self._writer is None or self._writer.transport.is_closing()
            await self.disconnect(nowait=True)
            # asyncio since Python 3.12 uses what a transport has no more when it is lost.
            if isinstance(error, RuntimeError) or (lost and isinstance(error, (AttributeError, TypeError))):
                raise _closed(error) from error
            raise

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().read_response(*args, **kwargs)
        except RuntimeError as error:
            await self.disconnect(nowait=True)
            raise _closed(error) from error


def _closed(error: Exception) -> redis.ConnectionError:
    """Return what the library raises for a closed connection: to uvloop, using one is an error in the program."""
    return redis.ConnectionError(f"Connection closed: {error}")


class _QuickPacking(AbstractConnection):
    """Packs commands in C, which the library does for its blocking client alone: offers have thousands of arguments."""

    def pack_command(self, *args: Any) -> list[bytes]:
        # A command of two words comes as one argument.
        return [hiredis.pack_command((*args[0].split(), *args[1:]))]


class _Tcp(_WholeCommands, _QuickPacking, Connection):
    pass


class _Tls(_WholeCommands, _QuickPacking, SSLConnection):
    pass


class _Unix(_WholeCommands, _QuickPacking, UnixDomainSocketConnection):
    pass


_CONNECTIONS: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: _Tcp,
    SSLConnection: _Tls,
    UnixDomainSocketConnection: _Unix,
}


class _FollowingTcp(_WholeCommands, _QuickPacking, Following, Connection):
    pass


class _FollowingTls(_WholeCommands, _QuickPacking, Following, SSLConnection):
    pass


_FOLLOWING: dict[type[AbstractConnection], type[AbstractConnection]] = {_Tcp: _FollowingTcp, _Tls: _FollowingTls}


def make_client(settings: RedisSettings, held: bool = False) -> Redis:
    """Return a client that waits for answers without a limit: the caller sets one.

    Calls beyond its connections wait for one. With `held`, callers keep theirs for long, and there is one for each.

    The library's own limit on sending loses cancellations under Python 3.11, whose `wait_for` swallows them.

    Raises:
        ConfigurationError: no URL is set, or one with a parameter that cannot be.
    """
    options = {"retry": Retry(NoBackoff(), 0), "socket_timeout": None, **_options(settings)}
    pool: ConnectionPool
    with _understood():
        if held:
            pool = ConnectionPool.from_url(address_of(settings).url, max_connections=1 << 31, **options)
        else:
            pool = BlockingConnectionPool.from_url(
                address_of(settings).url, max_connections=MAX_CONNECTIONS, timeout=None, **options
            )
        pool.connection_class = _CONNECTIONS[pool.connection_class]
        address, kind = address_of(settings), pool.connection_class
        parts = (address, kind, pool.connection_kwargs, settings.timeout)
        if address.kind == "sentinel":
            _follow(pool, sentinels_of(*parts))
        elif address.kind == "cluster":
            _follow(pool, topology := topology_of(*parts))
            return ClusterClient(topology, pool, lambda host: _node_client(pool, kind, host))
        # Connects to nothing, and looks at each parameter: the pool would do so at the first command.
        pool.connection_class(**pool.connection_kwargs)
    return Redis(connection_pool=pool)


def _follow(pool: ConnectionPool, finder: Finder) -> None:
    """Let the connections of a pool lead to where a finder knows."""
    pool.connection_class = _FOLLOWING[pool.connection_class]
    pool.connection_kwargs["finder"] = finder


def _node_client(pool: ConnectionPool, kind: type[AbstractConnection], host: Host) -> Redis:
    """Return a client of one node of a cluster, whose connections are prepared like those of a pool."""
    options = {name: value for name, value in pool.connection_kwargs.items() if name != "finder"}
    own: dict[str, Any] = {"timeout": None} if isinstance(pool, BlockingConnectionPool) else {}
    node = type(pool)(connection_class=kind, max_connections=pool.max_connections, **own, **options)
    node.connection_kwargs |= {"host": host[0], "port": host[1]}
    return Redis(connection_pool=node)


def make_pipelined(settings: RedisSettings) -> PipelinedConnection:
    """Return a connection for short commands of many callers; on a cluster there is one to each node.

    Raises:
        ConfigurationError: no URL is set, or one with a parameter that cannot be, or a file that cannot be read.
    """
    client = make_client(settings)
    _check_files(settings)
    if not isinstance(client, ClusterClient):
        return PipelinedConnection(lambda: make_connection(settings))

    def connect(host: Host) -> AbstractConnection:
        pool = client.node(host).connection_pool
        return pool.connection_class(**pool.connection_kwargs)

    return ClusterPipelined(client.topology, connect)


def _check_files(settings: RedisSettings) -> None:
    """Make sure that the files are there which the URL names.

    For the start of a program alone: one that is replaced while it runs is missing for a moment.

    Raises:
        ConfigurationError: one of them cannot be read.
    """
    options = parse_url(address_of(settings).url)
    for name in _FILES:
        path = str(options.get(name, ""))
        if path and not os.access(path, os.R_OK):
            problem = "cannot be read" if os.path.lexists(path) else "is not there"
            raise ConfigurationError(f"jobs.redis.url cannot be used: {path}, its {name}, {problem}")


def make_connection(settings: RedisSettings) -> AbstractConnection:
    """Return a connection that is not opened yet, prepared like those of a client.

    Raises:
        ConfigurationError: no URL is set, or one with a parameter that cannot be.
    """
    pool = make_client(settings).connection_pool
    return pool.connection_class(**pool.connection_kwargs)


def make_thread_client(settings: RedisSettings) -> redis.Redis:
    """Return a client for a thread outside the event loop, which waits for answers no longer than the settings allow.

    Raises:
        ConfigurationError: no URL is set, or one with a parameter that cannot be.
    """
    if address_of(settings).kind != "single":
        return ThreadClient(make_client(settings), settings.timeout)
    with _understood():
        return redis.Redis.from_url(
            _url(settings), retry=BlockingRetry(NoBackoff(), 0), socket_timeout=settings.timeout, **_options(settings)
        )


def address_of(settings: RedisSettings) -> RedisAddress:
    """Return what the URL of the settings names."""
    return redis_address(_url(settings))


def keys_of(settings: RedisSettings) -> Keys:
    """Return the keys under the prefix of the settings, and the channels of their database."""
    with _understood():
        address = address_of(settings)
        if address.kind == "cluster":
            return ClusterKeys(settings.prefix)
        return Keys(settings.prefix, int(parse_url(address.url).get("db", 0)))


def place_of(settings: RedisSettings) -> str:
    """Return the server, the database and the prefix of the settings, for people."""
    with _understood():
        address = address_of(settings)
        parts = parse_url(address.url)
    if address.hosts:
        server = ",".join(named(host, str(port)) for host, port in sorted(address.hosts))
        what = f"Sentinels of '{address.name}' at {server}" if address.name else f"cluster of {server}"
        return f"{what}, database {parts.get('db', 0)}, prefix '{settings.prefix}'"
    server = named(parts.get("path") or parts.get("host") or "localhost", str(parts.get("port", "")) or DEFAULT_PORT)
    return f"{server}, database {parts.get('db', 0)}, prefix '{settings.prefix}'"


@contextmanager
def _understood() -> Iterator[None]:
    """Raise, in this package's words, what the driver does not understand of a URL."""
    try:
        yield
    except (AttributeError, TypeError, ValueError, redis.RedisError) as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown:
            problem = f"it has a parameter '{unknown.group(1)}' that is not known"
        elif isinstance(error, AttributeError | TypeError):
            problem = "it has a parameter that only a program can give"
        else:
            problem = str(error).rstrip(".")
        raise ConfigurationError(f"jobs.redis.url cannot be used: {problem}") from None


def _url(settings: RedisSettings) -> str:
    if settings.url is None:
        raise ConfigurationError("jobs.redis.url is not set")
    return settings.url.get_secret_value()


def _options(settings: RedisSettings) -> dict[str, Any]:
    # A unix socket has no keepalive, and its connection class refuses the word.
    keepalive = {} if _url(settings).startswith("unix:") else {"socket_keepalive": True}
    return {
        "decode_responses": True,
        # Whatever was written into the server by hand can be read; it is then simply no job that is known.
        "encoding_errors": "replace",
        "socket_connect_timeout": settings.timeout,
        **keepalive,
    }


LATE_SECONDS = 1.0
"""Seconds by which a time limit ends late where a handler, or whatever stops the process, has held up the loop."""


def reason_of(error: BaseException) -> str:
    """Return an error of the driver in words; what a server without a login answers is a page about its protocol."""
    text = str(error)
    if whole := _OF_A_PIPELINE.fullmatch(text):
        text = whole[1]
    text = _SCRIPT.sub("", text) or type(error).__name__
    return LOGIN if demands_login(text) else text


@asynccontextmanager
async def within(seconds: float | None, circuit: CircuitBreaker | None = None) -> AsyncIterator[None]:
    """Turn every failure to reach the server, and the end of the time, into DispatchUnavailable.

    With a circuit, the call is refused at once while the server is taken for lost, and its outcome is noted.
    """
    if circuit is not None and not circuit.allows():
        raise DispatchUnavailable(circuit.reason)
    era = 0 if circuit is None else circuit.era
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except (RedisError, OSError, TimeoutError) as error:
        late = isinstance(error, TimeoutError) and not str(error) and seconds is not None
        reason = f"no answer within {seconds:g} s" if late else reason_of(error)
        # A key that is not ours is no loss of the server: other queues go on, and the audit has to reach it.
        if circuit is not None and not reason.startswith("WRONGTYPE") and not _overslept(limit):
            circuit.failed(reason, era, "is full" if isinstance(error, OutOfMemoryError) else "lost")
        raise DispatchUnavailable(reason) from error
    if circuit is not None:
        circuit.worked(era)


def _overslept(limit: asyncio.Timeout) -> bool:
    """Return whether a time limit ended late: this process did not go on, and the answer may be there, not read yet."""
    ends = limit.when()
    return limit.expired() and ends is not None and asyncio.get_running_loop().time() - ends > LATE_SECONDS
