"""The inspector of PostgreSQL: jobs, pages, overviews, and facts about the server."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from queue_core.errors import JobNotFound
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
from queue_core.model.rules import Rules, rules_of
from queue_core.model.settings import PostgresSettings
from queue_core.model.triage.signatures import SignatureDeaths, StoredFacts, TypeRuns
from queue_core.ports.inspector import SAMPLED_TEXT
from queue_core.stores.postgres import logs
from queue_core.stores.postgres.dialect import (
    DIALECT,
    EVERY_TYPE,
    conditions,
    load,
    moment,
    plain_array,
)
from queue_core.stores.postgres.session.pool import ConnectionPool, Row, check_writes
from queue_core.stores.postgres.statistics import releases, totals
from queue_core.stores.postgres.statistics.facts import read_blockers, read_server
from queue_core.stores.postgres.statistics.search import after, cursor_of, search
from queue_core.stores.postgres.statistics.signatures import (
    read_deaths,
    read_facts,
    read_filters,
    read_runs,
    read_titles,
)
from queue_core.stores.sql.records import id_or_none

Fetch = Callable[..., Awaitable[list[Row]]]
"""`ConnectionPool.fetch` on one connection."""

HEAD_JOBS = 500
"""Jobs of each queue and priority that are looked at for the oldest and for types without a worker."""


class _Counts:
    """Jobs by queue number."""

    def __init__(
        self,
        *,
        ranked: Iterable[Row],
        running: Iterable[Row],
        blocked: Iterable[Row],
        waiting: Iterable[Row],
        dead: Iterable[Row],
    ):
        self.depth: dict[int, Counter[int]] = defaultdict(Counter)
        # jobs that wait for their ordering keys
        self.blocked = list(blocked)
        self.running: Counter[int] = Counter()
        self.ahead: Counter[int] = Counter()
        self.waiting = {(queue, status): n for queue, status, n in waiting}
        self.dead = {(queue, trashed): n for queue, trashed, n in dead}
        # A running job keeps its rank, so that the ready ones are what remains.
        busy: dict[tuple[int, int], int] = {}
        for queue, priority, n, ahead in running:
            busy[queue, priority] = n
            self.running[queue] += n
            self.ahead[queue] += ahead
        for queue, priority, n in ranked:
            if ready := n - busy.get((queue, priority), 0):
                self.depth[queue][priority] = ready
        # of these alone the first in order are looked at
        self.ready = [(queue, priority) for queue, depth in self.depth.items() for priority in depth]
        for queue, priority, _, n, _ in self.blocked:
            self.depth[queue][priority] += n


async def _counts(fetch: Fetch, aging: Collection[int]) -> _Counts:
    params = {"aging": plain_array(aging)}
    aged = await fetch("read/aged_depths", params) if aging else []
    return _Counts(
        ranked=aged + await fetch("read/depths", params),
        running=await fetch("read/running"),
        blocked=await fetch("read/blocked"),
        waiting=await fetch("read/waiting"),
        dead=await fetch("read/dead"),
    )


async def _heads(fetch: Fetch, counts: _Counts, aging: Collection[int]) -> list[Row]:
    pairs = {(queue, None if queue in aging else priority) for queue, priority in counts.ready}
    params = {
        "queue_ids": plain_array(queue for queue, _ in pairs),
        "priorities": plain_array(priority for _, priority in pairs),
        "limit": HEAD_JOBS,
    }
    return await fetch("read/heads", params)


def _queue(row: Row, counts: _Counts, heads: list[Row]) -> QueueInfo:
    number, name, paused, closed = row
    oldest: list[datetime] = [since for queue, _, _, since in heads if queue == number]
    return QueueInfo(
        name=name,
        paused=paused,
        depth=dict(counts.depth.get(number, {})),
        scheduled=counts.waiting.get((number, "scheduled"), 0),
        retrying=counts.waiting.get((number, "retrying"), 0),
        running=counts.running[number],
        dead=counts.dead.get((number, False), 0),
        trashed=counts.dead.get((number, True), 0),
        oldest=moment(min(oldest)) if oldest else None,
        ahead=counts.ahead[number],
        closed=closed,
    )


def _worker(row: Row) -> WorkerInfo:
    name, host, pid, version, queues, types, concurrency, busy, quiet, started_at, *more = row
    heartbeat_at, age, lost, stuck, release = more
    return WorkerInfo(
        id=name,
        host=host,
        pid=pid,
        version=version,
        queues=tuple(queues),
        types=None if tuple(types) == EVERY_TYPE else tuple(types),
        concurrency=concurrency,
        busy=busy,
        quiet=quiet,
        started_at=moment(started_at),
        heartbeat_at=moment(heartbeat_at),
        heartbeat_age=age,
        lost=lost,
        stuck=stuck,
        release=release,
    )


MAX_COUNTED = 100_000
"""Dead jobs of an error that are counted by queue and type, which takes 0.02 to 0.2 s, as busy as the machine is."""
PAGE_TEXT = 4096
"""Characters of a payload and of a result that a page carries."""
LONGEST_PAGE = 10_000


class PostgresInspector:
    """See queue_core.ports.inspector.Inspector for what each method does; connects when it is first used."""

    def __init__(self, settings: PostgresSettings, rules: Rules | None = None) -> None:
        self._pool = ConnectionPool(settings)
        self._rules = rules or {}

    async def overview(self) -> Overview:
        async with self._pool.snapshot() as connection:
            ((now,),) = await self._pool.fetch(connection, "read/now")
            queues = await self._pool.fetch(connection, "read/queues")
            aging = {number for number, name, *_ in queues if rules_of(self._rules, name).aging}
            fetch = partial(self._pool.fetch, connection)
            counts = await _counts(fetch, aging)
            heads = await _heads(fetch, counts, aging)
            heads += [(queue, type_, n, since) for queue, _, type_, n, since in counts.blocked]
            due = await self._pool.fetch(connection, "read/due", {"limit": HEAD_JOBS})
            workers = [_worker(row) for row in await self._pool.fetch(connection, "read/workers")]
        names = {number: name for number, name, *_ in queues}
        # Jobs under a number that no queue has are of a queue that a failover has lost.
        waiting = [((names[row[0]], row[1]), row[2]) for row in (*heads, *due) if row[0] in names]
        return Overview(
            now=moment(now),
            queues=tuple(_queue(row, counts, heads) for row in queues),
            workers=tuple(workers),
            orphaned_types=Announced((one.queues, one.types) for one in workers if not one.lost).orphans(waiting),
        )

    async def get(self, job_id: str) -> Job:
        found = id_or_none(job_id)
        query = load("read/job", self._pool.settings.schema)
        rows = await self._pool.records(query, {"id": found}) if found else []
        if not rows:
            raise JobNotFound(job_id)
        return DIALECT.job(rows[0])

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change.

        Raises:
            FilterError: no page gave this cursor.
        """
        wanted = conditions(where, self._pool.settings.schema)
        if wanted is None or limit <= 0:
            return Page((), None)
        limit = min(limit, LONGEST_PAGE)
        if cursor is not None:
            wanted = wanted.also(f"after {order}", **after(cursor))
        query = wanted.query("read/page", "read/page_view", order)
        # One more row than the page shows whether there is a next page.
        rows = await self._pool.records(query, {**wanted.params, "limit": limit + 1, "room": PAGE_TEXT})
        more = cursor_of(rows[limit - 1]) if len(rows) > limit else None
        return Page(tuple(DIALECT.job(row) for row in rows[:limit]), more)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        wanted = conditions(where, self._pool.settings.schema)
        if wanted is None or at_most <= 0:
            return 0
        query = wanted.query("read/count", "read/count_view")
        rows = await self._pool.rows(query, wanted.params | {"limit": at_most})
        return min(int(rows[0][0]), at_most)

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first."""
        wanted = conditions(where, self._pool.settings.schema)
        if wanted is None or limit <= 0:
            return []
        query = wanted.query("read/ids", "read/ids_view")
        return [row[0] for row in await self._pool.rows(query, wanted.params | {"limit": limit})]

    async def attempts(self, job_id: str) -> list[Attempt]:
        found = id_or_none(job_id)
        rows = await self._pool.rows("read/attempts", {"id": found}) if found else []
        if not rows and not (found and (await self._pool.rows("read/exists", {"id": found}))[0][0]):
            raise JobNotFound(job_id)
        return [DIALECT.attempt(row) for row in rows]

    async def logs(self, job_id: str, limit: int = MAX_LOG_LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        return await logs.read_log(self._pool, job_id, limit, after)

    async def types(self) -> dict[str, TypeInfo]:
        """Return the types that workers have announced."""
        return await logs.read_types(self._pool)

    async def releases(self) -> list[Release]:
        return await releases.read_releases(self._pool)

    async def signature_facts(self, signatures: Sequence[str] | None = None) -> StoredFacts:
        return await read_facts(self._pool, signatures)

    async def saved_filters(self) -> list[SavedFilter]:
        return await read_filters(self._pool)

    async def signature_deaths(self, signatures: Sequence[str]) -> list[SignatureDeaths]:
        return await read_deaths(self._pool, signatures)

    async def titles(self, beginning: str, limit: int) -> dict[str, str]:
        return await read_titles(self._pool, beginning, limit)

    async def type_runs(self, types: Sequence[str], newest: int = 50) -> list[TypeRuns]:
        return await read_runs(self._pool, types, newest)

    async def known_signatures(self, where: Filter, window: float, limit: int) -> list[SignatureInfo]:
        return await self.signatures(where, window, 1, limit)

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        return await totals.signatures(self._pool, where, window, slices, limit)

    async def sample(
        self, where: Filter, limit: int, before: datetime | None = None, among: int | None = None
    ) -> Sequence[Job]:
        wanted = conditions(where, self._pool.settings.schema)
        if wanted is None or limit <= 0:
            return ()
        if among is None and before is not None:
            wanted = wanted.also("before")
        query = wanted.query("read/page", "read/page_view" if among is None else "read/recent_view")
        given = {"limit": limit, "before": before, "among": among, "room": SAMPLED_TEXT}
        return [DIALECT.job(row) for row in await self._pool.records(query, wanted.params | given)]

    async def search(self, where: Filter, most: int, cursor: str | None = None) -> Searched:
        return await search(self._pool, where, most, cursor)

    async def dead_counts(self, signature: str) -> DeadCounts:
        given = {"signature": signature, "most": MAX_COUNTED}
        found = DeadCounts(
            tuple(DeadCount(*row) for row in await self._pool.rows("read/dead_counts", given)), None, None
        )
        ((first,),) = await self._pool.rows("read/dead_first", given)
        total = found.counted if found.counted < MAX_COUNTED else None
        return replace(found, total=total, first=None if first is None else moment(first))

    async def tallies(self) -> list[Tally]:
        return await totals.tallies(self._pool)

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        return await totals.series(self._pool, minutes, queue)

    async def conservation(self) -> Conservation:
        """Return where all jobs are; those that were removed go on counting."""
        return await totals.conservation(self._pool)

    async def now(self) -> float:
        async with self._pool.connection() as connection:
            ((now,),) = await self._pool.fetch(connection, "read/now")
        return float(now.timestamp())

    async def ping(self) -> float:
        """Return the seconds of one round trip."""
        async with self._pool.connection() as connection:
            began = time.perf_counter()
            await self._pool.fetch(connection, "read/ping")
            return time.perf_counter() - began

    async def check_writes(self) -> None:
        """Make sure that the server's disk is not full, and that it takes writes where one was asked for that does.

        Raises:
            StoreUnavailable: it is, or does not, or there was no answer in time.
        """
        await check_writes(self._pool)

    async def blockers(self) -> list[dict[str, Any]]:
        return await read_blockers(self._pool)

    async def facts(self) -> dict[str, Any]:
        return await read_server(self._pool, self._rules)

    async def close(self) -> None:
        await self._pool.close()
