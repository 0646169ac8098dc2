"""The inspector of SQLite: jobs, pages, overviews, and facts about the file."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from sqlite3 import Row
from typing import Any

from queue_core.errors import JobNotFound
from queue_core.model.addresses import path_of
from queue_core.model.filters import Filter, Searched
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.job import MAX_LOG_LINES, Attempt, Job
from queue_core.model.report import (
    Announced,
    Conservation,
    DeadCount,
    DeadCounts,
    LogPage,
    Order,
    Overview,
    Page,
    QueueInfo,
    Release,
    SeriesPoint,
    SignatureInfo,
    Tally,
    TypeInfo,
    WorkerInfo,
)
from queue_core.model.rules import MAX_PRIORITY, SEQUENCE_BITS
from queue_core.model.triage.signatures import SignatureDeaths, StoredFacts, TypeRuns
from queue_core.ports.inspector import SAMPLED_TEXT
from queue_core.stores.sql.records import id_or_none
from queue_core.stores.sqlite import logs
from queue_core.stores.sqlite.dialect import DIALECT, conditions, load, moment
from queue_core.stores.sqlite.file import file_system, mounts
from queue_core.stores.sqlite.insert import known_jobs
from queue_core.stores.sqlite.migrate import KNOWN
from queue_core.stores.sqlite.session import RowTuple, SqliteFile, Transaction
from queue_core.stores.sqlite.statistics import totals
from queue_core.stores.sqlite.statistics.releases import read_releases
from queue_core.stores.sqlite.statistics.search import after, cursor_of, merged, search
from queue_core.stores.sqlite.statistics.signatures import read_deaths, read_facts, read_filters, read_runs, read_titles


def _facts(transaction: Transaction, name: str) -> dict[str, Any]:
    path = path_of(name).absolute()
    ((schema, mode, size, pages, free),) = transaction.rows("read/facts")
    return {
        "backend": "sqlite",
        "version": sqlite3.sqlite_version,
        "schema": schema,
        "schema_known": KNOWN,
        "path": str(path),
        "file_system": file_system(path, mounts()),
        "journal_mode": mode,
        "bytes": _size(path),
        "wal_bytes": _size(path.with_name(f"{path.name}-wal")),
        "disk_free_bytes": shutil.disk_usage(path.parent).free,
        "page_bytes": size,
        "pages": pages,
        "free_pages": free,
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


HEAD_JOBS = 100
"""Ready jobs of each queue, type and priority that are looked at for the oldest: within a priority they are ranked as
they arrived, so that it is among the first unless as many older ones came back late."""
DUE_JOBS = 500
"""Jobs that become ready next whose types are looked at."""


def _overview(transaction: Transaction) -> Overview:
    queues = [_Queue(transaction, *row) for row in transaction.rows("read/queues")]
    counts = _counts(transaction)
    workers = [_worker(row, transaction.now) for row in transaction.rows("read/workers")]
    names = {queue.number: queue.name for queue in queues}
    waiting = [((names[number], type_), n) for number, type_, n in transaction.rows("read/due_types", (DUE_JOBS,))]
    waiting += [((queue.name, type_), n) for queue in queues for type_, n in queue.types.items()]
    return Overview(
        now=moment(transaction.now),
        queues=tuple(_info(queue, counts[queue.number]) for queue in queues),
        workers=tuple(workers),
        orphaned_types=Announced((one.queues, one.types) for one in workers if not one.lost).orphans(waiting),
    )


class _Queue:
    """A queue and its ready jobs."""

    def __init__(self, transaction: Transaction, number: int, name: str, paused: int, closed: int) -> None:
        self.number = number
        self.name = name
        self.paused = bool(paused)
        self.closed = bool(closed)
        # by priority
        self.depth: Counter[int] = Counter()
        self.types: Counter[str] = Counter()
        self.oldest: float | None = None
        for type_, first, last in _groups(transaction, number):
            ((n,),) = transaction.rows("read/depth", (number, type_, first, last))
            ((since,),) = transaction.rows("read/oldest", (number, type_, first, last, HEAD_JOBS))
            ((aged,),) = transaction.rows("read/aged_depth", (number, type_, first, last))
            if n > aged:
                self._add(MAX_PRIORITY - (first >> SEQUENCE_BITS), type_, n - aged, since)
        for query in ("read/aged", "read/blocked"):
            for type_, priority, n, since in transaction.rows(query, (number,)):
                self._add(priority, type_, n, since)

    def _add(self, priority: int, type_: str, n: int, since: float) -> None:
        self.depth[priority] += n
        self.types[type_] += n
        self.oldest = since if self.oldest is None else min(self.oldest, since)


def _groups(transaction: Transaction, queue_id: int) -> Iterator[tuple[str, int, int]]:
    """Yield each type and priority that has ready jobs, with its ranks, stepping from one to the next in the index."""
    type_, last = "", -1
    while found := transaction.rows("read/next_group", (queue_id, type_, last)):
        type_, first = found[0]
        last = ((first >> SEQUENCE_BITS) + 1 << SEQUENCE_BITS) - 1
        yield type_, first, last


def _counts(transaction: Transaction) -> dict[int, Counter[str]]:
    """Count the jobs of each queue that are neither ready nor over, by state."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for name in ("read/running", "read/waiting", "read/dead"):
        for queue_id, state, n in transaction.rows(name):
            counts[queue_id][state] += n
    return counts


def _info(queue: _Queue, count: Counter[str]) -> QueueInfo:
    return QueueInfo(
        name=queue.name,
        paused=queue.paused,
        depth=dict(queue.depth),
        scheduled=count["scheduled"],
        retrying=count["retrying"],
        running=count["started"] + count["ahead"],
        dead=count["dead"],
        trashed=count["trashed"],
        oldest=None if queue.oldest is None else moment(queue.oldest),
        ahead=count["ahead"],
        closed=queue.closed,
    )


def _worker(row: RowTuple, now: float) -> WorkerInfo:
    name, host, pid, version, queues, types, concurrency, busy, quiet, interval, started_at, heartbeat_at, *more = row
    stuck, release = more
    return WorkerInfo(
        id=name,
        host=host,
        pid=pid,
        version=version,
        queues=tuple(json.loads(queues)),
        types=None if (taken := json.loads(types)) is None else tuple(taken),
        concurrency=concurrency,
        busy=busy,
        quiet=bool(quiet),
        started_at=moment(started_at),
        heartbeat_at=moment(heartbeat_at),
        heartbeat_age=now - heartbeat_at,
        lost=now - heartbeat_at > 3 * interval,
        stuck=stuck,
        release=release,
    )


MAX_COUNTED = 100_000
"""Dead jobs of an error that are counted by queue and type, which takes 0.05 s."""
LONGEST_PAGE = 10_000


def _attempts(transaction: Transaction, job_id: str) -> list[Attempt] | None:
    if not known_jobs(transaction, [job_id]):
        return None
    return [DIALECT.attempt(row) for row in transaction.rows("read/attempts", (job_id,))]


class SqliteInspector:
    """See queue_core.ports.inspector.Inspector for what each method does; opens the file when it is first used."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def overview(self) -> Overview:
        return await self._file.inspect(_overview)

    async def get(self, job_id: str) -> Job:
        found = id_or_none(job_id)
        rows = [] if found is None else await self._file.inspect(lambda t: t.records(load("read/job"), (found,)))
        if not rows:
            raise JobNotFound(job_id)
        return DIALECT.job(rows[0])

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change.

        Raises:
            FilterError: no page gave this cursor.
        """
        behind = None if cursor is None else after(cursor)
        limit = min(limit, LONGEST_PAGE)
        if limit <= 0:
            return Page((), None)

        def read(transaction: Transaction) -> list[Row]:
            wanted = conditions(where, transaction.now)
            if behind is not None:
                wanted = wanted.also(f"after {order}", **behind)
            # One more row than the page shows whether there is a next page.
            return merged(transaction, wanted, "read/page", limit + 1, order)

        rows = await self._file.inspect(read)
        more = cursor_of(rows[limit - 1]) if len(rows) > limit else None
        return Page(tuple(DIALECT.job(row) for row in rows[:limit]), more)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:

        def read(transaction: Transaction) -> int:
            wanted, total = conditions(where, transaction.now), 0
            for state in wanted.places:
                params = wanted.params | {"state": state, "limit": max(at_most - total, 0)}
                total += transaction.records(wanted.query("read/count"), params)[0][0]
            return total

        return await self._file.inspect(read)

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first."""
        if limit <= 0:
            return []

        def read(transaction: Transaction) -> list[str]:
            wanted = conditions(where, transaction.now)
            return [row["id"] for row in merged(transaction, wanted, "read/ids", limit, "newest")]

        return await self._file.inspect(read)

    async def attempts(self, job_id: str) -> list[Attempt]:
        found = id_or_none(job_id)
        attempts = None if found is None else await self._file.inspect(partial(_attempts, job_id=found))
        if attempts is None:
            raise JobNotFound(job_id)
        return attempts

    async def logs(self, job_id: str, limit: int = MAX_LOG_LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        return await logs.read_log(self._file, job_id, limit, after)

    async def types(self) -> dict[str, TypeInfo]:
        """Return the types that workers have announced."""
        return await logs.read_types(self._file)

    async def releases(self) -> list[Release]:
        return await self._file.inspect(read_releases)

    async def signature_facts(self, signatures: Sequence[str] | None = None) -> StoredFacts:
        return await read_facts(self._file, signatures)

    async def saved_filters(self) -> list[SavedFilter]:
        return await self._file.inspect(read_filters)

    async def signature_deaths(self, signatures: Sequence[str]) -> list[SignatureDeaths]:
        return await read_deaths(self._file, signatures)

    async def titles(self, beginning: str, limit: int) -> dict[str, str]:
        return await read_titles(self._file, beginning, limit)

    async def type_runs(self, types: Sequence[str], newest: int = 50) -> list[TypeRuns]:
        return await read_runs(self._file, types, newest)

    async def known_signatures(self, where: Filter, window: float, limit: int) -> list[SignatureInfo]:
        return await self.signatures(where, window, 1, limit)

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        return await totals.signatures(self._file, where, window, slices, limit)

    async def sample(
        self, where: Filter, limit: int, before: datetime | None = None, among: int | None = None
    ) -> Sequence[Job]:
        given = {"room": SAMPLED_TEXT, "before": before.timestamp() if before else 1e12, "among": among}

        def read(transaction: Transaction) -> list[Row]:
            wanted = conditions(where, transaction.now)
            if among is not None:
                return merged(transaction, wanted, "read/recent", limit, "newest", **given)
            return merged(transaction, wanted.also("before"), "read/page", limit, "newest", **given)

        return [DIALECT.job(row) for row in await self._file.inspect(read)] if limit > 0 else ()

    async def search(self, where: Filter, most: int, cursor: str | None = None) -> Searched:
        place = None if cursor is None else after(cursor)
        return await self._file.inspect(partial(search, where=where, most=most, cursor=place))

    async def dead_counts(self, signature: str) -> DeadCounts:
        def read(transaction: Transaction) -> DeadCounts:
            given = {"signature": signature, "most": MAX_COUNTED}
            rows = tuple(DeadCount(*row) for row in transaction.rows("read/dead_counts", given))
            ((first,),) = transaction.rows("read/dead_first", given)
            found = DeadCounts(rows, None, None if first is None else moment(first))
            return replace(found, total=found.counted if found.counted < MAX_COUNTED else None)

        return await self._file.inspect(read)

    async def tallies(self) -> list[Tally]:
        return await totals.tallies(self._file)

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        return await totals.series(self._file, minutes, queue)

    async def conservation(self) -> Conservation:
        """Return where all jobs are; those that were removed go on counting."""
        return await totals.conservation(self._file)

    async def now(self) -> float:
        return await self._file.inspect(lambda transaction: transaction.now)

    async def ping(self) -> float:
        began = time.perf_counter()
        await self._file.inspect(lambda transaction: transaction.rows("read/ping"))
        return time.perf_counter() - began

    async def blockers(self) -> list[dict[str, Any]]:
        """Return none: SQLite does not name who has its lock."""
        return []

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks, in bytes and pages.

        backend, version (of SQLite), schema and schema_known, path, file_system (empty: unknown),
        journal_mode, bytes, wal_bytes, disk_free_bytes, page_bytes, pages and free_pages (used before the file grows).
        """
        return await self._file.inspect(lambda transaction: _facts(transaction, self._file.settings.path))

    async def close(self) -> None:
        """Disconnect from what only this needs; doing it twice is safe."""
        await self._file.close_inspections()
