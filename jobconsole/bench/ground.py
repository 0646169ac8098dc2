"""Where a benchmark runs: servers or a file of its own, the settings that lead there, and what they cost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobconsole.bench.options import USES, BenchOptions
from jobconsole.bench.usage import PostgresUsage, RedisUsage
from jobconsole.demo.errors import USAGE, DemoError
from jobconsole.demo.places import Places, open_places, own_folder
from queue_core.configuration import load
from queue_core.settings import JobsSettings


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
def open_ground(options: BenchOptions) -> Iterator[Ground]:
    """Start or check the servers of a mode, and leave nothing of them behind.

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
        (places.folder / "empty.yaml").touch()
        environment = _environment(options.mode, places)
        settings = load(environ=environment).settings
        postgres = redis = None
        if "postgres" in uses:
            _migrate(places.postgres_url)
            if options.postgres_url is None:
                postgres = PostgresUsage(places.postgres_url)
                stack.callback(postgres.close)
        if "redis" in uses:
            redis = RedisUsage(places.redis_url)
            stack.callback(redis.close)
        yield Ground(places.folder, environment, settings, postgres, redis)


def _no_servers(stack: ExitStack) -> Places:
    return Places("", "", "", own_folder(stack))


def _environment(mode: str, places: Places) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBCONSOLE_")}
    uses = USES.get(mode, ())
    made = {
        "JOBCONSOLE_CONFIG": str(places.folder / "empty.yaml"),
        "JOBCONSOLE_JOBS__QUEUE_BACKEND": "redis" if "redis" in uses else mode,
    }
    if "postgres" in uses:
        made["JOBCONSOLE_JOBS__POSTGRES__URL"] = places.postgres_url
    if "redis" in uses:
        made["JOBCONSOLE_JOBS__REDIS__URL"] = places.redis_url
        made["JOBCONSOLE_JOBS__REDIS__PREFIX"] = places.redis_prefix
    if mode == "sqlite":
        made["JOBCONSOLE_JOBS__SQLITE__PATH"] = str(places.folder / "jobs.db")
    return kept | made


def _migrate(url: str) -> None:
    from queue_core.stores.postgres.migrate import migrate

    migrate(url)
