"""A way to a server that stands still after a statement: for the server, a client that is frozen or cut off there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

STATEMENT = b"QE"
"""What makes the server run something: a simple query, and the execution of a prepared one."""
BEFORE = b"QPBDE"
"""The first message of what follows."""


class Proxy:
    """Hands everything on until it is told to hold after so many statements; then it hands nothing on, both ways."""

    def __init__(self, url: str) -> None:
        self._target = conninfo_to_dict(url)
        self._left: int | None = None
        self._deaf = False
        self.held = asyncio.Event()
        self._released = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.url = ""

    def hold_after(self, statements: int, deaf: bool = False) -> None:
        """Let through so many statements from now on; when `deaf`, not even the answer to the last one."""
        self._left, self._deaf = statements, deaf

    def release(self) -> None:
        """Hand everything on again."""
        self._left, self._deaf = None, False
        self._released.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                up, down = await self._connect()
            except OSError:
                return
            with contextlib.closing(down):
                both = [asyncio.create_task(self._up(reader, down)), asyncio.create_task(self._down(up, writer))]
                self._tasks.update(both)
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = str(self._target["host"]), int(self._target.get("port") or 5432)
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def _up(self, reader: asyncio.StreamReader, down: asyncio.StreamWriter) -> None:
        """Hand on what the client sends, message by message."""
        length = await reader.readexactly(4)
        down.write(length + await reader.readexactly(int.from_bytes(length) - 4))
        while True:
            kind, length = await reader.readexactly(1), await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(length) - 4)
            if self._left == 0 and kind in BEFORE:
                await self._hold()
            if self._left is not None and kind in STATEMENT:
                self._left -= 1
            down.write(kind + length + body)
            await down.drain()

    async def _down(self, up: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await up.read(65536):
            if self._left == 0 and self._deaf:
                await self._hold()
            writer.write(data)
            await writer.drain()

    async def _hold(self) -> None:
        self.held.set()
        await self._released.wait()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[Proxy]:
        """Listen on a port of this machine."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        user = quote(str(self._target.get("user", "")), safe="")
        name = self._target["dbname"]
        self.url = f"postgresql://{user}@127.0.0.1:{port}/{name}?sslmode=disable&gssencmode=disable"
        try:
            yield self
        finally:
            self.release()
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._serving, return_exceptions=True)
            await asyncio.sleep(0)  # in which what was closed is let go of
