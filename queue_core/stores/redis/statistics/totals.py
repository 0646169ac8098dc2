"""Overviews and sums."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio.client import Pipeline

from queue_core.model.report import (
    Announced,
    Conservation,
    Overview,
    QueueInfo,
    SeriesPoint,
    Tally,
    WorkerInfo,
)
from queue_core.model.rules import Rules, rank, rules_of
from queue_core.model.states import UNFINISHED
from queue_core.stores.redis.records import WorkerEntry, entries_of, moment, whole
from queue_core.stores.redis.search import SETS
from queue_core.stores.redis.session import RedisLink, microseconds
from queue_core.stores.redis.statistics.releases import ReleaseNames

HEAD_JOBS = 50
"""Jobs of each queue and priority that are looked at for the oldest. With aging, what waits the longest is among
the first of all priorities."""

LEASES_CHECKED = 2000
"""Running jobs of each queue that are checked for having started."""

_COUNTED = ("scheduled", "retrying", "running", "dlq", "trash")
RUNNING = _COUNTED.index("running")
_UNFINISHED = tuple(name for state in UNFINISHED for name in SETS[state])
_WHERE = ("completed", "dlq", "trash", "cancelled", *_UNFINISHED)


async def overview(link: RedisLink, rules: Rules, names_of: ReleaseNames) -> Overview:
    """Return queues, workers and depths as of one moment."""
    names, _ = await link.queues_and_time()

    def ask(commands: Pipeline) -> None:
        commands.time()
        commands.hgetall(link.keys.workers)
        for name in names:
            commands.exists(link.keys.of(name, "paused"))
            commands.exists(link.keys.of(name, "closed"))
            commands.hgetall(link.keys.of(name, "types"))
            commands.hgetall(link.keys.of(name, "depths"))
            for key in link.of(name, _COUNTED):
                commands.zcard(key)

    time, entries, *found = await link.read_together(ask)
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
        commands.zrange(link.keys.of(name, "running"), 0, LEASES_CHECKED - 1)
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
            commands.zrange(key, 0, HEAD_JOBS * len(depths[name]) - 1)
        else:
            commands.zrangebyscore(key, rank(priority, 0), f"({rank(priority - 1, 0)}", start=0, num=HEAD_JOBS)
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

    def ask(commands: Pipeline) -> None:
        for name in names:
            commands.hgetall(link.keys.of(name, "tallies"))
            for key in link.of(name, _WHERE):
                commands.zcard(key)

    found = await link.read_together(ask) if names else []
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
