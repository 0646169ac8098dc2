"""Exact totals, the series of the last minutes, and where every job is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from queue_core.inspection import Conservation, SeriesPoint, Tally
from queue_core.stores.postgres.pool import Pool
from queue_core.stores.postgres.records import utc


@dataclass(slots=True)
class _Sum:
    count: int = 0
    wait_us: int = 0
    run_us: int = 0
    wait_buckets: Counter[int] = field(default_factory=Counter)
    run_buckets: Counter[int] = field(default_factory=Counter)


class Totals:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def tallies(self) -> list[Tally]:
        """Return the exact totals of every queue and type."""
        sums: dict[tuple[str, str, str], _Sum] = {}
        for queue, type_, outcome, wait_bucket, run_bucket, n, wait_us, run_us in await self._pool.rows(
            "inspect/tallies"
        ):
            found = sums.setdefault((queue, type_, outcome), _Sum())
            found.count += n
            found.wait_us += wait_us
            found.run_us += run_us
            # -1: not measured
            if wait_bucket >= 0:
                found.wait_buckets[wait_bucket] += n
            if run_bucket >= 0:
                found.run_buckets[run_bucket] += n
        return [
            Tally(*key, one.count, one.wait_us, one.run_us, dict(one.wait_buckets), dict(one.run_buckets))
            for key, one in sums.items()
        ]

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        """Return the last minutes, oldest first, empty ones included."""
        rows = await self._pool.rows("inspect/series", {"minutes": minutes, "queue": queue})
        return [SeriesPoint(utc(minute), *counts) for minute, *counts in rows]

    async def conservation(self) -> Conservation:
        """Return where all jobs are, from one statement and so from one moment."""
        (row,) = await self._pool.rows("inspect/conservation")
        return Conservation(*row)
