"""What a console's first screen shows, and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from queue_core.inspection import Conservation, Overview, QueueInfo, SeriesPoint, Tally, WorkerInfo
from queue_core.priorities import HIGHEST, LOWEST, rank
from queue_core.redis.scripts import source
from queue_core.states import UNFINISHED
from queue_core.stores.redis.link import PACKAGE, Link, microseconds
from queue_core.stores.redis.records import Entry, entries_of, moment, whole
from queue_core.stores.redis.sources import PLACES

HEAD = 50
"""Jobs of each queue and priority that are looked at for the oldest."""

_COUNTED = ("scheduled", "retrying", "running", "dlq", "trash")
_WHERE = ("completed", "dlq", "trash", "cancelled", *(PLACES[state] for state in UNFINISHED))
_RANKS = [rank(priority, 0) for priority in range(HIGHEST, LOWEST - 1, -1)]


class Overviews:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        names, _ = await self._link.look()
        commands = self._link.snapshot()
        commands.time()
        commands.hgetall(self._link.keys.workers)
        for name in names:
            commands.exists(self._link.keys.of(name, "paused"))
            commands.hgetall(self._link.keys.of(name, "types"))
            commands.eval(source(PACKAGE, "depths"), 1, self._link.keys.of(name, "pending"), *_RANKS)
            for key in self._link.of(name, _COUNTED):
                commands.zcard(key)
        time, entries, *found = await self._link.send(commands)
        now = microseconds(time)
        width = 3 + len(_COUNTED)
        rows = [found[place * width : (place + 1) * width] for place in range(len(names))]
        depths = {
            name: dict(zip(row[2][::2], row[2][1::2], strict=True)) for name, row in zip(names, rows, strict=True)
        }
        oldest = await self._oldest(depths)
        workers = tuple(_worker(worker, entry, now) for worker, entry in sorted(entries_of(entries).items()))
        announced = {type_ for worker in workers if not worker.lost for type_ in worker.types}
        return Overview(
            now=moment(now),
            queues=tuple(
                _queue(name, row, depths[name], oldest.get(name)) for name, row in zip(names, rows, strict=True)
            ),
            workers=workers,
            orphaned_types=_orphaned(announced, [row[1] for row in rows]),
        )

    async def _oldest(self, depths: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
        """Return for each queue when the ready job that waits longest was due, among the first of each priority."""
        commands = self._link.batch()
        places = [(name, priority) for name, depth in depths.items() for priority in depth]
        for name, priority in places:
            key = self._link.keys.of(name, "pending")
            commands.zrangebyscore(key, rank(priority, 0), f"({rank(priority - 1, 0)}", start=0, num=HEAD)
        heads: dict[str, list[str]] = {}
        for (name, _), ids in zip(places, await self._link.send(commands) if places else [], strict=True):
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
            unfinished=sum(count[PLACES[state]] for state in UNFINISHED),
            retries=count["retried"],
        )


def _queue(name: str, row: Sequence[Any], depth: dict[int, int], oldest: int | None) -> QueueInfo:
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
    )


def _orphaned(announced: set[str], waiting: Sequence[Mapping[str, str]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for types in waiting:
        found.update({type_: whole(n) for type_, n in types.items() if type_ not in announced})
    return dict(found)


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
