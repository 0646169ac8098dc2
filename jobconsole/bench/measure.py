"""The benchmark itself: payloads of a size, enqueue, drain and latency, and how they are timed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from jobconsole.bench.ground import (
    BenchOptions,
    Crew,
    Ground,
    PostgresUsage,
    RedisUsage,
    cpu_seconds,
    inside,
    open_ground,
    peak_mib,
    processes,
)
from jobconsole.bench.record import DeliveryRecord, Recorder, payload
from jobconsole.bench.report import BenchReport, percentile
from jobconsole.bench.tasks import TYPE, register
from jobconsole.embedded.places import DemoError
from queue_core import JobQueue
from queue_core.worker.process import run_loop

LATENCY_JOBS = 200
GAP_SECONDS = 0.02
SINGLE_SECONDS = 3.0
"""The single enqueues end after this time, or after a tenth of the jobs."""
MAX_SINGLE = 5000
BULK = 500
STEP_SECONDS = 0.01
STALL_SECONDS = 60.0
"""So long without any progress, and what has not run is lost."""


class Enqueued(NamedTuple):
    """The rates of the enqueue phase."""

    single: float
    bulk: float
    cpu_us: float


class Drained(NamedTuple):
    """The drain phase; seconds, and CPU seconds from the first job's start on."""

    seconds: float
    worker_cpu: float | None
    postgres_cpu: float | None
    redis_cpu: float | None
    peak_mib: float | None


class Bench:
    """One run of all phases; `run` fills `report`."""

    def __init__(self, options: BenchOptions, ground: Ground, write: Callable[[str], None]) -> None:
        self._options = options
        self._ground = ground
        self._write = write
        self._recorder = Recorder()
        self._jobs = register(JobQueue.from_settings(ground.settings), self._recorder)
        self.report: BenchReport | None = None

    async def run(self) -> None:
        """Measure.

        Raises:
            DemoError: a worker has ended by itself, or never started.
        """
        options = self._options
        async with self._jobs:
            self._write("latency of an idle queue")
            delays = await self._latency()
            self._write(f"enqueueing {options.jobs:,} jobs")
            enqueued = await self._enqueue()
            self._write("draining them")
            record = DeliveryRecord(self._ground.folder / "drain", options.jobs)
            async with self._crew(record) as crew:
                drained = await self._drain(crew)
                lost, repeated = record.missing(), record.repeated()
        run = max(1, options.jobs - lost)
        self.report = BenchReport(
            mode=options.mode,
            jobs=options.jobs,
            workers=options.workers,
            single_enqueue_per_second=enqueued.single,
            bulk_enqueue_per_second=enqueued.bulk,
            bulk_producer_cpu_us_per_job=enqueued.cpu_us,
            drain_per_second=(options.jobs - lost) / drained.seconds,
            latency_p50_ms=percentile(delays, 0.5) * 1000,
            latency_p99_ms=percentile(delays, 0.99) * 1000,
            worker_cpu_us_per_job=_each(drained.worker_cpu, run),
            store_cpu_us_per_job=_each(drained.postgres_cpu, run),
            redis_cpu_us_per_job=_each(drained.redis_cpu, run),
            rss_mib=drained.peak_mib,
            lost=lost,
            repeated=repeated,
        )

    def _crew(self, record: DeliveryRecord) -> AbstractAsyncContextManager[Crew]:
        if self._options.mode == "memory":
            return inside(self._jobs, self._recorder, self._options.workers, record)
        return processes(self._ground, self._options.workers, record)

    async def _latency(self) -> list[float]:
        warm = self._options.workers
        record = DeliveryRecord(self._ground.folder / "latency", warm + LATENCY_JOBS)
        async with self._crew(record) as crew:
            for number in range(warm):
                await self._jobs.enqueue(TYPE, payload(number))
            await self._until(crew, lambda: record.missing() <= LATENCY_JOBS)
            for number in range(warm, record.size):
                await asyncio.sleep(GAP_SECONDS)
                await self._jobs.enqueue(TYPE, payload(number, time.time()))
            if not await self._until(crew, lambda: not record.missing()):
                raise DemoError(f"Of {record.size} jobs, {record.missing()} did not run within {STALL_SECONDS:g} s.")
            return record.delays()

    async def _enqueue(self) -> Enqueued:
        total = self._options.jobs
        singles, seconds, done = min(MAX_SINGLE, max(1, total // 10)), 0.0, 0
        while done < singles and seconds < SINGLE_SECONDS:
            body, start = payload(done), time.perf_counter()
            await self._jobs.enqueue(TYPE, body)
            seconds, done = seconds + time.perf_counter() - start, done + 1
        single = done / seconds
        bulk, seconds, used = max(1, total - done), 0.0, 0.0
        for first in range(done, total, BULK):
            # Made here and not before: a million of them would not fit everywhere.
            bodies = [payload(number) for number in range(first, min(first + BULK, total))]
            start, before = time.perf_counter(), time.process_time()
            await self._jobs.enqueue_many(TYPE, bodies)
            seconds, used = seconds + time.perf_counter() - start, used + time.process_time() - before
        return Enqueued(single, bulk / seconds, used / bulk * 1e6)

    async def _drain(self, crew: Crew) -> Drained:
        record, ground = crew.record, self._ground
        await self._until(crew, lambda: bool(record.starts()))
        before = [_used(ground.postgres), _used(ground.redis)]
        await self._until(crew, lambda: not record.missing())
        while await self._unfinished():
            crew.check()
            await asyncio.sleep(STEP_SECONDS)
        ended, own = time.time(), time.process_time()
        starts = record.starts()
        if not starts:
            raise DemoError(f"No job was started within {STALL_SECONDS:g} s.")
        used = [_since(at.cpu, cpu_seconds(pid) if crew.pids else own) for pid, at in starts.items()]
        return Drained(
            ended - min(at.at for at in starts.values()),
            sum(each for each in used if each is not None) or None,
            _since(before[0], _used(ground.postgres)),
            _since(before[1], _used(ground.redis)),
            peak_mib(crew.pids or (os.getpid(),)),
        )

    async def _unfinished(self) -> bool:
        overview = await self._jobs.inspector.overview()
        return any(queue.pending + queue.running for queue in overview.queues)

    async def _until(self, crew: Crew, reached: Callable[[], bool]) -> bool:
        """Wait until something holds; False when no job has run for long."""
        missing, deadline = -1, time.monotonic()
        while not reached():
            crew.check()
            now = crew.record.missing()
            if now != missing:
                missing, deadline = now, time.monotonic() + STALL_SECONDS
            elif time.monotonic() > deadline:
                return False
            await asyncio.sleep(STEP_SECONDS)
        return True


def _each(seconds: float | None, jobs: int) -> float | None:
    return None if seconds is None else seconds / jobs * 1e6


def _used(server: PostgresUsage | RedisUsage | None) -> float | None:
    return None if server is None else server.cpu_seconds()


def _since(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else now - before


def measure(options: BenchOptions, write: Callable[[str], None], warn: Callable[[str], None]) -> BenchReport:
    """Run a benchmark; `write` is called with what is being measured, `warn` with what was left on named servers.

    Raises:
        DemoError: a server or a worker cannot be used; the error knows its exit code.
        ConfigurationError: the mode is not available.
    """
    with open_ground(options, warn) as ground:
        bench = Bench(options, ground, write)
        run_loop(bench.run())
    assert bench.report is not None
    return bench.report
