"""What may be between a client and PostgreSQL: PgBouncer in transaction mode, and a wire that can be frozen."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from tests.waiting import until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
CONFIG = """
[databases]
* = host={host} port={port}
[pgbouncer]
unix_socket_dir = {folder}
listen_port = {pooled_port}
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = 8
logfile = {folder}/log
{more}
"""
POOLED_PORT = 6432


def socket_of(url: str) -> tuple[str, int]:
    """Return the folder of the server's socket, and its port."""
    query = parse_qs(urlsplit(url).query)
    return query["host"][0], int(query.get("port", ["5432"])[0])


def with_host(url: str, host: str, port: int) -> str:
    """Return the address of the same database by another way."""
    parts = urlsplit(url)
    return f"postgresql://{parts.username}@{parts.path}?host={host}&port={port}"


class Pooler:
    """PgBouncer in front of a server; its socket and settings stay when it is started again."""

    def __init__(self, url: str, mode: str = "transaction", **options: str) -> None:
        host, port = socket_of(url)
        self._owner = (Path(host) / f".s.PGSQL.{port}").stat().st_uid if os.geteuid() == 0 else None
        self._folder = folder = Path(tempfile.mkdtemp(prefix="pooler-"))
        self._process: subprocess.Popen[bytes] | None = None
        more = "\n".join(f"{name} = {value}" for name, value in options.items())
        text = CONFIG.format(host=host, port=port, folder=folder, pooled_port=POOLED_PORT, mode=mode, more=more)
        (folder / "config").write_text(text)
        (folder / "users").write_text(f'"{urlsplit(url).username}" ""\n')
        if self._owner is not None:
            for path in (folder, folder / "config", folder / "users"):
                os.chown(path, self._owner, -1)
        self.url = with_host(url, str(folder), POOLED_PORT)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert PGBOUNCER is not None
        # It refuses to run as root; whoever runs the server reaches its socket.
        self._process = subprocess.Popen(
            [PGBOUNCER, "-q", str(self._folder / "config")],
            user=self._owner,
            extra_groups=None if self._owner is None else [],
        )
        assert until(lambda: _answers(self.url)), (self._folder / "log").read_text()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for left in self._folder.glob(".s.PGSQL.*"):
                left.unlink()

    def close(self) -> None:
        """End it."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def pgbouncer(url: str, mode: str = "transaction", **options: str) -> Iterator[str]:
    """Run PgBouncer in front of a server, and give the address of the same database through it."""
    pooler = Pooler(url, mode, **options)
    try:
        pooler.start()
        yield pooler.url
    finally:
        pooler.close()


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2, prepare_threshold=None) as found:
        found.execute("select 1")
        return True
    return False


class Wire:
    """A way to a server that may stop carrying anything, while all connections stay open."""

    def __init__(self, url: str) -> None:
        self._host, self._port = socket_of(url)
        self._folder = Path(tempfile.mkdtemp(prefix="wire-"))
        self._way = asyncio.Event()
        self._way.set()
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()
        self.url = with_host(url, str(self._folder), self._port)

    def freeze(self) -> None:
        """Carry nothing until thawed, on old and new connections."""
        self._way.clear()

    def thaw(self) -> None:
        """Carry everything again."""
        self._way.set()

    async def __aenter__(self) -> Wire:
        path = self._folder / f".s.PGSQL.{self._port}"
        self._server = await asyncio.start_unix_server(self._accept, path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        for source, target in ((reader, behind[1]), (behind[0], writer)):
            task = asyncio.create_task(self._carry(source, target))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._way.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()


@contextmanager
def environment(**values: str) -> Iterator[Mapping[str, str]]:
    """Set variables of this process for a block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield os.environ
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def fresh_name() -> str:
    """Return a name for a schema of a test."""
    return f"app_{secrets.token_hex(4)}"
