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
    assert await eventually(lambda: server._requests.taken == 0)
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


class Held:
    """A server whose answers wait until they may go; `/events` is a stream."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = 0
        handlers = {"/": self.page, "/events": self.events}
        self.server = HttpServer(handlers, streams=frozenset({"/events"}))

    async def page(self, request: Request) -> Response:
        self.asked += 1
        await self.go.wait()
        return Response(HTTPStatus.OK, b"page")

    async def events(self, request: Request) -> Response:
        self.asked += 1
        return Response(HTTPStatus.OK, stream=self.parts())

    async def parts(self) -> AsyncGenerator[bytes, None]:
        await self.go.wait()
        yield b"."

    async def statuses(self, *paths: str) -> list[int]:
        """Return the status of each request; all arrive before the server accepts the first of them."""
        port = await self.server.start("127.0.0.1", 0)
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in paths]
        for client, path in zip(clients, paths, strict=True):
            client.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        streams = [await asyncio.open_connection(sock=client) for client in clients]
        assert await eventually(lambda: self.asked >= sum(min(paths.count(one), 64) for one in set(paths)))
        self.go.set()
        answers = [await asyncio.wait_for(reader.readline(), PATIENCE) for reader, _ in streams]
        for _, writer in streams:
            writer.close()
        await self.server.stop()
        return [int(answer.split()[1]) for answer in answers]


@pytest.mark.parametrize("path", ["/", "/events"])
async def test_of_requests_that_arrive_together_the_excess_alone_is_refused(path: str) -> None:
    assert await Held().statuses(*[path] * 64) == [200] * 64
    assert await Held().statuses(*[path] * 67) == [200] * 64 + [503] * 3


async def test_streams_take_no_place_of_other_requests() -> None:
    assert await Held().statuses(*["/events"] * 20, *["/"] * 65) == [200] * 84 + [503]


async def test_connections_that_ask_for_nothing_take_no_place() -> None:
    held = Held()
    held.go.set()
    port = await held.server.start("127.0.0.1", 0)
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(70)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await asyncio.wait_for(reader.readline(), PATIENCE) == b"HTTP/1.1 200 OK\r\n"
    for _, other in [*idle, (reader, writer)]:
        other.close()
    await held.server.stop()
