"""How the rate of jobs holds while somebody's transaction stays open, so that nothing that ended can be vacuumed away.

    .venv/bin/python benchmarks/held_snapshot.py            # --mode postgres --seconds 600 --ended 0 --json

One producer keeps some thousand jobs ahead of a real worker process. After a while without, a transaction with a
snapshot is opened and left idle; the rate of each part of the time after is told as a ratio to the clean rate before.
`--ended N` writes N jobs and leases that ended into the tables at once, as the load of some time would have left them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import psycopg
from ground import verdict

from jobconsole.bench.crew import processes
from jobconsole.bench.ground import Ground, open_ground
from jobconsole.bench.options import BenchOptions
from jobconsole.bench.payloads import payload
from jobconsole.bench.recorder import Record, Recorder
from jobconsole.bench.tasks import TYPE, register
from jobconsole.bench.usage import cpu_seconds
from queue_core import JobQueue

BAR = 0.9
BULK = 500
AHEAD = 20_000
"""Jobs that wait at any time: the worker is never idle."""
CLEAN_SECONDS = 20.0
WARM_SECONDS = 5.0
PART_SECONDS = 5.0
STEP = 0.05
ENDED = """
WITH many AS (SELECT gen_random_uuid() AS id, nextval('job_seq') AS seq FROM generate_series(1, %(count)s)),
jobs AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
    SELECT id, (SELECT min(id) FROM queues), 122::bigint << 45 | seq, seq, 5, 'queued', now(), 'ended', '{}', 3
      FROM many)
INSERT INTO leases (id, token, queue_id, worker, started_at, expires_at)
SELECT id, 1, (SELECT min(id) FROM queues), 'ended', now(), now() + interval '1 hour'
  FROM many
"""


ENDED_SO_FAR = """
SELECT coalesce(sum(n_tup_ins), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'job\\_history\\_%%'
"""
"""From the server's own counts, which cost nothing; they are about a second late."""


class Part(NamedTuple):
    """One part of the time."""

    # jobs a second
    rate: float
    # microseconds of processor time of the worker and of the servers for each job: on a busy machine it moves least
    cost: float


class Load:
    """A producer that keeps jobs ahead of the workers, and how many jobs have ended."""

    def __init__(self, jobs: JobQueue, url: str, used: Callable[[], float]) -> None:
        self._jobs = jobs
        self._url = url
        self._used = used
        self._looking = psycopg.connect(url, autocommit=True)
        self.made = 0

    def ended(self) -> int:
        """Return how many jobs have ended."""
        ((count,),) = self._looking.execute(ENDED_SO_FAR).fetchall()
        return int(count)

    async def produce(self) -> None:
        """Produce for ever."""
        while True:
            ended = self.ended()
            while self.made - ended < AHEAD:
                await self._jobs.enqueue_many(TYPE, [payload(0)] * BULK)
                self.made += BULK
            await asyncio.sleep(STEP)

    async def rates(self, seconds: float, say: str) -> list[Part]:
        """Return the jobs a second, and their cost, of each part of a time."""
        found, ends = [], time.monotonic() + seconds
        while time.monotonic() < ends:
            before, began, used = self.ended(), time.monotonic(), self._used()
            await asyncio.sleep(PART_SECONDS)
            done = max(1, self.ended() - before)
            part = Part(done / (time.monotonic() - began), (self._used() - used) / done * 1e6)
            sys.stderr.write(f"{say} {part.rate:,.0f} jobs/s, {part.cost:.1f} us of processors each\n")
            found.append(part)
        return found

    def leave(self, count: int) -> None:
        """Write jobs and leases that end at once, as load would have left them."""
        # on a connection of its own: the producer must not wait
        with psycopg.connect(self._url, autocommit=True) as writing:
            for start in range(0, count, 100_000):
                with writing.transaction():
                    writing.execute(ENDED, {"count": min(100_000, count - start)})
                    writing.execute("DELETE FROM leases WHERE worker = 'ended'")
                    writing.execute("DELETE FROM jobs WHERE type = 'ended'")


async def held(options: argparse.Namespace, mode: str, ground: Ground) -> dict[str, object]:
    """Measure one mode."""
    async with register(JobQueue.from_settings(ground.settings), Recorder()) as jobs:
        assert ground.settings.postgres.url is not None
        url = ground.settings.postgres.url.get_secret_value()
        async with processes(ground, 1, Record(ground.folder / "run", 1)) as crew:

            def used() -> float:
                assert ground.postgres is not None
                redis = 0.0 if ground.redis is None else ground.redis.cpu_seconds() or 0.0
                return (
                    (ground.postgres.cpu_seconds() or 0.0) + redis + sum(cpu_seconds(pid) or 0.0 for pid in crew.pids)
                )

            load = Load(jobs, url, used)
            producing = asyncio.create_task(load.produce())
            await asyncio.sleep(WARM_SECONDS)
            clean = middle(await load.rates(CLEAN_SECONDS, f"{mode} clean"))
            with psycopg.connect(url) as idle:
                idle.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                idle.execute("SELECT count(*) FROM jobs")
                await asyncio.to_thread(load.leave, options.ended)
                during = await load.rates(options.seconds, f"{mode} held")
            producing.cancel()
    last = middle(during[-4:])
    return {
        "mode": mode,
        "clean": round(clean.rate),
        "last": round(last.rate),
        "ratio": round(last.rate / clean.rate, 3),
        "cost ratio": round(last.cost / clean.cost, 3),
        "ratios": [round(part.rate / clean.rate, 2) for part in during],
    }


def middle(parts: Sequence[Part]) -> Part:
    """Return the medians of parts."""
    return Part(median(part.rate for part in parts), median(part.cost for part in parts))


def main() -> int:
    """Measure and print; 1 when a mode fell below the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", action="append", choices=("postgres", "postgres+redis"))
    parser.add_argument("--seconds", type=float, default=600.0, help="how long the snapshot is held")
    parser.add_argument("--ended", type=int, default=0, help="jobs that ended before, written at once")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missed = []
    for mode in options.mode or ("postgres", "postgres+redis"):
        with open_ground(BenchOptions(mode=mode)) as ground:
            found = asyncio.run(held(options, mode, ground))
        sys.stdout.write(json.dumps(found) + "\n" if options.json else "".join(f"{k}: {v}\n" for k, v in found.items()))
        if float(str(found["ratio"])) < BAR:
            missed.append(f"{mode}: {found['ratio']} of the clean rate, the bar is {BAR}")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
