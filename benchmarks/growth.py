"""How the drain holds while tables grow: a history, dead jobs, queues, leases and a backlog, each on top of the last.

    .venv/bin/python benchmarks/growth.py                   # --mode postgres --scale 1.0 --jobs 150000 --turns 3 --json

Two sets of servers take turns at having a worker process drain the same number of jobs: one stays empty, the other
grows. It prints the median ratios of the rates, and of the processor time that worker and servers take for each
job, which on a busy machine moves least. `--scale` makes all of it smaller: the whole takes some 6 GB of the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from math import inf
from statistics import median
from typing import NamedTuple

import psycopg
from ground import SEED, verdict
from held_snapshot import CLAIMED, TABLES, numbered

from jobconsole.bench.ground import BenchOptions, Crew, Ground, cpu_seconds, open_ground, processes
from jobconsole.bench.record import DeliveryRecord, Recorder, payload
from jobconsole.bench.tasks import TYPE, register
from queue_core import JobQueue

BAR = 0.9
"""The least ratio of the rates."""
QUEUE = "default"
DRAINED = 150_000
"""Jobs of one turn: some four seconds, for a new worker reads past what others run, which takes it a quarter of one."""
BULK = 1_000
WATCHED = 0.002
"""Seconds between two looks at how many were claimed."""

HISTORY = """
INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes, max_retries,
                         last_token, created_at, started_at, finished_at)
SELECT gen_random_uuid(), (SELECT min(id) FROM queues), n, 5, 'completed', now(), %(type)s, %(payload)s, 0, 0, 3, n,
       now(), now(), now() - make_interval(secs => n %% 3600)
  FROM generate_series(%(first)s::bigint, %(last)s) AS n
"""
QUEUES = """
WITH made AS (
    INSERT INTO queues (name) SELECT 'other-' || n FROM generate_series(%(first)s::int, %(last)s) AS n RETURNING id
), numbered AS (SELECT id, nextval('job_seq') AS seq FROM made)
INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
SELECT gen_random_uuid(), id, 122::bigint << 45 | seq, seq, 5, 'queued', now(), 'nobody''s', '{}', 3 FROM numbered
"""
LEASES = """
WITH many AS (
    SELECT gen_random_uuid() AS id, nextval('job_seq') AS seq FROM generate_series(%(first)s::int, %(last)s)
), jobs AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
    SELECT id, (SELECT id FROM queues WHERE name = 'default'), 122::bigint << 45 | seq, seq, 5, 'queued', now(),
           %(type)s, %(payload)s, 3
      FROM many
)
INSERT INTO leases (id, token, queue_id, worker, started_at, expires_at)
SELECT id, seq, (SELECT id FROM queues WHERE name = 'default'), 'another:1:aaaaaa', now(), now() + interval '1 day'
  FROM many
"""
WAITING = """
SELECT count(*) FROM jobs j JOIN queues q ON q.id = j.queue_id
 WHERE q.name = 'default' AND NOT EXISTS (SELECT FROM leases l WHERE l.id = j.id)
"""
GROWTH = {
    "history": (10_000_000, 500_000, HISTORY),
    "dead": (1_000_000, 1_000_000, ""),
    "queues": (5_000, 5_000, QUEUES),
    "leases": (100_000, 100_000, LEASES),
    "backlog": (1_000_000, BULK, ""),
}
"""What grows: by how many, how many at a time, and the statement; dead jobs are those of the console's benchmarks."""


class Turn(NamedTuple):
    """One drain."""

    # jobs a second
    rate: float
    # microseconds of processor time for each job
    worker: float
    servers: float


class Side:
    """One set of servers, and a worker process while it is its turn."""

    def __init__(self, jobs: JobQueue, ground: Ground) -> None:
        assert ground.settings.postgres.url is not None
        self._jobs = jobs
        self._ground = ground
        self._turns = count()
        self._connection = psycopg.connect(
            ground.settings.postgres.url.get_secret_value(), autocommit=True, options=TABLES
        )
        # jobs that wait for a turn
        self._waiting = 0

    async def begin(self) -> None:
        """Let a worker begin to number claims, before they are counted by that."""
        async with processes(self._ground, 1, DeliveryRecord(self._ground.folder / "begin", 1)):
            await numbered(self._connection)

    def _claimed(self) -> int:
        ((count,),) = self._connection.execute(CLAIMED).fetchall()
        return int(count)

    def _used(self, crew: Crew) -> tuple[float, float]:
        """Return the seconds of processor time of the worker and of the servers."""
        assert self._ground.postgres is not None
        redis = 0.0 if self._ground.redis is None else self._ground.redis.cpu_seconds() or 0.0
        worker = sum(cpu_seconds(pid) or 0.0 for pid in crew.pids)
        return worker, (self._ground.postgres.cpu_seconds() or 0.0) + redis

    async def _fill(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            await self._jobs.enqueue_many(TYPE, [payload(0)] * min(BULK, jobs - start), queue=QUEUE)
        self._waiting += jobs

    async def drain(self, jobs: int) -> Turn:
        """Start a worker, let it drain so many jobs, and return how fast it was from its first claim on."""
        await self._fill(max(0, jobs - self._waiting))
        before = self._claimed()
        record = DeliveryRecord(self._ground.folder / f"turn-{next(self._turns)}", 1)
        async with processes(self._ground, 1, record) as crew:
            while self._claimed() == before:  # noqa: ASYNC110  what the worker does is no event
                await asyncio.sleep(WATCHED)
            first, began, used = self._claimed(), time.monotonic(), self._used(crew)
            while (last := self._claimed()) - before < jobs:  # noqa: ASYNC110
                await asyncio.sleep(WATCHED)
            took, now = time.monotonic() - began, self._used(crew)
        if last == first:
            sys.exit("all jobs of a turn were claimed at once: give more of them with --jobs")
        ((self._waiting,),) = self._connection.execute(WAITING).fetchall()
        costs = [(after - earlier) / (last - first) * 1e6 for earlier, after in zip(used, now, strict=True)]
        return Turn((last - first) / took, *costs)

    async def grow(self, name: str, scale: float) -> int:
        """Add one kind of growth, as it were after some time of load; return how much."""
        most, step, statement = GROWTH[name]
        number = max(1, int(most * scale))
        if name == "backlog":
            await self._fill(number)
        elif name == "dead":
            await asyncio.to_thread(self._connection.execute, SEED, {"count": number})
        else:
            body = json.dumps(payload(0))
            for first in range(1, number + 1, step):
                given = {"first": first, "last": min(number, first + step - 1), "type": TYPE, "payload": body}
                used = {key: value for key, value in given.items() if f"%({key})s" in statement}
                await asyncio.to_thread(self._connection.execute, statement, used)
        for settled in ("VACUUM ANALYZE", "CHECKPOINT"):
            await asyncio.to_thread(self._connection.execute, settled)
        return number


@asynccontextmanager
async def sides(mode: str) -> AsyncIterator[tuple[Side, Side]]:
    """Run the two sets of servers."""
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(2):
            ground = stack.enter_context(open_ground(BenchOptions(mode=mode), partial(print, file=sys.stderr)))
            jobs = await stack.enter_async_context(register(JobQueue.from_settings(ground.settings), Recorder()))
            made.append(Side(jobs, ground))
            await made[-1].begin()
        yield made[0], made[1]


async def grown(options: argparse.Namespace, mode: str) -> list[dict[str, object]]:
    """Measure one mode, one growth after the other."""
    rows: list[dict[str, object]] = []
    async with sides(mode) as (empty, growing):
        for side in (empty, growing):
            await side.drain(options.jobs)
        for name in GROWTH:
            number = await growing.grow(name, options.scale)
            pairs = []
            for _ in range(options.turns):
                pairs.append((await empty.drain(options.jobs), await growing.drain(options.jobs)))
                sys.stderr.write(f"{mode}, {name}: {pairs[-1][0].rate:,.0f} and {pairs[-1][1].rate:,.0f} jobs/s\n")
            ratios = [round(median(quotient(part[f], clean[f]) for clean, part in pairs), 2) for f in range(3)]
            figures = dict(zip(("ratio", "worker cost ratio", "servers cost ratio"), ratios, strict=True))
            rows.append({"mode": mode, "growth": f"{name} {number:,}", **figures})
    return rows


def quotient(part: float, clean: float) -> float:
    """Return a ratio; of processor time that is too short for the system's clock, infinite."""
    return part / clean if clean else inf


def main() -> int:
    """Measure and print; 1 when a drain fell below the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", action="append", choices=("postgres", "postgres+redis"))
    parser.add_argument("--scale", type=float, default=1.0, help="of what grows; 1.0 is all of it")
    parser.add_argument("--jobs", type=int, default=DRAINED, help="of one turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missed = []
    for mode in options.mode or ("postgres", "postgres+redis"):
        for row in asyncio.run(grown(options, mode)):
            sys.stdout.write(
                (json.dumps(row) if options.json else "  ".join(f"{k} {v}" for k, v in row.items())) + "\n"
            )
            if float(str(row["ratio"])) < BAR:
                missed.append(f"{mode}, {row['growth']}: {row['ratio']} of the empty rate, the bar is {BAR}")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
