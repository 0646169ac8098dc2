"""Where the time of an enqueue goes, and what a job writes ahead: the profile behind the bars of `compare`.

    .venv/bin/python -m benchmarks.costs                    # --jobs 4000 --mode postgres --profile

One job a call and 1,000 a call, in three modes: microseconds a job on the clock, of this process and of the servers.
With `--profile` the functions of this process that take longest follow. Then how long a trip takes behind a pause of
20 ms, as at the start of an idle latency, and in a row: those of the drivers alone are the least that a queue can take.
Last, what PostgreSQL writes ahead for a job, by kind of record.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from statistics import median
from typing import Any

import psycopg
import redis.asyncio
import uvloop

from jobconsole.bench.ground import PostgresUsage, RedisUsage
from jobconsole.bench.record import payload
from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue, Worker
from queue_core.stores.postgres.migrate import migrate

MODES = ("postgres", "postgres+redis", "redis")
LIST = 1000
TRIPS, PAUSE = 200, 0.02
"""How often each trip is made, and the seconds of the pause before it."""
LINES = 20
"""Functions of the profile, and kinds of records, that are printed."""
LSN = "SELECT pg_current_wal_lsn()"
RECORDS = """
SELECT "resource_manager/record_type", count, record_size + fpi_size FROM pg_get_wal_stats(%s, %s, true)
 WHERE count > 0 ORDER BY 3 DESC LIMIT %s
"""


def queue(servers: EmbeddedServers, mode: str) -> JobQueue:
    """Return a queue object in a mode, with the task that all benchmarks run."""
    addresses: dict[str, Any] = {}
    if mode != "redis":
        addresses["postgres"] = servers.postgres_url
    if mode != "postgres":
        addresses["redis"] = servers.redis_url
    jobs = JobQueue(**addresses)

    @jobs.task(name="noop")
    async def noop(number: int, sent: float, customer: str, text: str) -> None:
        """Do nothing."""

    return jobs


@contextmanager
def profiled(wanted: bool) -> Iterator[None]:
    """Print the functions that take longest."""
    if not wanted:
        yield
        return
    profile = cProfile.Profile()
    with profile:
        yield
    pstats.Stats(profile).sort_stats("tottime").print_stats(LINES)


async def measured(jobs: JobQueue, count: int, size: int) -> None:
    """Enqueue so many jobs, `size` of them a call."""
    payloads = [payload(number) for number in range(count)]
    if size == 1:
        for each in payloads:
            await jobs.enqueue("noop", each)
        return
    for start in range(0, count, size):
        await jobs.enqueue_many("noop", payloads[start : start + size])


async def costs(servers: EmbeddedServers, mode: str, count: int, profile: bool) -> None:
    """Print what an enqueue costs in a mode."""
    with closing(PostgresUsage(servers.postgres_url)) as postgres, closing(RedisUsage(servers.redis_url)) as redis:
        async with queue(servers, mode) as jobs:
            await measured(jobs, LIST, 1)
            for size, number in ((1, count), (LIST, 10 * count)):
                read: tuple[Callable[[], float | None], ...] = (
                    time.perf_counter,
                    time.process_time,
                    postgres.cpu_seconds,
                    redis.cpu_seconds,
                )
                before = [each() or 0.0 for each in read]
                with profiled(profile):
                    await measured(jobs, number, size)
                wall, client, *of_servers = [
                    ((each() or 0.0) - start) / number * 1e6 for each, start in zip(read, before, strict=True)
                ]
                print(
                    f"{mode:15} {size:5,} a call: {wall:6.1f} µs a job; this process {client:6.1f}, "
                    f"PostgreSQL {of_servers[0]:6.1f}, Redis {of_servers[1]:6.1f}"
                )


async def trips(servers: EmbeddedServers) -> None:
    """Print how long trips to the servers take, of drivers alone and of an enqueue, behind a pause and in a row."""
    async with AsyncExitStack() as stack:
        raw = await stack.enter_async_context(
            await psycopg.AsyncConnection.connect(servers.postgres_url, autocommit=True)
        )
        client = await stack.enter_async_context(redis.asyncio.Redis.from_url(servers.redis_url))
        queues = [await stack.enter_async_context(queue(servers, mode)) for mode in MODES]
        await raw.execute("CREATE TABLE public.rows (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), payload text)")
        text = json.dumps(payload(0))
        calls: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
            ("PING", client.ping),
            ("SELECT", lambda: raw.execute("SELECT 1")),
            ("INSERT", lambda: raw.execute("INSERT INTO public.rows (payload) VALUES (%s)", (text,))),
        ]
        for mode, jobs in zip(MODES, queues, strict=True):
            calls.append((f"enqueue, {mode}", partial(jobs.enqueue, "noop", payload(0))))
        for name, call in calls:
            print(
                f"{name:25} {await _median(call, PAUSE):6.0f} µs behind a pause, {await _median(call, 0):6.0f} in a row"
            )


async def _median(call: Callable[[], Awaitable[Any]], pause: float) -> float:
    took = []
    for _ in range(TRIPS):
        await asyncio.sleep(pause)
        began = time.perf_counter()
        await call()
        took.append(time.perf_counter() - began)
    return median(took) * 1e6


async def written(servers: EmbeddedServers, count: int) -> None:
    """Print what PostgreSQL writes ahead for a job, until it is stored and until it has ended, by kind of record."""
    with psycopg.connect(servers.postgres_url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_walinspect")

        async def during(title: str, work: Callable[[], Awaitable[None]]) -> None:
            ((start,),) = connection.execute(LSN).fetchall()
            await work()
            ((end,),) = connection.execute(LSN).fetchall()
            rows = connection.execute(RECORDS, (start, end, LINES)).fetchall()
            print(f"\n{title}: {sum(float(size) for _, _, size in rows) / count:,.0f} bytes of write-ahead log a job")
            for name, records, size in rows:
                if float(size) / count >= 1:
                    print(f"    {name:30} {records / count:5.2f} records, {float(size) / count:6.1f} bytes")

        async with queue(servers, "postgres") as jobs:
            await during("enqueue", lambda: measured(jobs, count, LIST))
            await during("claim and end", lambda: _drained(jobs))


async def _drained(jobs: JobQueue) -> None:
    worker = Worker(jobs, concurrency=500)
    running = asyncio.create_task(worker.run())
    while any(each.pending + each.running for each in (await jobs.inspector.overview()).queues):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    worker.stop()
    await running


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=4_000, help="one a call; ten times as many in lists")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    os.environ.pop("JOBS_CONFIG", None)
    with EmbeddedServers.start(durable=True, redis_appendonly=True) as servers:
        migrate(servers.postgres_url)
        for mode in options.mode or MODES:
            uvloop.run(costs(servers, mode, options.jobs, options.profile))
        uvloop.run(trips(servers))
        with psycopg.connect(servers.postgres_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA jobconsole CASCADE")
        migrate(servers.postgres_url)
        uvloop.run(written(servers, 5 * options.jobs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
