"""Jobs by filter: pages, counts and ids, in the order of their last changes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from queue_core.errors import FilterError
from queue_core.filters import Filter
from queue_core.inspection import Order, Page
from queue_core.job import Job
from queue_core.matching import matches
from queue_core.stores.redis.link import Link, chunks
from queue_core.stores.redis.records import LIGHT, job_of, moment
from queue_core.stores.redis.sources import allowed, counted, decided, possible, streams
from queue_core.stores.redis.walking import Entry, walk

LOOKS_PAGE, LOOKS_ALL = 50_000, 500_000
"""Jobs read at most for one page, and for a count or for ids, some 10 µs each. A page that is short for that reason has
a cursor that goes on."""
LONGEST_PAGE = 10_000
WHOLE = 20
"""Jobs whose whole payloads are read at a time; each may have a mebibyte."""

_SHOWN = (*LIGHT, "<payload", "<result")

_Place = tuple[str, str]
"""Queue and id."""


class Listing:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change."""
        after = None if cursor is None else _place_of(cursor)
        if limit <= 0:
            return Page((), None)
        limit = min(limit, LONGEST_PAGE)
        found: dict[str, tuple[Entry, Job]] = {}
        looks = 0
        last: Entry | None = None
        async for entries, jobs in self._matching(where, order, after):
            found.update((entry.id, (entry, jobs[entry.id])) for entry in entries if entry.id in jobs)
            looks += len(entries)
            if len(found) > limit or looks >= LOOKS_PAGE:
                last = entries[-1]
                break
        shown = list(found.values())[:limit]
        if len(found) > limit:
            last = shown[-1][0]
        return Page(tuple(job for _, job in shown), None if last is None else f"{last.at}.{last.id}")

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match, counting no further than `at_most`."""
        if at_most <= 0:
            return 0
        if (names := counted(where)) is not None:
            return min(at_most, await self._size(where, names))
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
        queues, _ = await self._link.look()
        commands = self._link.batch()
        keys = [self._link.keys.of(queue, name) for queue in allowed(queues, where) for name in names]
        for key in keys:
            commands.zcard(key)
        return sum(await self._link.send(commands)) if keys else 0

    async def _ids(self, where: Filter) -> AsyncIterator[list[str]]:
        """Yield the ids of matching jobs in parts, newest first; jobs are read only where their sets do not tell."""
        queues, now = await self._link.look()
        looks = 0
        async for part in walk(self._link, await streams(self._link, where, allowed(queues, where)), "newest", None):
            entries = possible(part, where, now)
            if decided(entries, where):
                yield [entry.id for entry in entries]
                continue
            for some in chunks(entries):
                jobs = await self.read(some, where, now)
                yield [entry.id for entry in some if entry.id in jobs]
            looks += len(entries)
            if looks >= LOOKS_ALL:
                return

    async def _matching(
        self, where: Filter, order: Order, after: tuple[int, str] | None
    ) -> AsyncIterator[tuple[Sequence[Entry], dict[str, Job]]]:
        """Yield entries with those jobs among them that match."""
        queues, now = await self._link.look()
        async for part in walk(self._link, await streams(self._link, where, allowed(queues, where)), order, after):
            entries = possible(part, where, now)
            for some in chunks(entries):
                yield some, await self.read(some, where, now, _SHOWN)
            if not entries:
                # Passing over many at once is one look.
                yield part[-1:], {}

    async def read(
        self, entries: Sequence[Entry], where: Filter, now: int, fields: Sequence[str] = LIGHT
    ) -> dict[str, Job]:
        """Return those jobs that match, with these of their fields."""
        rows = await self._link.read(_homes((entry.queue, entry.id) for entry in entries), fields)
        names = [name.lstrip("<") for name in fields]
        found = {place: dict(zip(names, row, strict=True)) for place, row in rows.items()}
        light = Filter(tuple(term for term in where.terms if not _of_payload(term.field)), where.trash)
        jobs = {place: job_of(*place, values) for place, values in found.items()}
        jobs = {place: job for place, job in jobs.items() if matches(job, light, moment(now))}
        if light != where:
            jobs = await self._by_payload(jobs, found, where, now)
        return {job_id: job for (_, job_id), job in jobs.items()}

    async def _by_payload(
        self, jobs: Mapping[_Place, Job], found: Mapping[_Place, dict[str, Any]], where: Filter, now: int
    ) -> dict[_Place, Job]:
        """Return those jobs whose whole payloads match, too."""
        kept: dict[_Place, Job] = {}
        for some in chunks(list(jobs), WHOLE):
            for place, (_, payload) in (await self._link.read(_homes(some), ["status", "payload"])).items():
                if matches(job_of(*place, found[place] | {"payload": payload}), where, moment(now)):
                    kept[place] = jobs[place]
        return kept


def _place_of(cursor: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d{1,17})\.(.+)", cursor, re.ASCII | re.DOTALL)
    if match is None:
        raise FilterError("this is no cursor that a page gave", cursor, 0)
    return int(match[1]), match[2]


def _homes(places: Iterable[_Place]) -> dict[str, list[str]]:
    homes: dict[str, list[str]] = {}
    for queue, job_id in places:
        homes.setdefault(queue, []).append(job_id)
    return homes


def _of_payload(field: str) -> bool:
    return field == "text" or field.startswith("payload")
