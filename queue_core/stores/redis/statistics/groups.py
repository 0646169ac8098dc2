"""Groups of dead jobs by error: their counts, their growth, and what is known of them without a look at the jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

from queue_core.model.filters import Filter, Term, holds
from queue_core.model.report import DeadCount, DeadCounts, SignatureInfo, counts_by_minute
from queue_core.model.states import Status
from queue_core.redis.scripts import Call
from queue_core.stores.redis.records import Entry, Position, job_of, moment, whole
from queue_core.stores.redis.search import FilterScan, allowed, listed, sifted
from queue_core.stores.redis.session import RedisLink, chunks
from queue_core.stores.redis.statistics.cursors import causes

MAX_SCANNED = 500_000
"""Dead jobs read at most, where what they died of does not decide a filter."""
JOBS_PER_SCRIPT, MAX_GROUPED = 4_000, 2_000_000
"""Dead jobs that one script counts, in some 5 ms of Redis, and those of a queue that are counted at most."""
SCRIPTS_PER_TRIP = 10
"""Such scripts in one round trip."""
_DEAD = Term("status", "=", Status.DEAD.value)
_NEEDED = frozenset({"status", "type", "queue", "signature", "signatures", "age", "died", "id", "ids"})
"""Fields that sets and causes have without a read of the jobs."""


class _Death(NamedTuple):
    entry: Entry
    signature: str
    type: str


class _ErrorGroup:
    """What is counted of one signature."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()
        self.queues: set[str] = set()
        # deaths by minute, of the jobs that were read one by one
        self.minutes: Counter[int] = Counter()
        self.newest: Entry | None = None

    def add(self, type_: str, newest: Entry, count: int) -> None:
        """Count jobs of one type and queue, the newest of which is given."""
        self.types[type_] += count
        self.queues.add(newest.queue)
        if self.newest is None or newest[:2] > self.newest[:2]:
            self.newest = newest


async def signatures(link: RedisLink, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
    """Return groups of dead jobs by error."""
    where = where.having(_DEAD)
    if limit <= 0 or sifted(where) == frozenset():
        return []
    queues, now = await link.queues_and_time()
    window, slices = max(window, 1.0), max(slices, 1)
    by_minute = counts_by_minute(where)
    if by_minute and not where.trash:
        groups = await _counted(link, where, allowed(queues, where))
    else:
        groups = await _read(link, where, allowed(queues, where), now)
    if by_minute:
        trends = await _trends(link, groups, now, window, slices)
    else:
        trends = {one: _trend(group.minutes, now, window, slices) for one, group in groups.items()}
    order = sorted(groups, key=lambda one: (-sum(trends[one]), -groups[one].types.total(), one))[:limit]
    titles = await _titles(link, order, sorted(set[str]().union(*(groups[one].queues for one in order))))
    return [_info(one, groups[one], trends[one], titles.get(one)) for one in order]


def countable(where: Filter) -> bool:
    """Return whether Redis itself counts what matches: dead jobs, by what they died of."""
    fields = {term.field for term in where.terms}
    dead = not where.trash and where.statuses() == {Status.DEAD}
    return dead and bool(fields & {"signature", "signatures"}) and counts_by_minute(where)


async def count(link: RedisLink, where: Filter, at_most: int) -> int:
    """Return how many jobs match a filter that is `countable`, at most so many.

    No job is sent: of 1,000,000 dead jobs, 700,000 of which match, that takes half of Redis's time of sending them.
    """
    if sifted(where) == frozenset():
        return 0
    queues, _ = await link.queues_and_time()
    groups = await _counted(link, where, allowed(queues, where), at_most)
    return min(at_most, sum(group.types.total() for group in groups.values()))


async def _counted(
    link: RedisLink, where: Filter, queues: Sequence[str], enough: int | None = None
) -> dict[str, _ErrorGroup]:
    """Return the groups as Redis counts them by what jobs died of: a tenth of the time of reading each.

    `enough`: so many jobs in all groups end it.
    """
    groups: dict[str, _ErrorGroup] = defaultdict(_ErrorGroup)
    total = 0
    places = dict.fromkeys(queues, ("", ""))
    read = Counter[str]()
    while places:
        answers: dict[str, list[Any]] = {}
        for some in chunks(list(places), SCRIPTS_PER_TRIP):
            calls = [Call("group", link.of(name, ("dlq", "errors")), [*places[name], JOBS_PER_SCRIPT]) for name in some]
            answers.update(zip(some, await link.run_many(calls), strict=True))
        for name, (seen, last, score, *counts) in answers.items():
            read[name] += seen
            places[name] = (score, last)
            if seen < JOBS_PER_SCRIPT or read[name] >= MAX_GROUPED:
                del places[name]
            for cause, number, newest, at in zip(*(counts[n::4] for n in range(4)), strict=True):
                signature, _, type_ = cause.partition(" ")
                if _holds(signature, type_, where):
                    groups[signature].add(type_, Entry(int(float(at)), newest, name, Status.DEAD), number)
                    total += number
        if enough is not None and total >= enough:
            break
    return groups


async def _read(link: RedisLink, where: Filter, queues: Sequence[str], now: int) -> dict[str, _ErrorGroup]:
    """Return the groups of the dead jobs that match, each of which is read."""
    groups: dict[str, _ErrorGroup] = defaultdict(_ErrorGroup)
    read = 0
    async for deaths in _deaths(link, where, queues, now):
        for death in deaths:
            groups[death.signature].add(death.type, death.entry, 1)
            groups[death.signature].minutes[death.entry.at // 60_000_000] += 1
        read += len(deaths)
        if read >= MAX_SCANNED:
            break
    return groups


async def _deaths(link: RedisLink, where: Filter, queues: Sequence[str], now: int) -> AsyncIterator[list[_Death]]:
    """Yield the dead jobs that match, the newest first."""
    scan = FilterScan(link, where, now)
    by_cause = {term.field for term in where.terms} <= _NEEDED
    verdicts: dict[tuple[str, str], bool] = {}
    async for part in listed(link, where, queues, "newest", None):
        entries = scan.possible(part) if by_cause else await scan.matching(part)
        deaths = await _caused(link, entries)
        if by_cause:
            for cause in {(death.signature, death.type) for death in deaths} - verdicts.keys():
                verdicts[cause] = _holds(*cause, where)
            deaths = [death for death in deaths if verdicts[death.signature, death.type]]
        yield deaths


async def _caused(link: RedisLink, entries: Sequence[Entry]) -> list[_Death]:
    """Return what the jobs died of; those that are not dead any more are left out."""
    found = await causes(link, entries)
    named = [(entry, found[entry.queue, entry.id]) for entry in entries if (entry.queue, entry.id) in found]
    return [_Death(entry, *cause.split(" ", 1)) for entry, cause in named]


MAX_KNOWN = 10_000
"""Signatures of a queue whose first times are kept (see `fail` in lua/records.lua); with more, some are missing."""


async def known_signatures(link: RedisLink, where: Filter, limit: int) -> list[SignatureInfo] | None:
    """Return what is kept of signatures, without counts and types; None: it is not kept of all.

    Some may have no dead job any more, or none yet.
    """
    queues, now = await link.queues_and_time()
    names = allowed(queues, where)
    commands = link.batch()
    for name in names:
        commands.hgetall(link.keys.of(name, "signatures"))
    found: dict[str, tuple[int, str, list[str]]] = {}
    for name, of_queue in zip(names, await link.send(commands) if names else (), strict=True):
        if len(of_queue) >= MAX_KNOWN:
            return None
        for signature, text in of_queue.items():
            if _holds(signature, "", where):
                first_seen, _, title = text.partition(" ")
                at, other, places = found.get(signature, (now, title, []))
                found[signature] = (min(at, whole(first_seen)), other, [*places, name])
    return [
        SignatureInfo(signature, title, 0, 0, (), moment(at), moment(at), (), tuple(sorted(places)), "")
        for signature, (at, title, places) in sorted(found.items())
    ][:limit]


MAX_COUNTED = 20_000
"""Dead jobs that are looked at to count those of one error."""


async def dead_counts(link: RedisLink, signature: str) -> DeadCounts:
    """Return how many jobs died of an error and are in the DLQ, by queue and type, among the newest dead jobs."""
    where = Filter((_DEAD, Term("signature", "=", signature)))
    queues, now = await link.queues_and_time()
    found = Counter[tuple[str, str]]()
    scanned, first, scan = 0, None, FilterScan(link, where, now)
    async for part in listed(link, where, queues, "newest", await last_place(link, queues, [signature])):
        for death in await _caused(link, await scan.matching(part)):
            found[death.entry.queue, death.type] += 1
            first = death.entry.at
        scanned += len(part)
        if scanned >= MAX_COUNTED:
            seen = await _titles(link, [signature], queues)
            first = min([at for at, _ in seen.values()], default=first)
            break
    rows = sorted(
        (DeadCount(*place, n) for place, n in found.items()), key=lambda row: (-row.count, row.queue, row.type)
    )
    total = found.total() if scanned < MAX_COUNTED else None
    return DeadCounts(tuple(rows), total, None if first is None else moment(first))


async def last_place(link: RedisLink, queues: Sequence[str], signatures: Iterable[str]) -> Position | None:
    """Return a place in the list of the dead, newest first, before which no job died of some errors.

    None: not known.
    """
    names = sorted(signatures)
    if not queues or not names:
        return None
    commands = link.batch()
    for queue in queues:
        commands.zmscore(link.keys.of(queue, "last_seen"), names)
    found = await link.send(commands)
    last = [max((score for score in scores if score is not None), default=None) for scores in zip(*found, strict=True)]
    known = [int(score) for score in last if score is not None]
    return (max(known) + 1, "") if known and len(known) == len(last) else None


async def _trends(
    link: RedisLink, groups: dict[str, _ErrorGroup], now: int, window: float, slices: int
) -> dict[str, tuple[int, ...]]:
    """Return the deaths of each signature in equal slices of the window, oldest first."""
    queues = {signature: group.queues for signature, group in groups.items()}
    names = sorted(set[str]().union(*queues.values()))
    since = now / 1e6 - window
    commands = link.batch()
    for name in names:
        key = link.keys.of(name, "deaths")
        commands.zrangebyscore(key, int(since // 60) << 27, "+inf", withscores=True)
    trends = {signature: [0] * slices for signature in groups}
    for name, found in zip(names, await link.send(commands) if names else (), strict=True):
        for member, score in found:
            minute, _, signature = member.partition(" ")
            if name in queues.get(signature, ()):
                place = int((int(minute) * 60 - since) * slices / window)
                trends[signature][min(max(place, 0), slices - 1)] += int(score) & ((1 << 27) - 1)
    return {signature: tuple(trend) for signature, trend in trends.items()}


async def _titles(link: RedisLink, order: Sequence[str], names: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Return when each signature was first seen in some queues, in microseconds, and its title."""
    commands = link.batch()
    for name in names:
        commands.hmget(link.keys.of(name, "signatures"), list(order))
    titles: dict[str, tuple[int, str]] = {}
    for found in await link.send(commands) if names else ():
        for signature, text in zip(order, found, strict=True):
            if text is not None:
                first_seen, _, title = text.partition(" ")
                seen = (whole(first_seen), title)
                titles[signature] = min(seen, titles.get(signature, seen))
    return titles


def _trend(minutes: Counter[int], now: int, window: float, slices: int) -> tuple[int, ...]:
    """Return deaths in equal slices of the window, oldest first; a minute counts with the slice that it begins in."""
    since, trend = now / 1e6 - window, [0] * slices
    for minute, count in minutes.items():
        if minute >= since // 60:
            trend[min(max(int((minute * 60 - since) * slices / window), 0), slices - 1)] += count
    return tuple(trend)


def _holds(signature: str, type_: str, where: Filter) -> bool:
    """Return whether a cause's fields match the filter."""
    job = job_of("", "", {"status": Status.DEAD.value, "type": type_, "signature": signature})
    return all(
        holds(job, term, job.updated_at)
        for term in where.terms
        if term.field in {"type", "signature", "signatures", "status"}
    )


def _info(signature: str, group: _ErrorGroup, trend: tuple[int, ...], seen: tuple[int, str] | None) -> SignatureInfo:
    newest = group.newest or Entry(0, "", "", Status.DEAD)
    first_seen, title = seen or (newest.at, "")
    return SignatureInfo(
        signature=signature,
        title=title,
        count=group.types.total(),
        grown=sum(trend),
        trend=trend,
        first_seen=moment(first_seen),
        last_seen=moment(newest.at),
        types=tuple(group.types.most_common()),
        queues=tuple(sorted(group.queues)),
        sample_id=newest.id,
    )
