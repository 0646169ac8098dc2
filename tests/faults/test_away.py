"""The store of each mode is away: calls end in bounded time with its error, and workers go on when it is back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue, StoreUnavailable
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings, SqliteSettings
from queue_core.stores.postgres.migrate import migrate
from tests.conformance.working import working
from tests.conftest import StartServers
from tests.waiting import PATIENCE

LIMIT = 2.0
"""Seconds that a store is waited for."""
BOUND = 4 * LIMIT + 10
"""Seconds within which every call must have ended, on a machine under load."""

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin exclusive")
print("held", flush=True)
sys.stdin.read()
"""


class Mode:
    """A queue object, and hands on its store."""

    def __init__(self, settings: JobsSettings) -> None:
        self.jobs = JobQueue(settings=settings)

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Take the store away for as long as the block lasts."""
        raise NotImplementedError
        yield


class Server(Mode):
    """A mode whose store is a server that is stopped, or stops itself answering."""

    def __init__(self, servers: EmbeddedServers, backend: str, how: str) -> None:
        self._server: Any = servers.redis if backend == "redis" else servers.postgres
        self._how = how
        postgres = {"url": servers.postgres_url if backend == "postgres" else None, "timeout": LIMIT}
        redis = {"url": servers.redis_url if backend == "redis" else None, "timeout": LIMIT}
        if backend == "postgres":
            migrate(servers.postgres_url)
        super().__init__(
            JobsSettings(
                queue_backend=backend,  # type: ignore[arg-type]
                postgres=PostgresSettings.model_validate(postgres),
                redis=RedisSettings.model_validate(redis),
            )
        )

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        begin, end = ("stop", "start") if self._how == "stopped" else ("pause", "resume")
        await asyncio.to_thread(getattr(self._server, begin))
        try:
            yield
        finally:
            await asyncio.to_thread(getattr(self._server, end))


class File(Mode):
    """A file that another process holds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(JobsSettings(queue_backend="sqlite", sqlite=SqliteSettings(path=str(path), timeout=LIMIT)))

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        with held(self._path):
            yield


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Let another process have the file's lock."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


@pytest.fixture(params=["postgres stopped", "postgres hung", "redis stopped", "redis hung", "sqlite locked"])
async def mode(request: pytest.FixtureRequest, start_servers: StartServers, tmp_path: Path) -> AsyncIterator[Mode]:
    backend, how = request.param.split(" ")
    if backend == "sqlite":
        mode: Mode = File(tmp_path / "jobs.db")
    else:
        # What was written is there after a restart, as in production.
        servers = start_servers(redis_appendonly=True, redis_options={"appendfsync": "always"})
        mode = Server(servers, backend, how)
    async with mode.jobs:
        yield mode


async def test_bounded_and_back(mode: Mode) -> None:
    jobs, runs, loop = mode.jobs, Counter[int](), asyncio.get_running_loop()
    inside, go_on = asyncio.Event(), asyncio.Event()

    @jobs.task
    async def work(n: int) -> int:
        runs[n] += 1
        if n == 1:
            inside.set()
            await go_on.wait()
        return n

    async with working(jobs, lease="120s", heartbeat="1s") as worker:
        assert await (await jobs.enqueue("work", {"n": 0})).result(PATIENCE) == 0
        running = await jobs.enqueue("work", {"n": 1})
        await asyncio.wait_for(inside.wait(), PATIENCE)
        async with mode.away():
            began = loop.time()
            asked = await asyncio.gather(
                jobs.enqueue("work", {"n": 2}),
                jobs.enqueue_many("work", [{"n": 3}, {"n": 4}]),
                jobs.store.promote(1),
                return_exceptions=True,
            )
            health = await jobs.health()
            assert loop.time() - began < BOUND
            assert [type(answer) for answer in asked] == [StoreUnavailable] * 3, asked
            assert not health.healthy, health
            assert health.reason
            go_on.set()
            await asyncio.sleep(LIMIT)
        # Nobody restarts anything: the outcome of the job that ended meanwhile is stored, and new ones are run.
        assert await running.result(PATIENCE) == 1
        assert await (await jobs.enqueue("work", {"n": 5})).result(PATIENCE) == 5
        assert (worker.refused, runs[0], runs[1], runs[5]) == (0, 1, 1, 1)
    # Whether a call that got no answer was carried out is not known; that it was not done half, is.
    assert (runs[3], runs[3]) == (runs[4], min(1, runs[3]))
    assert (await jobs.inspector.conservation()).completed == sum(runs.values())
