"""What may be between a client and PostgreSQL: PgBouncer in transaction mode, and a wire that can be frozen."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
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


@contextmanager
def pgbouncer(url: str, mode: str = "transaction", **options: str) -> Iterator[str]:
    """Run PgBouncer in front of a server, and give the address of the same database through it."""
    assert PGBOUNCER is not None
    host, port = socket_of(url)
    owner = (Path(host) / f".s.PGSQL.{port}").stat()
    folder = Path(tempfile.mkdtemp(prefix="pooler-"))
    process = None
    try:
        more = "\n".join(f"{name} = {value}" for name, value in options.items())
        text = CONFIG.format(host=host, port=port, folder=folder, pooled_port=POOLED_PORT, mode=mode, more=more)
        (folder / "config").write_text(text)
        (folder / "users").write_text(f'"{urlsplit(url).username}" ""\n')
        as_root = os.geteuid() == 0
        for path in (folder, folder / "config", folder / "users"):
            if as_root:
                os.chown(path, owner.st_uid, owner.st_gid)
        # It refuses to run as root; whoever runs the server reaches its socket.
        process = subprocess.Popen(
            [PGBOUNCER, "-q", str(folder / "config")],
            user=owner.st_uid if as_root else None,
            extra_groups=[] if as_root else None,
        )
        pooled = with_host(url, str(folder), POOLED_PORT)
        assert until(lambda: _answers(pooled)), (folder / "log").read_text()
        yield pooled
    finally:
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


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
        with suppress(OSError):
            while data := await source.read(65536):
                await self._way.wait()
                target.write(data)
                await target.drain()
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
