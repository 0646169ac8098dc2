"""What the console's benchmarks run on: servers with dead jobs, and the bars that figures are held against."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from jobconsole.configuration import without_settings
from jobconsole.embedded.servers import EmbeddedServers
from queue_core.stores.postgres.migrate import migrate

SEED = (Path(__file__).parent / "seeding" / "dead.sql").read_text(encoding="utf-8")


def seed(servers: EmbeddedServers, jobs: int) -> dict[str, str]:
    """Fill a new schema with dead jobs in 40 signatures; return the environment of programs that use it."""
    url = servers.postgres_url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS jobconsole CASCADE")
    migrate(url)
    with psycopg.connect(url, autocommit=True, options="-c search_path=jobconsole") as connection:
        connection.execute(SEED, {"count": jobs})
        connection.execute("VACUUM ANALYZE")
    return without_settings(os.environ) | {
        "JOBS__POSTGRES__URL": url,
        "JOBS__REDIS__URL": servers.redis_url,
    }


def stretch(seconds: float = 1.0) -> float:
    """Return how many times longer than its processor time a busy loop takes now: above 1 where others compete.

    Bars for times on the clock are stretched by that, so that a verdict is about this program and not about them.
    """
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        pass
    return max(1.0, (time.perf_counter() - began) / (time.process_time() - used))


def missed(where: str, found: Mapping[str, object], bars: Mapping[str, float]) -> list[str]:
    """Return a sentence for each figure that is above its bar."""
    return [
        f"{where}: {name} is {value}, the bar is {bars[name]}"
        for name, value in found.items()
        if name in bars and isinstance(value, int | float) and value > bars[name]
    ]


def verdict(sentences: Sequence[str]) -> int:
    """Print which bars were missed and return the exit code: 1 when there is one."""
    for sentence in sentences:
        sys.stderr.write(f"missed: {sentence}\n")
    return 1 if sentences else 0
