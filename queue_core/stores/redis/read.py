"""The inspector of mode `redis`: jobs, pages, and what it reads of them."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any

from queue_core.errors import FilterError, JobNotFound
from queue_core.model.filters import Filter, SavedFilter, Searched, matches
from queue_core.model.job import MAX_LOG_LINES, Attempt, Job
from queue_core.model.report import (
    Conservation,
    DeadCounts,
    LogPage,
    Order,
    Overview,
    Page,
    Release,
    SeriesPoint,
    SignatureInfo,
    Tally,
    TypeInfo,
)
from queue_core.model.rules import Rules
from queue_core.model.settings import RedisSettings
from queue_core.model.triage.signatures import SignatureDeaths, StoredFacts, TypeRuns
from queue_core.stores.redis.logs import read_log, read_types
from queue_core.stores.redis.records import LIGHT, Entry, Position, attempts_of, homes, job_of, microseconds_of, moment
from queue_core.stores.redis.search import FilterScan, allowed, counted, listed, sifted, unsifted
from queue_core.stores.redis.session import SCHEMA, RedisLink, Restored, chunks
from queue_core.stores.redis.statistics import groups, text_search, totals
from queue_core.stores.redis.statistics.releases import ReleaseNames, read_releases
from queue_core.stores.redis.statistics.signatures import read_deaths, read_facts, read_filters, read_runs, read_titles

SCAN_PAGE, SCAN_ALL = 100_000, 1_000_000
"""Jobs scanned at most for one page, and for a count or for ids. A page that is short for that reason has a cursor for
the next one."""
SCAN_SAMPLE = 40_000
"""Jobs scanned at most for a sample, in 0.2 s."""
SCAN_STEP = 500
"""Jobs scanned for a page at a time."""
LONGEST_PAGE = 10_000
LIGHT_TERMS = frozenset(
    {
        "status",
        "type",
        "queue",
        "error",
        "signature",
        "signatures",
        "tag",
        "priority",
        "retries",
        "worker",
        "host",
        "died",
        "release",
    }
)
"""Fields of filters that a page's own fields decide."""

_SHOWN = (*LIGHT, "<payload", "<result")
_SAMPLED = (*LIGHT, "<<payload")


def _place_of(cursor: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d{1,17})\.([\x00-\x7f]+)", cursor, re.ASCII)
    if match is None:
        raise FilterError("this is no cursor that a page gave", cursor, 0)
    return int(match[1]), match[2]


_WHOLE = (*LIGHT, "payload", "result")


class RedisInspector:
    """Looks at what a `RedisStore` keeps; see queue_core.ports.inspector.Inspector for what each method does."""

    def __init__(self, settings: RedisSettings, rules: Rules | None = None, restored: Restored | None = None) -> None:
        self._link = RedisLink(settings)
        self._link.restored = restored
        self._rules = rules or {}
        self._releases = ReleaseNames(self._link)

    async def overview(self) -> Overview:
        return await totals.overview(self._link, self._rules, self._releases)

    async def get(self, job_id: str) -> Job:
        found = await self._link.find([job_id], _WHOLE)
        if job_id not in found:
            raise JobNotFound(job_id)
        queue, row = found[job_id]
        last = await self._attempts(queue, job_id, -1)
        fields = dict(zip(_WHOLE, row, strict=True))
        releases = await self._releases.of([fields["release"]])
        return job_of(queue, job_id, fields, last[0].traceback if last else None, releases)

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change."""
        after = None if cursor is None else _place_of(cursor)
        if limit <= 0:
            return Page((), None)
        limit = min(limit, LONGEST_PAGE)
        queues, now = await self._link.queues_and_time()
        found: dict[str, tuple[Entry, Job]] = {}
        scanned, last = 0, None
        scan = FilterScan(self._link, unsifted(where), now)
        async for part in self._parts(where, queues, order, after):
            for some in chunks(part, SCAN_STEP):
                for entry, job in await self._read(await scan.matching(some), where, now):
                    found.setdefault(entry.id, (entry, job))
                scanned += len(some)
                if len(found) > limit or scanned >= SCAN_PAGE:
                    last = some[-1]
                    break
            if last is not None:
                break
        shown = list(found.values())[:limit]
        if len(found) > limit:
            last = shown[-1][0]
        return Page(tuple(job for _, job in shown), None if last is None else f"{last.at}.{last.id}")

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        if at_most <= 0:
            return 0
        if (names := counted(where)) is not None:
            return min(at_most, await self._size(where, names))
        if groups.countable(where):
            return await groups.count(self._link, where, at_most)
        total = 0
        async for part in self._ids(where):
            total += len(part)
            if total >= at_most:
                break
        return min(total, at_most)

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first."""
        if limit <= 0:
            return []
        found: dict[str, None] = {}
        async for part in self._ids(where):
            found.update(dict.fromkeys(part))
            if len(found) >= limit:
                break
        return list(found)[:limit]

    async def _size(self, where: Filter, names: Iterable[str]) -> int:
        queues, _ = await self._link.queues_and_time()
        commands = self._link.batch()
        keys = [self._link.keys.of(queue, name) for queue in allowed(queues, where) for name in names]
        for key in keys:
            commands.zcard(key)
        return sum(await self._link.send(commands)) if keys else 0

    async def _parts(
        self, where: Filter, queues: Iterable[str], order: Order, after: Position | None
    ) -> AsyncIterator[Sequence[Entry]]:
        """Yield what may match; what a filter names by whole signatures was sifted by Redis."""
        queues = allowed(queues, where)
        signatures = sifted(where)
        if signatures is not None and order == "newest":
            last = await groups.last_place(self._link, queues, signatures)
            after = after if last is None else min(after or last, last)
        async for part in listed(self._link, where, queues, order, after, sift=True):
            yield part

    async def _ids(self, where: Filter) -> AsyncIterator[list[str]]:
        """Yield the ids of matching jobs in parts, newest first."""
        queues, now = await self._link.queues_and_time()
        scan = FilterScan(self._link, unsifted(where), now)
        scanned = 0
        async for part in self._parts(where, queues, "newest", None):
            yield [entry.id for entry in await scan.matching(part)]
            scanned += len(part)
            if scanned >= SCAN_ALL:
                return

    async def _read(
        self, entries: Sequence[Entry], where: Filter, now: int, fields: Sequence[str] = _SHOWN
    ) -> list[tuple[Entry, Job]]:
        """Return these jobs as lists show them, without those that changed meanwhile and do not match any more."""
        rows = await self._link.read(homes(entries), fields)
        names = [name.lstrip("<") for name in fields]
        light = Filter(tuple(term for term in where.terms if term.field in LIGHT_TERMS), where.trash)
        read = [(one, rows[one.queue, one.id]) for one in entries if (one.queue, one.id) in rows]
        found = [(one, dict(zip(names, row, strict=True))) for one, row in read]
        releases = await self._releases.of(given.get("release") for _, given in found)
        jobs = [(one, job_of(one.queue, one.id, given, releases=releases)) for one, given in found]
        return [(one, job) for one, job in jobs if matches(job, light, moment(now))]

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return the last failed attempts of a job, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        found = await self._link.find([job_id], ["status"])
        if job_id not in found:
            raise JobNotFound(job_id)
        return await self._attempts(found[job_id][0], job_id, 0)

    async def logs(self, job_id: str, limit: int = MAX_LOG_LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        return await read_log(self._link, job_id, limit, after)

    async def types(self) -> dict[str, TypeInfo]:
        """Return what workers have announced of types."""
        return await read_types(self._link)

    async def _attempts(self, queue: str, job_id: str, first: int) -> list[Attempt]:
        commands = self._link.batch()
        commands.lrange(self._link.keys.of(queue, f"attempts:{job_id}"), first, -1)
        (texts,) = await self._link.send(commands)
        releases = await self._releases.of(text.rpartition("\n")[2] for text in texts)
        return attempts_of(job_id, texts, releases)

    async def signature_facts(self, signatures: Sequence[str] | None = None) -> StoredFacts:
        return await read_facts(self._link, signatures)

    async def saved_filters(self) -> list[SavedFilter]:
        return await read_filters(self._link)

    async def signature_deaths(self, signatures: Sequence[str]) -> list[SignatureDeaths]:
        return await read_deaths(self._link, signatures)

    async def titles(self, beginning: str, limit: int) -> dict[str, str]:
        return await read_titles(self._link, beginning, limit)

    async def type_runs(self, types: Sequence[str], newest: int = 50) -> list[TypeRuns]:
        return await read_runs(self._link, types, newest)

    async def releases(self) -> list[Release]:
        return await read_releases(self._link)

    async def known_signatures(self, where: Filter, window: float, limit: int) -> list[SignatureInfo]:
        known = await groups.known_signatures(self._link, where, limit)
        return await self.signatures(where, window, 1, limit) if known is None else known

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        return await groups.signatures(self._link, where, window, slices, limit)

    async def sample(
        self, where: Filter, limit: int, before: datetime | None = None, among: int | None = None
    ) -> Sequence[Job]:
        if limit <= 0:
            return ()
        queues, now = await self._link.queues_and_time()
        scan = FilterScan(self._link, where, now)
        after = None if before is None else (microseconds_of(before), "")
        whole = [term.value for term in where.terms if term.field == "signature" and not term.negated]
        if scan.by_cause and whole and (last := await groups.last_place(self._link, queues, whole[:1])):
            after = last if after is None else min(after, last)
        jobs: list[Job] = []
        scanned, most = 0, among or SCAN_SAMPLE
        async for part in listed(self._link, where, allowed(queues, where), "newest", after):
            looked_at = part[: most - scanned]
            for some in chunks(looked_at, len(part) or 1 if scan.by_cause else SCAN_STEP):
                wanted = (await scan.matching(some))[: limit - len(jobs)]
                jobs += [job for _, job in await self._read(wanted, where, now, _SAMPLED)]
                scanned += len(some)
                if len(jobs) >= limit or scanned >= most:
                    return jobs
        return jobs

    async def search(self, where: Filter, most: int, cursor: str | None = None) -> Searched:
        return await text_search.search(self._link, where, most, None if cursor is None else _place_of(cursor))

    async def dead_counts(self, signature: str) -> DeadCounts:
        return await groups.dead_counts(self._link, signature)

    async def tallies(self) -> list[Tally]:
        return await totals.tallies(self._link)

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        return await totals.series(self._link, minutes, queue)

    async def conservation(self) -> Conservation:
        return await totals.conservation(self._link)

    async def now(self) -> float:
        return (await self._link.queues_and_time())[1] / 1e6

    async def ping(self) -> float:
        start = time.perf_counter()
        commands = self._link.batch()
        commands.ping()
        await self._link.send(commands)
        return time.perf_counter() - start

    async def blockers(self) -> list[dict[str, Any]]:
        """Return none: a server of Redis has no transactions that stay open."""
        return []

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server; values that a server does not report are None."""
        facts = await self._link.facts()
        schema = None
        # A cluster that does not serve the slot of this key is a finding of its own.
        if facts["cluster"] is None or facts["cluster"]["state"] == "ok":
            commands = self._link.batch()
            commands.get(self._link.keys.schema)
            (schema,) = await self._link.send(commands)
        return {"backend": "redis", "schema": int(schema or SCHEMA), "schema_known": SCHEMA} | facts

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._link.close()
