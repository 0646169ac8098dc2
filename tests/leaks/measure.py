"""Measures what processes and servers hold while jobs of all kinds go through."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psycopg
import redis

from tests.faults.chaos.fleet import Fleet, Unit
from tests.faults.chaos.ground import Ground, ground

SAMPLES = 90
"""How often everything is measured."""
WARM = 10.0
"""Seconds before the first time: processes import, connect, and fill what they keep."""
RETENTION = {"completed": 5, "dead": 5, "trash": 5, "results": 5, "operations": 5}
"""Seconds after which finished jobs go, so that their number is level soon."""
QUEUES = {"default": {"limit": 300}, "ordered": {"limit": 300}}
"""Producers are held up where workers cannot keep up: a backlog that grows would look like a leak."""
SLACK = {"memory": (1.04, 3 << 20), "tables": (1.1, 512 << 10), "keys": (1.1, 50), "server memory": (1.1, 1 << 20)}
"""By what is measured: how much larger the last third may be than the one before, and how much is nothing at all."""
FEW = (1.0, 4)
"""The same of what is a small number: connections, tasks, threads, descriptors."""
TABLES = """
select relname::text, pg_total_relation_size(c.oid)
  from pg_class c where relnamespace = 'jobconsole'::regnamespace and relkind = 'r'
   and relname !~ '^(job_history|job_attempts|minutes)'
"""
"""Days of the history go as a whole, and with them the attempts of their jobs."""
SESSIONS = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"


@dataclass
class Series:
    """What was measured of one thing, in its order."""

    what: str
    # whose: the part of a fleet, or a server
    of: str
    values: list[float] = field(default_factory=list)

    def third(self, number: int) -> float:
        """Return the middle value of the first, second or third part."""
        size = len(self.values) // 3
        return median(self.values[number * size : (number + 1) * size])

    @property
    def grows(self) -> bool:
        """Whether the last third is larger than the one before."""
        ratio, nothing = SLACK.get(self.what, FEW)
        before, last = self.third(1), self.third(2)
        return last > before * ratio and last - before > nothing


class Gauges:
    """Everything that is measured, by name."""

    def __init__(self, base: Ground, fleet: Fleet) -> None:
        self._ground, self._fleet = base, fleet
        self.series: dict[tuple[str, str], Series] = {}

    def sample(self) -> None:
        """Measure everything once."""
        for unit in self._fleet.units:
            with suppress(FileNotFoundError, ProcessLookupError):
                self._process(unit)
        if self._ground.has_postgres:
            self._postgres()
        if self._ground.has_redis:
            self._redis()
        if self._ground.mode == "sqlite":
            with sqlite3.connect(f"file:{self._ground.sqlite_path}?mode=ro", uri=True, timeout=10) as connection:
                pages = [
                    connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "freelist_count")
                ]
            self._note("tables", "SQLite", (pages[0] - pages[1]) * 4096)
            connection.close()

    def _note(self, what: str, of: str, value: float) -> None:
        self.series.setdefault((what, of), Series(what, of)).values.append(value)

    def _process(self, unit: Unit) -> None:
        place = Path(f"/proc/{unit.pid}")
        self._note("memory", unit.name, int((place / "statm").read_text().split()[1]) * 4096)
        self._note("descriptors", unit.name, len(list((place / "fd").iterdir())))
        self._note("threads", unit.name, len(list((place / "task").iterdir())))
        tasks = (self._fleet.folder / f"{unit.pid}.tasks").read_text()
        self._note("tasks", unit.name, int(tasks or 0))

    def _postgres(self) -> None:
        with psycopg.connect(self._ground.postgres_url(), autocommit=True) as connection:
            row = connection.execute(SESSIONS).fetchone()
            self._note("connections", "PostgreSQL", row[0] if row else 0)
            self._note("tables", "PostgreSQL", sum(size for _, size in connection.execute(TABLES)))

    def _redis(self) -> None:
        assert self._ground.servers is not None
        with redis.Redis.from_url(self._ground.servers.redis_url, socket_timeout=10) as client:
            self._note("keys", "Redis", int(client.dbsize()))
            self._note("connections", "Redis", client.info("clients")["connected_clients"])
            self._note("server memory", "Redis", client.info("memory")["used_memory"])


async def measure(mode: str, seconds: float, rate: float, seed: int, say: Callable[[str], None]) -> list[Series]:
    """Let jobs of all kinds go through for so many seconds, and return what was measured."""
    async with ground(mode, "single") as base:
        fleet = Fleet(base.folder, seed, rate)
        gauges = Gauges(base, fleet)
        settings = base.settings() | {"retention": RETENTION, "queues": QUEUES}
        try:
            for kind in ("worker", "worker", "producer"):
                fleet.add(kind, settings, {}, base.clock)
            await asyncio.sleep(min(WARM, seconds / 2))
            begun = time.monotonic()
            for number in range(1, SAMPLES + 1):
                await asyncio.to_thread(gauges.sample)
                if wrong := fleet.look():
                    raise AssertionError("\n".join(wrong))
                if number % 10 == 0:
                    say(f"{number} of {SAMPLES}")
                await asyncio.sleep(max(0.0, begun + number * seconds / SAMPLES - time.monotonic()))
            await fleet.stop_producers()
            if wrong := await fleet.drain():
                raise AssertionError("\n".join(wrong))
        finally:
            await fleet.close()
    return list(gauges.series.values())


def lines_of(series: Sequence[Series]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'what':<16}{'of':<14}{'first third':>14}{'second':>14}{'last':>14}"
    for one in sorted(series, key=lambda one: (one.what, one.of)):
        thirds = "".join(f"{one.third(number):>14,.0f}" for number in range(3))
        yield f"{one.what:<16}{one.of:<14}{thirds}{'   grows' if one.grows else ''}"
