"""The server under clients that are slow, gone or greedy."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncGenerator
from http import HTTPStatus

import pytest

from jobconsole.web.http import HttpServer, Request, Response
from tests.conformance.working import PATIENCE
from tests.waiting import eventually

LARGE = b"x" * (16 << 20)
"""More than the kernel keeps for a client that takes nothing."""


async def large(request: Request) -> Response:
    return Response(HTTPStatus.OK, LARGE)


def silent(port: int) -> socket.socket:
    """Ask for something, and take nothing of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    return client


async def test_a_scrape_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobconsole.web.http._PATIENCE_SECONDS", 0.2)
    server = HttpServer({"/": large})
    port = await server.start("127.0.0.1", 0)
    clients = [silent(port) for _ in range(3)]
    for client in clients:
        cut = select.poll()
        cut.register(client, 0)
        assert await eventually(lambda: cut.poll(0))  # noqa: B023
        client.close()
    assert await eventually(lambda: server._connections == 0)
    await server.stop()


async def test_the_end_of_the_server_ends_its_streams_in_order() -> None:
    ended = asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"."
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async def stream(request: Request) -> Response:
        return Response(HTTPStatus.OK, stream=parts())

    server = HttpServer({"/": stream})
    reader, writer = await asyncio.open_connection("127.0.0.1", await server.start("127.0.0.1", 0))
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b".."), PATIENCE)
    await server.stop()
    assert ended.is_set()
    writer.close()


async def test_a_reader_that_leaves_ends_its_stream() -> None:
    ended = asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            yield b"."
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def stream(request: Request) -> Response:
        return Response(HTTPStatus.OK, stream=parts())

    server = HttpServer({"/": stream})
    reader, writer = await asyncio.open_connection("127.0.0.1", await server.start("127.0.0.1", 0))
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b"."), PATIENCE)
    writer.close()
    await asyncio.wait_for(ended.wait(), PATIENCE)
    await server.stop()
