"""What a console's first screen shows, as of one moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime

from queue_core.announced import Announced
from queue_core.inspection import Overview, QueueInfo, WorkerInfo
from queue_core.rules import Rules, rules_of
from queue_core.stores.postgres.bounded import Connection
from queue_core.stores.postgres.pool import Pool, Row, fetch
from queue_core.stores.postgres.records import EVERY_TYPE, utc
from queue_core.stores.postgres.sql import plain_array

HEAD = 500
"""Jobs of each queue and priority that are looked at for the oldest and for types without a worker."""


class Overviews:
    """See queue_core.inspection.Inspector for what the method does."""

    def __init__(self, pool: Pool, rules: Rules | None = None) -> None:
        self._pool = pool
        self._rules = rules or {}

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        async with self._pool.snapshot() as connection:
            ((now,),) = await fetch(connection, "inspect/now")
            queues = await fetch(connection, "inspect/queues")
            aging = {number for number, name, _ in queues if rules_of(self._rules, name).aging}
            counts = await _counts(connection, aging)
            heads = await _heads(connection, counts, aging)
            heads += [(queue, type_, n, since) for queue, _, type_, n, since in counts.gated]
            due = await fetch(connection, "inspect/due", {"limit": HEAD})
            workers = [_worker(row) for row in await fetch(connection, "inspect/workers")]
        names = {number: name for number, name, _ in queues}
        # Jobs under a number that no queue has are of a queue that a failover has lost.
        waiting = [((names[row[0]], row[1]), row[2]) for row in (*heads, *due) if row[0] in names]
        return Overview(
            now=utc(now),
            queues=tuple(_queue(row, counts, heads) for row in queues),
            workers=tuple(workers),
            orphaned_types=Announced((one.queues, one.types) for one in workers if not one.lost).orphans(waiting),
        )


class _Counts:
    """Jobs by queue number."""

    def __init__(
        self,
        *,
        ranked: Iterable[Row],
        running: Iterable[Row],
        gated: Iterable[Row],
        waiting: Iterable[Row],
        dead: Iterable[Row],
    ):
        self.depth: dict[int, Counter[int]] = defaultdict(Counter)
        # jobs that wait for their ordering keys
        self.gated = list(gated)
        self.running: Counter[int] = Counter()
        self.ahead: Counter[int] = Counter()
        self.waiting = {(queue, status): n for queue, status, n in waiting}
        self.dead = {(queue, trashed): n for queue, trashed, n in dead}
        # A running job keeps its rank, so that the ready ones are what remains.
        busy: dict[tuple[int, int], int] = {}
        for queue, priority, n, ahead in running:
            busy[queue, priority] = n
            self.running[queue] += n
            self.ahead[queue] += ahead
        for queue, priority, n in ranked:
            if ready := n - busy.get((queue, priority), 0):
                self.depth[queue][priority] = ready
        # of these alone the first in order are looked at
        self.ready = [(queue, priority) for queue, depth in self.depth.items() for priority in depth]
        for queue, priority, _, n, _ in self.gated:
            self.depth[queue][priority] += n


async def _counts(connection: Connection, aging: Collection[int]) -> _Counts:
    params = {"aging": plain_array(aging)}
    aged = await fetch(connection, "inspect/aged_depths", params) if aging else []
    return _Counts(
        ranked=aged + await fetch(connection, "inspect/depths", params),
        running=await fetch(connection, "inspect/running"),
        gated=await fetch(connection, "inspect/gated"),
        waiting=await fetch(connection, "inspect/waiting"),
        dead=await fetch(connection, "inspect/dead"),
    )


async def _heads(connection: Connection, counts: _Counts, aging: Collection[int]) -> list[Row]:
    pairs = {(queue, None if queue in aging else priority) for queue, priority in counts.ready}
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
        depth=dict(counts.depth.get(number, {})),
        scheduled=counts.waiting.get((number, "scheduled"), 0),
        retrying=counts.waiting.get((number, "retrying"), 0),
        running=counts.running[number],
        dead=counts.dead.get((number, False), 0),
        trashed=counts.dead.get((number, True), 0),
        oldest=utc(min(oldest)) if oldest else None,
        ahead=counts.ahead[number],
    )


def _worker(row: Row) -> WorkerInfo:
    name, host, pid, version, queues, types, concurrency, busy, quiet, started_at, heartbeat_at, age, lost, stuck = row
    return WorkerInfo(
        id=name,
        host=host,
        pid=pid,
        version=version,
        queues=tuple(queues),
        types=None if tuple(types) == EVERY_TYPE else tuple(types),
        concurrency=concurrency,
        busy=busy,
        quiet=quiet,
        started_at=utc(started_at),
        heartbeat_at=utc(heartbeat_at),
        heartbeat_age=age,
        lost=lost,
        stuck=stuck,
    )
