"""Overviews, error signatures and sums."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.model.filters import Filter, Term, holds
from queue_core.model.report import (
    Announced,
    Conservation,
    DeadCount,
    DeadCounts,
    Overview,
    QueueInfo,
    SeriesPoint,
    SignatureInfo,
    Tally,
    WorkerInfo,
    counts_by_minute,
)
from queue_core.model.rules import Rules, rank, rules_of
from queue_core.model.states import UNFINISHED, Status
from queue_core.stores.redis.records import Entry, Place, WorkerEntry, entries_of, job_of, moment, whole
from queue_core.stores.redis.search import SETS, FilterScan, allowed, causes, listed
from queue_core.stores.redis.session import RedisLink, microseconds
from queue_core.stores.redis.statistics.releases import ReleaseNames

HEAD = 50
"""Jobs of each queue and priority that are looked at for the oldest. With aging, what waits the longest is among
the first of all priorities."""

LEASES = 2000
"""Running jobs of each queue that are checked for having started."""

_COUNTED = ("scheduled", "retrying", "running", "dlq", "trash")
RUNNING = _COUNTED.index("running")
_UNFINISHED = tuple(name for state in UNFINISHED for name in SETS[state])
_WHERE = ("completed", "dlq", "trash", "cancelled", *_UNFINISHED)


async def overview(link: RedisLink, rules: Rules, names_of: ReleaseNames) -> Overview:
    """Return queues, workers and depths as of one moment."""
    names, _ = await link.queues_and_time()
    commands = link.snapshot()
    commands.time()
    commands.hgetall(link.keys.workers)
    for name in names:
        commands.exists(link.keys.of(name, "paused"))
        commands.exists(link.keys.of(name, "closed"))
        commands.hgetall(link.keys.of(name, "types"))
        commands.hgetall(link.keys.of(name, "depths"))
        for key in link.of(name, _COUNTED):
            commands.zcard(key)
    time, entries, *found = await link.send(commands)
    now = microseconds(time)
    width = 4 + len(_COUNTED)
    rows = [found[place * width : (place + 1) * width] for place in range(len(names))]
    depths = {name: _depth(row[3]) for name, row in zip(names, rows, strict=True)}
    oldest = await _oldest(link, rules, depths)
    ahead = await _ahead(link, [name for name, row in zip(names, rows, strict=True) if row[4 + RUNNING]])
    known = sorted(entries_of(entries).items())
    releases = await names_of.of(str(entry.request.release) for _, entry in known)
    workers = tuple(_worker(worker, entry, now, releases) for worker, entry in known)
    waiting = [((name, type_), whole(n)) for name, row in zip(names, rows, strict=True) for type_, n in row[2].items()]
    return Overview(
        now=moment(now),
        queues=tuple(
            _queue(name, row, depths[name], oldest.get(name), ahead[name])
            for name, row in zip(names, rows, strict=True)
        ),
        workers=workers,
        orphaned_types=Announced((one.queues, one.types) for one in workers if not one.lost).orphans(waiting),
    )


async def _ahead(link: RedisLink, names: Sequence[str]) -> Counter[str]:
    """Return for each queue how many running jobs have not started, among those whose leases end next."""
    commands = link.batch()
    for name in names:
        commands.zrange(link.keys.of(name, "running"), 0, LEASES - 1)
    ids = dict(zip(names, await link.send(commands) if names else [], strict=True))
    known = await link.read(ids, ["status", "ahead"])
    return Counter(name for (name, _), (status, ahead) in known.items() if status == "running" and ahead)


async def _oldest(link: RedisLink, rules: Rules, depths: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """Return for each queue when the queued job that waits longest was due, among the first of each priority."""
    commands = link.batch()
    places = [(name, priority) for name, depth in depths.items() for priority in depth]
    for name, priority in places:
        key = link.keys.of(name, "pending")
        if rules_of(rules, name).aging:
            commands.zrange(key, 0, HEAD * len(depths[name]) - 1)
        else:
            commands.zrangebyscore(key, rank(priority, 0), f"({rank(priority - 1, 0)}", start=0, num=HEAD)
    for name in depths:
        commands.zrange(link.keys.of(name, "blocked"), 0, 0)
    heads: dict[str, list[str]] = {}
    names = (*(name for name, _ in places), *depths)
    for name, ids in zip(names, await link.send(commands) if depths else [], strict=True):
        heads.setdefault(name, []).extend(ids)
    oldest: dict[str, int] = {}
    for (name, _), (run_at,) in (await link.read(heads, ["run_at"])).items():
        oldest[name] = min(whole(run_at), oldest.get(name, whole(run_at)))
    return oldest


async def tallies(link: RedisLink) -> list[Tally]:
    """Return the exact totals of every queue and type."""
    names, _ = await link.queues_and_time()
    commands = link.batch()
    for name in names:
        commands.hgetall(link.keys.of(name, "tallies"))
    found = await link.send(commands) if names else []
    return [tally for name, fields in zip(names, found, strict=True) for tally in _tallies(name, fields)]


async def series(link: RedisLink, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
    """Return the last minutes, oldest first, empty ones included."""
    names, now = await link.queues_and_time()
    last = now // 60_000_000
    commands = link.batch()
    wanted = [name for name in names if queue in (None, name)]
    for name in wanted:
        commands.zrangebyscore(link.keys.of(name, "minutes"), (last - minutes + 1) << 27, "+inf", withscores=True)
    totals: Counter[tuple[int, str]] = Counter()
    for entries in await link.send(commands) if wanted else []:
        for member, score in entries:
            minute, _, outcome = member.partition(" ")
            totals[int(minute), outcome] += int(score) & ((1 << 27) - 1)
    return [
        SeriesPoint(moment(minute * 60_000_000), *(totals[minute, outcome] for outcome in SeriesPoint._fields[1:]))
        for minute in range(last - minutes + 1, last + 1)
    ]


async def conservation(link: RedisLink) -> Conservation:
    """Return where all jobs are, from one consistent read."""
    names, _ = await link.queues_and_time()
    commands = link.snapshot()
    for name in names:
        commands.hgetall(link.keys.of(name, "tallies"))
        for key in link.of(name, _WHERE):
            commands.zcard(key)
    found = await link.send(commands) if names else []
    width = 1 + len(_WHERE)
    count: Counter[str] = Counter()
    for place, name in enumerate(names):
        fields, *sizes = found[place * width : (place + 1) * width]
        count.update(dict(zip(_WHERE, sizes, strict=True)))
        for tally in _tallies(name, fields):
            count[tally.outcome] += tally.count if tally.outcome not in _WHERE else 0
    return Conservation(
        completed=count["completed"] + count["expired_completed"],
        dead=count["dlq"] + count["trash"] + count["expired_dead"] + count["purged"],
        cancelled=count["cancelled"] + count["expired_cancelled"],
        unfinished=sum(count[name] for name in _UNFINISHED),
        retries=count["retried"],
    )


def _depth(fields: Mapping[str, str]) -> dict[int, int]:
    """Return the queued jobs by priority."""
    found = {field[1:]: whole(n) for field, n in fields.items() if field[:1] == "q"}
    return {int(priority): n for priority, n in found.items() if re.fullmatch(r"-?\d+", priority, re.ASCII)}


def _queue(name: str, row: Sequence[Any], depth: dict[int, int], oldest: int | None, ahead: int) -> QueueInfo:
    paused, closed, _, _, scheduled, retrying, running, dead, trashed = row
    return QueueInfo(
        name=name,
        paused=bool(paused),
        depth=depth,
        scheduled=scheduled,
        retrying=retrying,
        running=running,
        dead=dead,
        trashed=trashed,
        oldest=None if oldest is None else moment(oldest),
        ahead=min(ahead, running),
        closed=bool(closed),
    )


def _worker(worker: str, entry: WorkerEntry, now: int, releases: Mapping[str, str]) -> WorkerInfo:
    started_at, heartbeat_at, request = entry
    return WorkerInfo(
        id=worker,
        host=request.host,
        pid=request.pid,
        version=request.version,
        queues=request.queues,
        types=request.types,
        concurrency=request.concurrency,
        busy=request.busy,
        quiet=request.quiet,
        started_at=moment(started_at),
        heartbeat_at=moment(heartbeat_at),
        heartbeat_age=(now - heartbeat_at) / 1e6,
        lost=entry.is_lost(now),
        stuck=request.stuck,
        release=releases.get(str(request.release)),
    )


def _tallies(queue: str, fields: Mapping[str, str]) -> list[Tally]:
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for field, n in fields.items():
        outcome, _, rest = field.partition(":")
        what, _, type_ = rest.partition(":")
        sums.setdefault((type_, outcome), {})[what] = whole(n)
    return [
        Tally(
            queue,
            type_,
            outcome,
            found.get("n", 0),
            found.get("wait", 0),
            found.get("run", 0),
            _buckets(found, "w"),
            _buckets(found, "r"),
        )
        for (type_, outcome), found in sums.items()
    ]


def _buckets(found: Mapping[str, int], letter: str) -> dict[int, int]:
    return {int(what[1:]): n for what, n in found.items() if what[:1] == letter and what[1:].isdecimal()}


SCANNED_MOST = 500_000
"""Dead jobs scanned at most."""
_DEAD = Term("status", "=", Status.DEAD.value)
_NEEDED = frozenset({"status", "type", "queue", "signature", "signatures", "age", "died", "id", "ids"})
"""Fields that sets and causes have without a read of the jobs."""


class _Death(NamedTuple):
    entry: Entry
    signature: str
    type: str


async def signatures(link: RedisLink, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
    """Return groups of dead jobs by error."""
    where = where.having(_DEAD)
    if limit <= 0:
        return []
    queues, now = await link.queues_and_time()
    groups: dict[str, list[_Death]] = defaultdict(list)
    scanned = 0
    async for deaths in _deaths(link, where, allowed(queues, where), now):
        for death in deaths:
            groups[death.signature].append(death)
        scanned += len(deaths)
        if scanned >= SCANNED_MOST:
            break
    window, slices = max(window, 1.0), max(slices, 1)
    if counts_by_minute(where):
        trends = await _trends(link, groups, now, window, slices)
    else:
        trends = {one: _trend(deaths, now, window, slices) for one, deaths in groups.items()}
    order = sorted(groups, key=lambda one: (-sum(trends[one]), -len(groups[one]), one))[:limit]
    titles = await _titles(link, order, sorted({death.entry.queue for one in order for death in groups[one]}))
    return [_info(one, groups[one], trends[one], titles.get(one)) for one in order]


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


COUNTED_MOST = 20_000
"""Dead jobs that are looked at to count those of one error."""


async def dead_counts(link: RedisLink, signature: str) -> DeadCounts:
    """Return how many jobs died of an error and are in the DLQ, by queue and type, among the newest dead jobs."""
    where = Filter((_DEAD, Term("signature", "=", signature)))
    queues, now = await link.queues_and_time()
    found = Counter[tuple[str, str]]()
    scanned, first, scan = 0, None, FilterScan(link, where, now)
    async for part in listed(link, where, queues, "newest", await last_place(link, queues, signature)):
        for death in await _caused(link, await scan.matching(part)):
            found[death.entry.queue, death.type] += 1
            first = death.entry.at
        scanned += len(part)
        if scanned >= COUNTED_MOST:
            seen = await _titles(link, [signature], queues)
            first = min([at for at, _ in seen.values()], default=first)
            break
    rows = sorted(
        (DeadCount(*place, n) for place, n in found.items()), key=lambda row: (-row.count, row.queue, row.type)
    )
    total = found.total() if scanned < COUNTED_MOST else None
    return DeadCounts(tuple(rows), total, None if first is None else moment(first))


async def last_place(link: RedisLink, queues: Sequence[str], signature: str) -> Place | None:
    """Return a place in the list of the dead, newest first, before which no job died of an error; None: not known."""
    commands = link.batch()
    for name in queues:
        commands.zscore(link.keys.of(name, "last_seen"), signature)
    found = [int(score) for score in (await link.send(commands) if queues else ()) if score is not None]
    return (max(found) + 1, "") if found else None


async def _trends(
    link: RedisLink, groups: dict[str, list[_Death]], now: int, window: float, slices: int
) -> dict[str, tuple[int, ...]]:
    """Return the deaths of each signature in equal slices of the window, oldest first."""
    queues = {signature: {death.entry.queue for death in deaths} for signature, deaths in groups.items()}
    names = sorted(set().union(*queues.values()))
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


def _trend(deaths: Iterable[_Death], now: int, window: float, slices: int) -> tuple[int, ...]:
    """Return deaths in equal slices of the window, oldest first; a minute counts with the slice that it begins in."""
    since, trend = now / 1e6 - window, [0] * slices
    for death in deaths:
        minute = death.entry.at // 60_000_000
        if minute >= since // 60:
            trend[min(max(int((minute * 60 - since) * slices / window), 0), slices - 1)] += 1
    return tuple(trend)


def _holds(signature: str, type_: str, where: Filter) -> bool:
    """Return whether a cause's fields match the filter."""
    job = job_of("", "", {"status": Status.DEAD.value, "type": type_, "signature": signature})
    return all(
        holds(job, term, job.updated_at)
        for term in where.terms
        if term.field in {"type", "signature", "signatures", "status"}
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
