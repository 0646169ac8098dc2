"""The figures of a benchmark, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BenchReport:
    """One run. CPU times are microseconds for each drained job; None: not to be had here."""

    mode: str
    jobs: int
    workers: int
    # one awaited call after another
    single_enqueue_per_second: float
    # calls with 500 jobs, one after another
    bulk_enqueue_per_second: float
    bulk_producer_cpu_us_per_job: float
    # from the first job's start until the store shows every job finished
    drain_per_second: float
    # from the call of enqueue on an idle queue to the start of the handler
    latency_p50_ms: float
    latency_p99_ms: float
    worker_cpu_us_per_job: float | None
    # PostgreSQL, all its processes
    store_cpu_us_per_job: float | None
    redis_cpu_us_per_job: float | None
    # the largest resident size of a worker process
    rss_mib: float | None
    # jobs that never ran, and jobs that ran more than once
    lost: int
    repeated: int

    def body(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items()}

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Return each figure with its unit and what it is, for people."""
        yield "enqueue, one at a time", _whole(self.single_enqueue_per_second), "jobs/s"
        yield "enqueue, 500 at a time", _whole(self.bulk_enqueue_per_second), "jobs/s"
        yield "  CPU of the producer", _tenth(self.bulk_producer_cpu_us_per_job), "µs/job"
        yield f"drain by {_named(self.workers)}", _whole(self.drain_per_second), "jobs/s"
        yield "  CPU of the workers", _tenth(self.worker_cpu_us_per_job), "µs/job"
        yield "  CPU of PostgreSQL", _tenth(self.store_cpu_us_per_job), "µs/job"
        yield "  CPU of Redis", _tenth(self.redis_cpu_us_per_job), "µs/job"
        yield "enqueue to start, median", _tenth(self.latency_p50_ms), "ms"
        yield "enqueue to start, 99 of 100", _tenth(self.latency_p99_ms), "ms"
        yield "memory of a worker, at most", _tenth(self.rss_mib), "MiB"
        yield "jobs lost", _whole(self.lost), f"of {self.jobs:,}"
        yield "jobs run twice", _whole(self.repeated), f"of {self.jobs:,}"


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which this part (0 to 1) of the values lies; 0 when there are none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def _named(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _tenth(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
