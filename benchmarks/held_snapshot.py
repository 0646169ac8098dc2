"""How the rate of jobs holds while a foreign transaction stays open, so that nothing that ended can be vacuumed away.

    .venv/bin/python benchmarks/held_snapshot.py            # --mode postgres --seconds 600 --ended 0 --rate 0 --json

Two sets of servers with a worker process each take turns: beside one of them a transaction with a snapshot is open and
idle all the time. Each turn without it is followed by a longer one with it, so that what else the machine does meets
both. It prints the ratios of the rates, of the processor time that worker and servers take for each job, which on a
busy machine moves least, and of the time that a bystander's query takes: another application's, in a table of its own
in the same database. `--ended N` writes N jobs and leases that ended into the tables at once, as the load of some time
would have left them. `--rate N` enqueues so many jobs a second instead of as many as are done, with both sets of
servers at work all the time: two of them at such a rate do not keep each other waiting.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import psycopg
from ground import verdict

from jobconsole.bench.ground import BenchOptions, Crew, Ground, cpu_seconds, open_ground, processes
from jobconsole.bench.record import DeliveryRecord, Recorder, payload
from jobconsole.bench.tasks import TYPE, register
from queue_core import JobQueue

BAR, RATE_BAR, COST_BAR, QUERY_BAR = 0.9, 0.99, 1.1, 1.1
"""The least ratio of the rates, with as many jobs as are done and with so many a second, and the greatest ratio of the
processor times and of the times of the bystander's query."""
BULK = 500
AHEAD = 10_000
"""Jobs that wait at any time: the worker is never idle."""
WARM_SECONDS, CLEAN_SECONDS, HELD_SECONDS = 2.0, 6.0, 20.0
"""How long a turn is run in, measured without a snapshot, and with one."""
STEP = 0.05
LAST = 5
"""Turns whose median is the verdict; a fifth of all, where that is more."""
ENDED = """
WITH many AS (SELECT gen_random_uuid() AS id, nextval('job_seq') AS seq FROM generate_series(1, %(count)s)),
jobs AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
    SELECT id, (SELECT min(id) FROM queues), 122::bigint << 45 | seq, seq, 5, 'queued', now(), 'ended', %(payload)s, 3
      FROM many)
INSERT INTO leases (id, token, queue_id, worker, started_at, expires_at)
SELECT id, 1, (SELECT min(id) FROM queues), 'ended', now(), now() + interval '1 hour'
  FROM many
"""
PAYLOAD = json.dumps(payload(0))
TABLES = "-c search_path=jobconsole"
"""The options of a session that finds the queue's tables."""
CLAIMED = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM lease_seq"
"""How many jobs were claimed: exact, at once, and for nothing. The server's own counts of rows are up to ten seconds
late when a session falls idle, and a producer that goes by them leaves the worker without jobs for as long."""

BEGUN = "SELECT EXISTS (SELECT FROM lease_epoch_live)"
"""Whether the first worker has begun to number its claims, which it does by the clock: it counts from there."""

ACCOUNTS, CUSTOMERS = 200_000, 10_000
"""Rows of the bystander's table, some 30 MB, and of whom they are."""
BYSTANDER = """
CREATE TABLE public.accounts AS
    SELECT id, id %% %(customers)s AS customer, id %% 997 AS amount, repeat('x', 100) AS note
      FROM generate_series(1, %(accounts)s) AS id;
CREATE INDEX ON public.accounts (customer);
ANALYZE public.accounts
"""
QUERY = "SELECT count(*), sum(amount), max(note) FROM public.accounts WHERE customer = %s"


class Part(NamedTuple):
    """One turn."""

    # jobs a second
    rate: float
    # microseconds of processor time for each job
    worker: float
    servers: float
    # microseconds that the bystander's query took, the median
    query: float


async def numbered(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Wait until claims are numbered, beside a worker."""
    while not (connection.execute(BEGUN).fetchone() or (False,))[0]:  # noqa: ASYNC110  what the worker does is no event
        await asyncio.sleep(STEP)


class Bystander:
    """Another application in the same database, which asks for twenty rows at a time."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        with psycopg.ClientCursor(self._connection) as cursor:
            cursor.execute(BYSTANDER, {"accounts": ACCOUNTS, "customers": CUSTOMERS})

    def ask(self, until: threading.Event) -> float:
        """Ask from time to time until an event, and return the median of the microseconds that an answer took."""
        took = []
        while not until.wait(STEP):
            customer, began = random.randrange(CUSTOMERS), time.perf_counter()
            self._connection.execute(QUERY, (customer,)).fetchall()
            took.append(time.perf_counter() - began)
        return median(took) * 1e6


class Load:
    """One set of servers, a worker, and a producer that keeps jobs ahead of it while it is its turn."""

    def __init__(self, jobs: JobQueue, ground: Ground, crew: Crew, rate: float) -> None:
        assert ground.settings.postgres.url is not None
        self.url = ground.settings.postgres.url.get_secret_value()
        self._jobs = jobs
        self._ground = ground
        self._crew = crew
        self._rate = rate
        self._looking = psycopg.connect(self.url, autocommit=True, options=TABLES)
        self._bystander = Bystander(self.url)
        self._made = self._before = 0

    async def begin(self) -> None:
        """Wait for the worker, and count from here."""
        await numbered(self._looking)
        self._before = self._claimed()

    def _claimed(self) -> int:
        ((count,),) = self._looking.execute(CLAIMED).fetchall()
        return int(count) - self._before

    def _used(self) -> tuple[float, float]:
        """Return the seconds of processor time of the worker and of the servers."""
        assert self._ground.postgres is not None
        redis = 0.0 if self._ground.redis is None else self._ground.redis.cpu_seconds() or 0.0
        worker = sum(cpu_seconds(pid) or 0.0 for pid in self._crew.pids)
        return worker, (self._ground.postgres.cpu_seconds() or 0.0) + redis

    async def _produce(self) -> None:
        began, first = time.monotonic(), self._made
        while True:
            claimed = self._claimed()
            while self._made - claimed < AHEAD:
                if self._rate and self._made - first >= (time.monotonic() - began) * self._rate:
                    break
                bulk = min(BULK, max(1, round(self._rate * STEP))) if self._rate else BULK
                await self._jobs.enqueue_many(TYPE, [payload(0)] * bulk)
                self._made += bulk
            await asyncio.sleep(STEP)

    async def turn(self, seconds: float) -> Part:
        """Work for some seconds, and then until no job waits any more."""
        producing = asyncio.create_task(self._produce())
        await asyncio.sleep(WARM_SECONDS)
        enough = threading.Event()
        asking = asyncio.create_task(asyncio.to_thread(self._bystander.ask, enough))
        claimed, began, used = self._claimed(), time.monotonic(), self._used()
        await asyncio.sleep(seconds)
        done, took = max(1, self._claimed() - claimed), time.monotonic() - began
        worker, servers = ((after - before) / done * 1e6 for before, after in zip(used, self._used(), strict=True))
        enough.set()
        part = Part(done / took, worker, servers, await asking)
        producing.cancel()
        with suppress(asyncio.CancelledError):
            await producing
        while self._claimed() < self._made:  # noqa: ASYNC110
            await asyncio.sleep(STEP)  # what the worker does is no event
        return part

    def leave(self, count: int) -> None:
        """Write jobs and leases that end at once, as load would have left them."""
        with psycopg.connect(self.url, autocommit=True, options=TABLES) as writing:
            for start in range(0, count, 100_000):
                with writing.transaction():
                    writing.execute(ENDED, {"count": min(100_000, count - start), "payload": PAYLOAD})
                    writing.execute("DELETE FROM leases WHERE worker = 'ended'")
                    writing.execute("DELETE FROM jobs WHERE type = 'ended'")


@asynccontextmanager
async def loading(ground: Ground, rate: float) -> AsyncIterator[Load]:
    """Run a worker process beside a producer."""
    async with (
        register(JobQueue.from_settings(ground.settings), Recorder()) as jobs,
        processes(ground, 1, DeliveryRecord(ground.folder / "run", 1)) as crew,
    ):
        load = Load(jobs, ground, crew, rate)
        await load.begin()
        yield load


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Hold a snapshot."""
    with psycopg.connect(url, options=TABLES) as idle:
        idle.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT count(*) FROM jobs")
        yield


async def held(options: argparse.Namespace, mode: str) -> dict[str, object]:
    """Measure one mode."""
    async with AsyncExitStack() as stack:
        warn = partial(print, file=sys.stderr)
        grounds = [stack.enter_context(open_ground(BenchOptions(mode=mode), warn)) for _ in range(2)]
        without, beside = [await stack.enter_async_context(loading(ground, options.rate)) for ground in grounds]
        for load in (without, beside):
            await load.turn(WARM_SECONDS)
        stack.enter_context(snapshot(beside.url))
        await asyncio.to_thread(beside.leave, options.ended)
        ends, pairs = time.monotonic() + options.seconds, list[tuple[Part, Part]]()
        while time.monotonic() < ends:
            if options.rate:
                pairs.append(await asyncio.gather(without.turn(HELD_SECONDS), beside.turn(HELD_SECONDS)))
            else:
                pairs.append((await without.turn(CLEAN_SECONDS), await beside.turn(HELD_SECONDS)))
            sys.stderr.write(f"{mode} {in_words(*pairs[-1])}\n")
    last = pairs[-max(LAST, len(pairs) // 5) :]
    return {
        "mode": mode,
        "clean": round(median(clean.rate for clean, _ in last)),
        "held": round(median(part.rate for _, part in last)),
        "ratio": ratio(last, 0),
        "worker cost ratio": ratio(last, 1),
        "servers cost ratio": ratio(last, 2),
        "query ratio": ratio(last, 3),
        "ratios": [ratio([pair], 0) for pair in pairs],
        "worker cost ratios": [ratio([pair], 1) for pair in pairs],
        "servers cost ratios": [ratio([pair], 2) for pair in pairs],
        "query ratios": [ratio([pair], 3) for pair in pairs],
    }


def in_words(clean: Part, part: Part) -> str:
    """Return what two turns were like."""
    return ", ".join(
        f"{name} {one.rate:,.0f} jobs/s of {one.worker:.1f} + {one.servers:.1f} us, a query {one.query:.0f} us"
        for name, one in (("clean", clean), ("held", part))
    )


def ratio(pairs: Sequence[tuple[Part, Part]], figure: int) -> float:
    """Return the median ratio of a figure."""
    return round(median(part[figure] / clean[figure] for clean, part in pairs), 3)


def main() -> int:
    """Measure and print; 1 when a mode fell below the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", action="append", choices=("postgres", "postgres+redis"))
    parser.add_argument("--seconds", type=float, default=600.0, help="how long the snapshot is held")
    parser.add_argument("--ended", type=int, default=0, help="jobs that ended before, written at once")
    parser.add_argument("--rate", type=float, default=0.0, help="jobs enqueued a second; 0: as many as are done")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missed = []
    for mode in options.mode or ("postgres", "postgres+redis"):
        found = asyncio.run(held(options, mode))
        sys.stdout.write(json.dumps(found) + "\n" if options.json else "".join(f"{k}: {v}\n" for k, v in found.items()))
        bar = RATE_BAR if options.rate else BAR
        if float(str(found["ratio"])) < bar:
            missed.append(f"{mode}: {found['ratio']} of the clean rate, the bar is {bar}")
        if float(str(found["query ratio"])) > QUERY_BAR:
            missed.append(f"{mode}: a bystander's query took {found['query ratio']} of the clean time")
        missed += [
            f"{mode}: the {name} took {found[f'{name} cost ratio']} of the clean time for each job"
            for name in ("worker", "servers")
            if float(str(found[f"{name} cost ratio"])) > COST_BAR
        ]
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
