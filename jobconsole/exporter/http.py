"""As much of an HTTP server as a scrape needs: GET and HEAD of a few paths, one answer a connection, all bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

_PATIENCE = 5.0
"""Seconds that a client has for its request, and for taking the answer."""
_LARGEST = 16 << 10
"""Bytes of a request's head; asyncio's reader stops there."""
_MOST = 64
"""Connections at a time; one more gets status 503 with Retry-After."""


class Response(NamedTuple):
    """An answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    # further headers
    headers: Mapping[str, str] = {}


Handler = Callable[[Mapping[str, str]], Awaitable[Response]]
"""Takes the request's headers (names in lower case)."""


class _Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]


class HttpServer:
    """Serves handlers by path until it is stopped."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        self._connections = 0

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port (the one that was free, for port 0).

        Raises:
            OSError: the address is in use, or not of this machine.
        """
        self._server = await asyncio.start_server(self._serve, host, port, limit=_LARGEST)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            async with asyncio.timeout(_PATIENCE):
                request = await _request(reader)
            response = await self._answer(request)
            writer.write(_message(response, head=request is not None and request.method == "HEAD"))
            async with asyncio.timeout(_PATIENCE):
                await writer.drain()
        except (OSError, TimeoutError, EOFError):
            return  # the client went away or is too slow; there is no one to answer
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, request: _Request | None) -> Response:
        if request is None:
            return _plain(HTTPStatus.BAD_REQUEST)
        if request.path not in self._handlers:
            known = " ".join(sorted(self._handlers))
            return _plain(HTTPStatus.NOT_FOUND, f"404 not found; there are {known}\n")
        if request.method not in {"GET", "HEAD"}:
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED)._replace(headers={"Allow": "GET, HEAD"})
        if self._connections > _MOST:
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE)._replace(headers={"Retry-After": "1"})
        return await self._handlers[request.path](request.headers)


async def _request(reader: asyncio.StreamReader) -> _Request | None:
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
    return _Request(parts[0], parts[1].partition("?")[0], headers)


def _plain(status: HTTPStatus, text: str = "") -> Response:
    return Response(status, (text or f"{status.value} {status.phrase.lower()}\n").encode())


def _message(response: Response, head: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status.value} {response.status.phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if head else response.body)
