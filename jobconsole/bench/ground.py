"""Where a benchmark runs: servers or a file of its own, the settings that lead there, and what they cost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jobconsole.bench.record import DeliveryRecord, Recorder
from jobconsole.bench.tasks import FOLDER_VARIABLE, TARGET
from jobconsole.configuration import without_settings
from jobconsole.embedded.fleet import Fleet
from jobconsole.embedded.places import USAGE, DemoError, ServerPlaces, open_places, own_folder
from queue_core import JobQueue, Worker
from queue_core.backends import drop, migrate
from queue_core.configuration import load
from queue_core.errors import QueueCoreError
from queue_core.model.settings import JobsSettings
from queue_core.worker.options import ServiceOptions

MODES = ("postgres+redis", "postgres", "redis", "sqlite", "memory")
USES = {"postgres+redis": ("postgres", "redis"), "postgres": ("postgres",), "redis": ("redis",)}
"""The servers that a mode uses."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What is measured, and where."""

    mode: str = "postgres+redis"
    # jobs that are enqueued and then drained
    jobs: int = 20_000
    # worker processes
    workers: int = 1
    # other servers than the embedded ones; only an empty database and an empty prefix are accepted
    postgres_url: str | None = None
    redis_url: str | None = None
    prefix: str = "bench:"


PROC = Path("/proc")


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of a process, its ended children included."""
    fields = _stat(pid)
    return None if fields is None else sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pids: Iterable[int]) -> float | None:
    """Return the largest resident size that one of these processes has ever had."""
    return max((peak for pid in pids if (peak := _peak_mib(pid)) is not None), default=None)


def _peak_mib(pid: int) -> float | None:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found = []
    for entry in PROC.glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields is not None and int(fields[1]) == pid:
            found.append(int(entry.name))
    return found


def parent(pid: int) -> int | None:
    """Return the parent of a process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the name of the program, which may contain anything."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


class PostgresUsage:
    """The CPU time of all processes of a PostgreSQL on this machine."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._own = self._connection.info.backend_pid
        self._server = parent(self._own)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the server so far, without that of this connection."""
        total = None if self._server is None else cpu_seconds(self._server)
        if total is None or self._server is None:
            return None
        return total + sum(cpu_seconds(pid) or 0.0 for pid in children(self._server) if pid != self._own)

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


class RedisUsage:
    """The CPU time that a Redis reports to have used."""

    def __init__(self, url: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the server so far."""
        usage = self._client.info("cpu")
        return float(usage["used_cpu_sys"]) + float(usage["used_cpu_user"])

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class Ground:
    """The place of one run."""

    folder: Path
    # of every process of the run; it reads these settings and no others
    environment: dict[str, str]
    settings: JobsSettings
    # None: its processes are not on this machine, or there is none
    postgres: PostgresUsage | None
    redis: RedisUsage | None


@contextmanager
def open_ground(options: BenchOptions, warn: Callable[[str], None]) -> Iterator[Ground]:
    """Start or check the servers of a mode, and leave nothing of them behind, nor on those that were named.

    `warn` is called with why something was left on these.

    Raises:
        DemoError: an option does not fit the mode, or a server cannot be used.
    """
    uses = USES.get(options.mode, ())
    for name, url in (("postgres", options.postgres_url), ("redis", options.redis_url)):
        if url is not None and name not in uses:
            raise DemoError(f"--{name}-url is not for mode {options.mode}, which has no such server.", USAGE)
    with ExitStack() as stack:
        places = stack.enter_context(open_places(options, "benchmark")) if uses else _no_servers(stack)
        places.folder.mkdir(mode=0o700, exist_ok=True)
        environment = _environment(options.mode, places)
        settings = load(environ=environment).settings
        postgres = redis = None
        if options.postgres_url is not None or options.redis_url is not None:
            stack.callback(_remove, settings, warn)
        if "postgres" in uses:
            migrate(settings)
            if options.postgres_url is None:
                postgres = PostgresUsage(places.postgres_url)
                stack.callback(postgres.close)
        if "redis" in uses:
            redis = RedisUsage(places.redis_url)
            stack.callback(redis.close)
        yield Ground(places.folder, environment, settings, postgres, redis)


def _remove(settings: JobsSettings, warn: Callable[[str], None]) -> None:
    """Take away what was empty before; the figures count more than that it cannot be done."""
    try:
        drop(settings)
    except QueueCoreError as error:
        warn(f"what the benchmark has written could not be removed: {error}")


def _no_servers(stack: ExitStack) -> ServerPlaces:
    return ServerPlaces("", "", "", own_folder(stack))


def _environment(mode: str, places: ServerPlaces) -> dict[str, str]:
    uses = USES.get(mode, ())
    made = {
        "JOBS_CONFIG": os.devnull,
        "JOBS__QUEUE_BACKEND": "redis" if "redis" in uses else mode,
    }
    if "postgres" in uses:
        made["JOBS__POSTGRES__URL"] = places.postgres_url
    if "redis" in uses:
        made["JOBS__REDIS__URL"] = places.redis_url
        made["JOBS__REDIS__PREFIX"] = places.redis_prefix
    if mode == "sqlite":
        made["JOBS__SQLITE__PATH"] = str(places.folder / "jobs.db")
    return without_settings(os.environ) | made


CONCURRENCY = 100
END_SECONDS = 20.0
"""How long a worker may take to end before it is killed."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers at work."""

    record: DeliveryRecord
    pids: tuple[int, ...]
    # raises DemoError when one of them has ended by itself
    check: Callable[[], None]


@asynccontextmanager
async def processes(ground: Ground, count: int, record: DeliveryRecord) -> AsyncIterator[Crew]:
    """Run worker processes, and end them.

    Raises:
        DemoError: one has ended by itself.
    """
    (record.folder / "logs").mkdir(exist_ok=True)
    fleet = Fleet(record.folder, ground.environment | {FOLDER_VARIABLE: str(record.folder)})
    try:
        options = ServiceOptions(concurrency=CONCURRENCY).to_json()
        crew = [
            fleet.start(f"worker-{number}", "queue_core.worker.process", [TARGET, options])
            for number in range(1, count + 1)
        ]
        yield Crew(record, tuple(child.pid for child in crew), fleet.check)
        await asyncio.gather(*(fleet.end(child, END_SECONDS) for child in crew))
    finally:
        fleet.close()


@asynccontextmanager
async def inside(jobs: JobQueue, recorder: Recorder, count: int, record: DeliveryRecord) -> AsyncIterator[Crew]:
    """Run workers in this process, and end them."""
    recorder.open(record.folder)
    workers = [Worker(jobs, concurrency=CONCURRENCY) for _ in range(count)]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]

    def check() -> None:
        for task in tasks:
            if task.done():
                raise DemoError(f"A worker has ended: {task.exception() or 'it was stopped'}.")

    try:
        yield Crew(record, (), check)
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
