"""As much of an HTTP server as scrapes, probes and event streams need: GET and HEAD of a few paths, all bounded.

One answer a connection. A client that sends or takes nothing is cut off; event streams have places of their own, so
that they cannot keep a scrape or a probe out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import NamedTuple

from queue_core.runtime import end_tasks

_PATIENCE_SECONDS = 5.0
"""Seconds that a client has for its request, for the TLS handshake, and for taking the answer."""
STALL_SECONDS = 30.0
"""Seconds that the reader of a stream may take nothing, before it is cut off."""
_BUFFER_BYTES = 64 << 10
"""Bytes of a stream that wait for its reader in this process, and as many in the kernel."""
_LARGEST_HEAD = 16 << 10
"""Bytes of a request's head; asyncio's reader stops there."""
MAX_REQUESTS = 64
"""Requests that are answered at a time; one more gets status 503 with Retry-After."""
MAX_STREAMS = 64
"""Streams at a time, beside these requests."""


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    # what follows the question mark, as it was sent
    query: str = ""
    # names in lower case
    headers: Mapping[str, str] = {}


Stream = AsyncGenerator[bytes, None]


class Response(NamedTuple):
    """An answer."""

    status: HTTPStatus
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    # further headers
    headers: Mapping[str, str] = {}
    # what follows in place of a body, until it ends or the client goes away
    stream: Stream | None = None


Handler = Callable[[Request], Awaitable[Response]]
Guard = Callable[[Request], Awaitable[Response | None]]
"""Returns the refusal of a request, or None."""


async def _no_guard(request: Request) -> Response | None:
    return None


class _Places:
    """How many requests are answered at a time: each takes a place, once it is read, until its answer was taken."""

    def __init__(self, number: int) -> None:
        self.taken = 0
        self._number = number

    @contextlib.contextmanager
    def one(self) -> Iterator[bool]:
        """Take a place as long as the block runs; yield whether there was one."""
        if self.taken >= self._number:
            yield False
            return
        self.taken += 1
        try:
            yield True
        finally:
            self.taken -= 1


class HttpServer:
    """Serves handlers by path until it is stopped. A path that ends in a slash has those below it, too, save `/`.

    `streams`: the paths that answer with a stream.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        guard: Guard = _no_guard,
        tls: ssl.SSLContext | None = None,
        streams: frozenset[str] = frozenset(),
    ) -> None:
        self._handlers = handlers
        self._guard = guard
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = _Places(MAX_REQUESTS)
        self._streams = _Places(MAX_STREAMS)
        self._streaming = streams

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port (the one that was free, for port 0).

        Raises:
            OSError: the address is in use, or not of this machine.
            ValueError: the host is no name at all.
        """
        handshake = {} if self._tls is None else {"ssl_handshake_timeout": _PATIENCE_SECONDS}
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_LARGEST_HEAD, ssl=self._tls, **handshake
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, and end what is being answered."""
        if self._server is not None:
            self._server.close()
        await end_tasks(*self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, TimeoutError, EOFError, asyncio.CancelledError):
            await self._answered(reader, writer)
        _cut(writer)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            request = await _request(reader)
        places = self._streams if request is not None and request.path in self._streaming else self._requests
        with places.one() as free:
            response = await self._answer(request) if free else _busy()
            head = request is not None and request.method == "HEAD"
            writer.write(_message(response, head))
            if response.stream is None or head:
                await _closed(writer)
            else:
                await _streamed(response.stream, reader, writer)

    async def _answer(self, request: Request | None) -> Response:
        if request is None:
            return plain(HTTPStatus.BAD_REQUEST)
        handler = self._handlers.get(request.path) or self._below(request.path)
        if handler is None:
            known = " ".join(sorted(self._handlers))
            return plain(HTTPStatus.NOT_FOUND, f"404 not found; there are {known}\n")
        if request.method not in {"GET", "HEAD"}:
            return plain(HTTPStatus.METHOD_NOT_ALLOWED)._replace(headers={"Allow": "GET, HEAD"})
        if (refused := await self._guard(request)) is not None:
            return refused
        return await handler(request)

    def _below(self, path: str) -> Handler | None:
        folder, _, name = path.rpartition("/")
        return self._handlers.get(f"{folder}/") if folder and name else None


def why_not_listening(error: OSError | ValueError) -> str:
    """Return why a server cannot listen, by the error of its start, without the address."""
    if not isinstance(error, OSError):
        return "this is no host"
    # asyncio's own text repeats the address; that of a name which cannot be resolved is short.
    if isinstance(error, socket.gaierror) or error.errno is None:
        return str(error.strerror)
    return os.strerror(error.errno)


def _cut(writer: asyncio.StreamWriter) -> None:
    """End a connection, unless it has ended in order; what its client has not taken is dropped, in the kernel, too."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Wait until the client has taken everything, or its time is over."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await writer.drain()
        writer.close()
        await writer.wait_closed()


async def _streamed(stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a stream until it ends, its reader goes away, or takes nothing for too long."""
    writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    sending, gone = asyncio.create_task(_send(stream, writer)), asyncio.create_task(_until_gone(reader))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(sending, gone)


async def _send(stream: Stream, writer: asyncio.StreamWriter) -> None:
    async with contextlib.aclosing(stream) as parts:
        async for part in parts:
            writer.write(part)
            async with asyncio.timeout(STALL_SECONDS):
                await writer.drain()
    await _closed(writer)


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while await reader.read(_LARGEST_HEAD):
        pass


async def _request(reader: asyncio.StreamReader) -> Request | None:
    """Return what was asked, or None when it is not HTTP/1."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        return None
    first, *lines = head.split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return None
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    path, _, query = _local(parts[1]).partition("?")
    return Request(parts[0], path, query, headers)


def _local(target: str) -> str:
    """Return a request's target without the host, which proxies write before it (RFC 9112, 3.2.2)."""
    scheme, found, rest = target.partition("://")
    return f"/{rest.partition('/')[2]}" if found and scheme.lower() in ("http", "https") else target


def plain(status: HTTPStatus, text: str = "") -> Response:
    """Return an answer of one line."""
    return Response(status, (text or f"{status.value} {status.phrase.lower()}\n").encode())


def _busy() -> Response:
    return plain(HTTPStatus.SERVICE_UNAVAILABLE)._replace(headers={"Retry-After": "1"})


def _message(response: Response, head: bool) -> bytes:
    length = [] if response.stream is not None else [f"Content-Length: {len(response.body)}"]
    lines = [
        f"HTTP/1.1 {response.status.value} {response.status.phrase}",
        f"Content-Type: {response.content_type}",
        *length,
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if head else response.body)
