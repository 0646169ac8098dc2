"""Dead jobs in groups of the same error."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from queue_core.filters import Filter, Term
from queue_core.inspection import SignatureInfo, minutes_tell
from queue_core.matching import holds
from queue_core.states import Status
from queue_core.stores.redis.link import Link
from queue_core.stores.redis.records import job_of, moment, whole
from queue_core.stores.redis.sifting import Sieve
from queue_core.stores.redis.sources import allowed, streams
from queue_core.stores.redis.walking import Entry, walk

LOOKS = 500_000
"""Dead jobs looked at most."""
_DEAD = Term("status", "=", Status.DEAD.value)
_TOLD = frozenset({"status", "type", "queue", "signature", "age", "id"})
"""Fields that sets and causes tell without a look at the jobs."""


class _Death(NamedTuple):
    entry: Entry
    signature: str
    type: str


class Signatures:
    """See queue_core.inspection.Inspector for what the method does."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        where = where.having(_DEAD)
        if limit <= 0:
            return []
        queues, now = await self._link.look()
        groups: dict[str, list[_Death]] = defaultdict(list)
        looks = 0
        async for deaths in self._deaths(where, allowed(queues, where), now):
            for death in deaths:
                groups[death.signature].append(death)
            looks += len(deaths)
            if looks >= LOOKS:
                break
        window, slices = max(window, 1.0), max(slices, 1)
        if minutes_tell(where):
            trends = await self._trends(groups, now, window, slices)
        else:
            trends = {one: _trend(deaths, now, window, slices) for one, deaths in groups.items()}
        order = sorted(groups, key=lambda one: (-sum(trends[one]), -len(groups[one]), one))[:limit]
        titles = await self._titles(order, groups)
        return [_info(one, groups[one], trends[one], titles.get(one)) for one in order]

    async def _deaths(self, where: Filter, queues: Sequence[str], now: int) -> AsyncIterator[list[_Death]]:
        """Yield the dead jobs that match, the newest first."""
        sieve = Sieve(self._link, where, now)
        by_cause = {term.field for term in where.terms} <= _TOLD
        verdicts: dict[tuple[str, str], bool] = {}
        async for part in walk(self._link, await streams(self._link, where, queues), "newest", None):
            entries = sieve.possible(part) if by_cause else await sieve.sift(part)
            deaths = await self._caused(entries)
            if by_cause:
                for cause in {(death.signature, death.type) for death in deaths} - verdicts.keys():
                    verdicts[cause] = _holds(*cause, where)
                deaths = [death for death in deaths if verdicts[death.signature, death.type]]
            yield deaths

    async def _caused(self, entries: Iterable[Entry]) -> list[_Death]:
        """Return what the jobs died of; those that are not dead any more are left out."""
        by_queue: dict[str, list[Entry]] = {}
        for entry in entries:
            by_queue.setdefault(entry.queue, []).append(entry)
        commands = self._link.batch()
        for queue, some in by_queue.items():
            commands.hmget(self._link.keys.of(queue, "causes"), [entry.id for entry in some])
        found = zip(by_queue.values(), await self._link.send(commands) if by_queue else (), strict=True)
        return [
            _Death(entry, *cause.split(" ", 1))
            for some, causes in found
            for entry, cause in zip(some, causes, strict=True)
            if cause is not None
        ]

    async def _trends(
        self, groups: dict[str, list[_Death]], now: int, window: float, slices: int
    ) -> dict[str, tuple[int, ...]]:
        """Return the deaths of each signature in equal slices of the window, oldest first."""
        queues = {signature: {death.entry.queue for death in deaths} for signature, deaths in groups.items()}
        names = sorted(set().union(*queues.values()))
        since = now / 1e6 - window
        commands = self._link.batch()
        for name in names:
            key = self._link.keys.of(name, "deaths")
            commands.zrangebyscore(key, int(since // 60) << 27, "+inf", withscores=True)
        trends = {signature: [0] * slices for signature in groups}
        for name, found in zip(names, await self._link.send(commands) if names else (), strict=True):
            for member, score in found:
                minute, _, signature = member.partition(" ")
                if name in queues.get(signature, ()):
                    place = int((int(minute) * 60 - since) * slices / window)
                    trends[signature][min(max(place, 0), slices - 1)] += int(score) & ((1 << 27) - 1)
        return {signature: tuple(trend) for signature, trend in trends.items()}

    async def _titles(self, order: Sequence[str], groups: dict[str, list[_Death]]) -> dict[str, tuple[int, str]]:
        """Return when each signature was first seen, in microseconds, and its title."""
        names = sorted({death.entry.queue for signature in order for death in groups[signature]})
        commands = self._link.batch()
        for name in names:
            commands.hmget(self._link.keys.of(name, "signatures"), list(order))
        titles: dict[str, tuple[int, str]] = {}
        for found in await self._link.send(commands) if names else ():
            for signature, text in zip(order, found, strict=True):
                if text is not None:
                    first_seen, _, title = text.partition(" ")
                    seen = (whole(first_seen), title)
                    titles[signature] = min(seen, titles.get(signature, seen))
        return titles


def _trend(deaths: Iterable[_Death], now: int, window: float, slices: int) -> tuple[int, ...]:
    """Return deaths in equal slices of the window, oldest first; a minute counts with the slice that it begins in."""
    since, trend = now / 1e6 - window, [0] * slices
    for death in deaths:
        minute = death.entry.at // 60_000_000
        if minute >= since // 60:
            trend[min(max(int((minute * 60 - since) * slices / window), 0), slices - 1)] += 1
    return tuple(trend)


def _holds(signature: str, type_: str, where: Filter) -> bool:
    """Tell whether what a cause tells is what the filter asks for."""
    job = job_of("", "", {"status": Status.DEAD.value, "type": type_, "signature": signature})
    return all(
        holds(job, term, job.updated_at) for term in where.terms if term.field in {"type", "signature", "status"}
    )


def _info(
    signature: str, deaths: Sequence[_Death], trend: tuple[int, ...], seen: tuple[int, str] | None
) -> SignatureInfo:
    newest = max(deaths, key=lambda death: death.entry[:2])
    first_seen, title = seen or (newest.entry.at, "")
    return SignatureInfo(
        signature=signature,
        title=title,
        count=len(deaths),
        grown=sum(trend),
        trend=trend,
        first_seen=moment(first_seen),
        last_seen=moment(newest.entry.at),
        types=tuple(Counter(death.type for death in deaths).most_common()),
        queues=tuple(sorted({death.entry.queue for death in deaths})),
        sample_id=newest.entry.id,
    )
