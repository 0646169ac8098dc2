"""The servers of a mode, and the settings with which processes reach them."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.model.settings import SqliteSettings
from queue_core.stores.postgres.migrate import migrate
from queue_core.stores.sqlite.migrate import migrate as migrate_sqlite
from tests.faults.chaos.clocks import SharedClock
from tests.faults.chaos.disks import Disk
from tests.faults.chaos.wires import Wire
from tests.postgres.poolers.pooler import PGBOUNCER, Pooler, socket_of, with_host
from tests.redis_topology.rig import Cluster, Trio, started

MODES = ("postgres+redis", "postgres", "redis", "sqlite")
TOPOLOGIES = ("single", "sentinel", "cluster")
PREFIX = "faults:"
SMALL = {"max_wal_size": "96MB", "min_wal_size": "32MB", "shared_buffers": "64MB"}
MEBIBYTES = 1500
"""Of the disk: an hour of jobs has to have room on it."""


@dataclass
class Ground:
    """The servers of one run."""

    mode: str
    topology: str
    folder: Path
    disk: Disk
    servers: EmbeddedServers | None = None
    trio: Trio | None = None
    cluster: Cluster | None = None
    pooler: Pooler | None = None
    # in mode sqlite all processes have one clock, for they are on one machine
    clock: SharedClock | None = None
    wires: list[Wire] = field(default_factory=list)

    @property
    def has_postgres(self) -> bool:
        """Whether jobs are in PostgreSQL."""
        return self.mode.startswith("postgres")

    @property
    def has_redis(self) -> bool:
        """Whether there is a Redis."""
        return self.mode.endswith("redis")

    @property
    def sqlite_path(self) -> str:
        """The file of mode sqlite."""
        return str(self.disk.folder / "jobs.db")

    def settings(self, wires: dict[str, Wire] | None = None, pooled: bool = False) -> dict[str, Any]:
        """Return the settings of a process, whose ways to the servers are these wires."""
        wires = wires or {}
        if self.mode == "sqlite":
            return {"queue_backend": "sqlite", "sqlite": {"path": self.sqlite_path, "timeout": 4}}
        found: dict[str, Any] = {"queue_backend": "redis" if self.has_redis else "postgres"}
        if self.has_redis:
            seconds = 1.0 if self.has_postgres else 3.0
            found["redis"] = {"url": self._redis_url(wires), "prefix": PREFIX, "timeout": seconds}
            if self.mode == "redis" and self.topology != "single":
                # All that it has: while one of them is promoted, another may still confirm what the old primary takes.
                found["redis"]["min_replicas"] = 2 if self.trio is not None else 1
        if self.has_postgres:
            found["postgres"] = {"url": self.postgres_url(wires), "timeout": 4}
            if pooled:
                assert self.pooler is not None
                direct = found["postgres"]["url"]
                found["postgres"] |= {"url": self.pooler.url, "listen_url": direct, "prepare": False}
        return found

    def postgres_url(self, wires: dict[str, Wire] | None = None) -> str:
        """Return the address of PostgreSQL, by way of a wire if there is one."""
        assert self.servers is not None
        url = self.servers.postgres_url
        return with_host(url, str(wires["postgres"].folder), socket_of(url)[1]) if wires else url

    def _redis_url(self, wires: dict[str, Wire]) -> str:
        if self.trio is not None:
            return self.trio.url()
        if self.cluster is not None:
            return self.cluster.url
        assert self.servers is not None
        return f"unix://{quote(str(wires['redis'].path))}?db=0" if "redis" in wires else self.servers.redis_url

    async def new_wires(self) -> dict[str, Wire]:
        """Return ways to the servers for one process."""
        found: dict[str, Wire] = {}
        if self.servers is None:
            return found
        if self.has_postgres:
            host, port = socket_of(self.servers.postgres_url)
            found["postgres"] = Wire(Path(host, f".s.PGSQL.{port}"))
        if self.has_redis and self.topology == "single":
            found["redis"] = Wire(self.servers.folder / "s" / "r.sock")
        for wire in found.values():
            await wire.start()
        return found


@contextmanager
def temporary(folder: Path) -> Any:
    """Let temporary files be in this folder."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir, os.environ["TMPDIR"] = str(folder), str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before[0]
        if before[1] is None:
            os.environ.pop("TMPDIR")
        else:
            os.environ["TMPDIR"] = before[1]


@asynccontextmanager
async def ground(mode: str, topology: str) -> AsyncIterator[Ground]:
    """Start the servers of a mode, with data on a disk that can be filled where this user may make one."""
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="faults-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        disk = Disk(MEBIBYTES)
        stack.callback(disk.close)
        found = Ground(mode, topology, folder, disk)
        if mode == "sqlite":
            found.clock = SharedClock(folder / "machine.clock")
            await asyncio.to_thread(migrate_sqlite, SqliteSettings(path=found.sqlite_path))
        elif topology == "single" or found.has_postgres:
            found.servers = await asyncio.to_thread(_start, disk.folder, mode)
            stack.callback(found.servers.close)
            if found.has_postgres:
                await asyncio.to_thread(migrate, found.servers.postgres_url)
        if topology == "sentinel":
            found.trio = await asyncio.to_thread(stack.enter_context, started(Trio))
        if topology == "cluster":
            found.cluster = await asyncio.to_thread(stack.enter_context, started(Cluster))
        if found.has_postgres and PGBOUNCER is not None:
            assert found.servers is not None
            found.pooler = Pooler(found.servers.postgres_url)
            stack.callback(found.pooler.close)
            await asyncio.to_thread(found.pooler.start)
        yield found


def _start(folder: Path, mode: str) -> EmbeddedServers:
    """Start both servers: what Redis keeps is on the disk only where it is the store."""
    is_store = mode == "redis"
    with temporary(folder):
        return EmbeddedServers.start(
            postgres_options={"synchronous_commit": "on", **SMALL},
            redis_appendonly=is_store,
            redis_options={"appendfsync": "always"} if is_store else {"busy-reply-threshold": "100"},
        )
