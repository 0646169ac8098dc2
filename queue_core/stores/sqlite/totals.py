"""Exact totals, the series of the last minutes, and where every job is."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from queue_core.inspection import Conservation, SeriesPoint, Tally
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.records import moment


@dataclass(slots=True)
class _Sum:
    count: int = 0
    wait_us: int = 0
    run_us: int = 0
    wait_buckets: Counter[int] = field(default_factory=Counter)
    run_buckets: Counter[int] = field(default_factory=Counter)


class Totals:
    """See queue_core.inspection.Inspector for what each method does."""

    _file: SqliteFile

    async def tallies(self) -> list[Tally]:
        """Return the exact totals of every queue and type."""
        sums: dict[tuple[str, str, str], _Sum] = defaultdict(_Sum)
        rows = await self._file.look(lambda transaction: transaction.rows("inspect/tallies"))
        for queue, type_, outcome, wait_bucket, run_bucket, n, wait_us, run_us in rows:
            found = sums[queue, type_, outcome]
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

        def read(transaction: Transaction) -> list[SeriesPoint]:
            last = int(transaction.now // 60)
            found: dict[int, Counter[str]] = {minute: Counter() for minute in range(last - minutes + 1, last + 1)}
            params = {"first": last - minutes + 1, "last": last, "queue": queue}
            for minute, outcome, n in transaction.rows("inspect/series", params):
                found[minute][outcome] += n
            return [
                SeriesPoint(moment(minute * 60), of["enqueued"], of["completed"], of["retried"], of["dead"])
                for minute, of in found.items()
            ]

        return await self._file.look(read)

    async def conservation(self) -> Conservation:
        """Return where all jobs are; those that were removed go on counting."""

        def read(transaction: Transaction) -> Conservation:
            at = dict.fromkeys(("completed", "cancelled", "dead", "trashed"), 0)
            at |= {place: transaction.rows("inspect/at", (place,))[0][0] for place in at}
            waiting = ("scheduled", "queued", "retrying", "running")
            gone: Counter[str] = Counter(dict(transaction.rows("inspect/gone")))
            return Conservation(
                completed=at["completed"] + gone["expired_completed"],
                dead=at["dead"] + at["trashed"] + gone["expired_dead"] + gone["purged"],
                cancelled=at["cancelled"] + gone["expired_cancelled"],
                unfinished=sum(transaction.rows("inspect/at", (place,))[0][0] for place in waiting),
                retries=gone["retried"],
            )

        return await self._file.look(read)
