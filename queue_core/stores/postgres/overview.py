"""What a console's first screen shows, as of one moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from queue_core.inspection import Overview, QueueInfo, WorkerInfo
from queue_core.stores.postgres.pool import Connection, Pool, Row, fetch
from queue_core.stores.postgres.records import utc
from queue_core.stores.postgres.sql import plain_array

HEAD = 500
"""Jobs of each queue and priority that are looked at for the oldest and for types without a worker."""


class Overviews:
    """See queue_core.inspection.Inspector for what the method does."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        async with self._pool.snapshot() as connection:
            ((now,),) = await fetch(connection, "inspect/now")
            queues = await fetch(connection, "inspect/queues")
            counts = await _counts(connection)
            heads = await _heads(connection, counts)
            due = await fetch(connection, "inspect/due", {"limit": HEAD})
            workers = [_worker(row) for row in await fetch(connection, "inspect/workers")]
        announced = {type_ for worker in workers if not worker.lost for type_ in worker.types}
        return Overview(
            now=utc(now),
            queues=tuple(_queue(row, counts, heads) for row in queues),
            workers=tuple(workers),
            orphaned_types=_orphaned(announced, [*((row[1], row[2]) for row in heads), *due]),
        )


class _Counts:
    """Jobs by queue number."""

    def __init__(self, *, ranked: Iterable[Row], running: Iterable[Row], waiting: Iterable[Row], dead: Iterable[Row]):
        self.depth: dict[int, dict[int, int]] = defaultdict(dict)
        self.running: Counter[int] = Counter()
        self.waiting = {(queue, status): n for queue, status, n in waiting}
        self.dead = {(queue, trashed): n for queue, trashed, n in dead}
        # A running job keeps its rank, so that the ready ones are what remains.
        busy = {(queue, priority): n for queue, priority, n in running}
        for (queue, _), n in busy.items():
            self.running[queue] += n
        for queue, priority, n in ranked:
            if ready := n - busy.get((queue, priority), 0):
                self.depth[queue][priority] = ready


async def _counts(connection: Connection) -> _Counts:
    return _Counts(
        ranked=await fetch(connection, "inspect/depths"),
        running=await fetch(connection, "inspect/running"),
        waiting=await fetch(connection, "inspect/waiting"),
        dead=await fetch(connection, "inspect/dead"),
    )


async def _heads(connection: Connection, counts: _Counts) -> list[Row]:
    pairs = [(queue, priority) for queue, depth in counts.depth.items() for priority in depth]
    params = {
        "queue_ids": plain_array(queue for queue, _ in pairs),
        "priorities": plain_array(priority for _, priority in pairs),
        "limit": HEAD,
    }
    return await fetch(connection, "inspect/heads", params)


def _queue(row: Row, counts: _Counts, heads: list[Row]) -> QueueInfo:
    number, name, paused = row
    oldest: list[datetime] = [since for queue, _, _, since in heads if queue == number]
    return QueueInfo(
        name=name,
        paused=paused,
        depth=counts.depth.get(number, {}),
        scheduled=counts.waiting.get((number, "scheduled"), 0),
        retrying=counts.waiting.get((number, "retrying"), 0),
        running=counts.running[number],
        dead=counts.dead.get((number, False), 0),
        trashed=counts.dead.get((number, True), 0),
        oldest=utc(min(oldest)) if oldest else None,
    )


def _worker(row: Row) -> WorkerInfo:
    name, host, pid, version, queues, types, concurrency, busy, quiet, started_at, heartbeat_at, age, lost = row
    return WorkerInfo(
        id=name,
        host=host,
        pid=pid,
        version=version,
        queues=tuple(queues),
        types=tuple(types),
        concurrency=concurrency,
        busy=busy,
        quiet=quiet,
        started_at=utc(started_at),
        heartbeat_at=utc(heartbeat_at),
        heartbeat_age=age,
        lost=lost,
    )


def _orphaned(announced: set[str], seen: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for type_, n in seen:
        if type_ not in announced:
            found[type_] += n
    return dict(found)
