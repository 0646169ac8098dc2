"""A way to a server's socket on which a test decides what passes."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class Wire:
    """Carries bytes both ways; it can be cut, refuse, stand still, be slow, and swallow what the server answers."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder = Path(tempfile.mkdtemp(prefix="wire-", dir="/tmp"))
        self.path = self._folder / target.name
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._carries = asyncio.Event()
        self._carries.set()
        self.refuses = False
        # answers go nowhere
        self.swallows = False
        # the most seconds that what is carried is late
        self.delay = 0.0

    @property
    def folder(self) -> Path:
        """Where the socket is."""
        return self._folder

    def freeze(self) -> None:
        """Carry nothing, on old and new connections, all of which stay open."""
        self._carries.clear()

    def cut(self) -> None:
        """End all connections at once."""
        for one, other in self._open.items():
            one.transport.abort()
            other.transport.abort()

    def mend(self) -> None:
        """Carry everything again; connections that lack some bytes are ended."""
        if self.swallows:
            self.cut()
        self.refuses = self.swallows = False
        self.delay = 0.0
        self._carries.set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._accept, self.path)

    async def close(self) -> None:
        """End all connections, and listen no more."""
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            up, down = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open[writer] = down
        for source, target, answers in ((reader, down, False), (up, writer, True)):
            task = asyncio.create_task(self._carry(source, target, answers))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, answers: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if self.delay:
                    await asyncio.sleep(random.uniform(0.0, self.delay))
                await self._carries.wait()
                if answers and self.swallows:
                    continue
                target.write(data)
                await target.drain()
        for one, other in list(self._open.items()):
            if target in (one, other):
                del self._open[one]
                one.close()
                other.close()
