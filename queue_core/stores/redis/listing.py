"""Jobs by filter: pages, counts and ids, in the order of their last changes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence

from queue_core.errors import FilterError
from queue_core.filters import Filter
from queue_core.inspection import Order, Page
from queue_core.job import Job
from queue_core.matching import matches
from queue_core.stores.redis.link import Link, chunks
from queue_core.stores.redis.records import LIGHT, job_of, moment
from queue_core.stores.redis.sifting import Sieve, homes
from queue_core.stores.redis.sources import allowed, counted, streams
from queue_core.stores.redis.walking import Entry, Place, walk

LOOKS_PAGE, LOOKS_ALL = 100_000, 1_000_000
"""Jobs looked at most for one page, and for a count or for ids. A page that is short for that reason has a cursor that
goes on."""
LOOK = 500
"""Jobs looked at for a page at a time."""
LONGEST_PAGE = 10_000
LIGHT_TERMS = frozenset({"status", "type", "queue", "error", "signature", "tag", "priority", "retries", "worker"})
"""Fields of filters that a page's own fields decide."""

_SHOWN = (*LIGHT, "<payload", "<result")
_NAMES = [name.lstrip("<") for name in _SHOWN]


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
        queues, now = await self._link.look()
        found: dict[str, tuple[Entry, Job]] = {}
        looks, last = 0, None
        sieve = Sieve(self._link, where, now)
        async for part in self._parts(where, queues, order, after):
            for some in chunks(part, LOOK):
                for entry, job in await self._read(await sieve.sift(some), where, now):
                    found.setdefault(entry.id, (entry, job))
                looks += len(some)
                if len(found) > limit or looks >= LOOKS_PAGE:
                    last = some[-1]
                    break
            if last is not None:
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

    async def _parts(
        self, where: Filter, queues: Iterable[str], order: Order, after: Place | None
    ) -> AsyncIterator[Sequence[Entry]]:
        async for part in walk(self._link, await streams(self._link, where, allowed(queues, where)), order, after):
            yield part

    async def _ids(self, where: Filter) -> AsyncIterator[list[str]]:
        """Yield the ids of matching jobs in parts, newest first."""
        queues, now = await self._link.look()
        sieve = Sieve(self._link, where, now)
        looks = 0
        async for part in self._parts(where, queues, "newest", None):
            yield [entry.id for entry in await sieve.sift(part)]
            looks += len(part)
            if looks >= LOOKS_ALL:
                return

    async def _read(self, entries: Sequence[Entry], where: Filter, now: int) -> list[tuple[Entry, Job]]:
        """Return these jobs as lists show them, without those that changed meanwhile and do not match any more."""
        rows = await self._link.read(homes(entries), _SHOWN)
        light = Filter(tuple(term for term in where.terms if term.field in LIGHT_TERMS), where.trash)
        read = [(one, rows[one.queue, one.id]) for one in entries if (one.queue, one.id) in rows]
        jobs = [(one, job_of(one.queue, one.id, dict(zip(_NAMES, row, strict=True)))) for one, row in read]
        return [(one, job) for one, job in jobs if matches(job, light, moment(now))]


def _place_of(cursor: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d{1,17})\.(.+)", cursor, re.ASCII | re.DOTALL)
    if match is None:
        raise FilterError("this is no cursor that a page gave", cursor, 0)
    return int(match[1]), match[2]
