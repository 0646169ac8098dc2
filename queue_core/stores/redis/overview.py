"""What a console's first screen shows, and the totals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from queue_core.announced import Announced
from queue_core.inspection import Conservation, Overview, QueueInfo, SeriesPoint, Tally, WorkerInfo
from queue_core.priorities import rank
from queue_core.rules import Rules, rules_of
from queue_core.states import UNFINISHED
from queue_core.stores.redis.link import Link, microseconds
from queue_core.stores.redis.records import Entry, entries_of, moment, whole
from queue_core.stores.redis.sources import SETS

HEAD = 50
"""Jobs of each queue and priority that are looked at for the oldest. With aging, what waits the longest is among
the first of all priorities."""

LEASES = 2000
"""Running jobs of each queue that are asked whether they have begun."""

_COUNTED = ("scheduled", "retrying", "running", "dlq", "trash")
RUNNING = _COUNTED.index("running")
_UNFINISHED = tuple(name for state in UNFINISHED for name in SETS[state])
_WHERE = ("completed", "dlq", "trash", "cancelled", *_UNFINISHED)


class Overviews:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, link: Link, rules: Rules) -> None:
        self._link = link
        self._rules = rules

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        names, _ = await self._link.look()
        commands = self._link.snapshot()
        commands.time()
        commands.hgetall(self._link.keys.workers)
        for name in names:
            commands.exists(self._link.keys.of(name, "paused"))
            commands.hgetall(self._link.keys.of(name, "types"))
            commands.hgetall(self._link.keys.of(name, "depths"))
            for key in self._link.of(name, _COUNTED):
                commands.zcard(key)
        time, entries, *found = await self._link.send(commands)
        now = microseconds(time)
        width = 3 + len(_COUNTED)
        rows = [found[place * width : (place + 1) * width] for place in range(len(names))]
        depths = {name: _depth(row[2]) for name, row in zip(names, rows, strict=True)}
        oldest = await self._oldest(depths)
        ahead = await self._ahead([name for name, row in zip(names, rows, strict=True) if row[3 + RUNNING]])
        workers = tuple(_worker(worker, entry, now) for worker, entry in sorted(entries_of(entries).items()))
        waiting = [
            ((name, type_), whole(n)) for name, row in zip(names, rows, strict=True) for type_, n in row[1].items()
        ]
        return Overview(
            now=moment(now),
            queues=tuple(
                _queue(name, row, depths[name], oldest.get(name), ahead[name])
                for name, row in zip(names, rows, strict=True)
            ),
            workers=workers,
            orphaned_types=Announced((one.queues, one.types) for one in workers if not one.lost).orphans(waiting),
        )

    async def _ahead(self, names: Sequence[str]) -> Counter[str]:
        """Return for each queue how many running jobs have not begun, among those whose leases end next."""
        commands = self._link.batch()
        for name in names:
            commands.zrange(self._link.keys.of(name, "running"), 0, LEASES - 1)
        ids = dict(zip(names, await self._link.send(commands) if names else [], strict=True))
        known = await self._link.read(ids, ["status", "ahead"])
        return Counter(name for (name, _), (status, ahead) in known.items() if status == "running" and ahead)

    async def _oldest(self, depths: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
        """Return for each queue when the queued job that waits longest was due, among the first of each priority."""
        commands = self._link.batch()
        places = [(name, priority) for name, depth in depths.items() for priority in depth]
        for name, priority in places:
            key = self._link.keys.of(name, "pending")
            if rules_of(self._rules, name).aging:
                commands.zrange(key, 0, HEAD * len(depths[name]) - 1)
            else:
                commands.zrangebyscore(key, rank(priority, 0), f"({rank(priority - 1, 0)}", start=0, num=HEAD)
        for name in depths:
            commands.zrange(self._link.keys.of(name, "blocked"), 0, 0)
        heads: dict[str, list[str]] = {}
        names = (*(name for name, _ in places), *depths)
        for name, ids in zip(names, await self._link.send(commands) if depths else [], strict=True):
            heads.setdefault(name, []).extend(ids)
        oldest: dict[str, int] = {}
        for (name, _), (run_at,) in (await self._link.read(heads, ["run_at"])).items():
            oldest[name] = min(whole(run_at), oldest.get(name, whole(run_at)))
        return oldest

    async def tallies(self) -> list[Tally]:
        """Return the exact totals of every queue and type."""
        names, _ = await self._link.look()
        commands = self._link.batch()
        for name in names:
            commands.hgetall(self._link.keys.of(name, "tallies"))
        found = await self._link.send(commands) if names else []
        return [tally for name, fields in zip(names, found, strict=True) for tally in _tallies(name, fields)]

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        """Return the last minutes, oldest first, empty ones included."""
        names, now = await self._link.look()
        last = now // 60_000_000
        commands = self._link.batch()
        wanted = [name for name in names if queue in (None, name)]
        for name in wanted:
            commands.zrangebyscore(
                self._link.keys.of(name, "minutes"), (last - minutes + 1) << 27, "+inf", withscores=True
            )
        totals: Counter[tuple[int, str]] = Counter()
        for entries in await self._link.send(commands) if wanted else []:
            for member, score in entries:
                minute, _, outcome = member.partition(" ")
                totals[int(minute), outcome] += int(score) & ((1 << 27) - 1)
        return [
            SeriesPoint(moment(minute * 60_000_000), *(totals[minute, outcome] for outcome in SeriesPoint._fields[1:]))
            for minute in range(last - minutes + 1, last + 1)
        ]

    async def conservation(self) -> Conservation:
        """Return where all jobs are, from one consistent read."""
        names, _ = await self._link.look()
        commands = self._link.snapshot()
        for name in names:
            commands.hgetall(self._link.keys.of(name, "tallies"))
            for key in self._link.of(name, _WHERE):
                commands.zcard(key)
        found = await self._link.send(commands) if names else []
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
    paused, _, _, scheduled, retrying, running, dead, trashed = row
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
    )


def _worker(worker: str, entry: Entry, now: int) -> WorkerInfo:
    started_at, heartbeat_at, beat = entry
    return WorkerInfo(
        id=worker,
        host=beat.host,
        pid=beat.pid,
        version=beat.version,
        queues=beat.queues,
        types=beat.types,
        concurrency=beat.concurrency,
        busy=beat.busy,
        quiet=beat.quiet,
        started_at=moment(started_at),
        heartbeat_at=moment(heartbeat_at),
        heartbeat_age=(now - heartbeat_at) / 1e6,
        lost=entry.is_lost(now),
        stuck=beat.stuck,
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
