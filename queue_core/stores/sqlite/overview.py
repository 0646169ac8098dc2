"""What a console's first screen shows, as of one moment."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

from queue_core.announced import Announced
from queue_core.inspection import Overview, QueueInfo, WorkerInfo
from queue_core.priorities import HIGHEST, SEQUENCE_BITS
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.link import Row, Transaction
from queue_core.stores.sqlite.records import moment

HEAD = 100
"""Ready jobs of each queue, type and priority that are looked at for the oldest: within a priority they are ranked as
they arrived, so that it is among the first unless as many older ones came back late."""
DUE = 500
"""Jobs that become ready next whose types are looked at."""


class Overviews:
    """See queue_core.inspection.Inspector for what the method does."""

    _file: SqliteFile

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        return await self._file.look(_overview)


def _overview(transaction: Transaction) -> Overview:
    queues = [_Queue(transaction, *row) for row in transaction.rows("inspect/queues")]
    counts = _counts(transaction)
    workers = [_worker(row, transaction.now) for row in transaction.rows("inspect/workers")]
    names = {queue.number: queue.name for queue in queues}
    waiting = [((names[number], type_), n) for number, type_, n in transaction.rows("inspect/due_types", (DUE,))]
    waiting += [((queue.name, type_), n) for queue in queues for type_, n in queue.types.items()]
    return Overview(
        now=moment(transaction.now),
        queues=tuple(_info(queue, counts[queue.number]) for queue in queues),
        workers=tuple(workers),
        orphaned_types=Announced((one.queues, one.types) for one in workers if not one.lost).orphans(waiting),
    )


class _Queue:
    """A queue and its ready jobs."""

    def __init__(self, transaction: Transaction, number: int, name: str, paused: int) -> None:
        self.number = number
        self.name = name
        self.paused = bool(paused)
        # by priority
        self.depth: Counter[int] = Counter()
        self.types: Counter[str] = Counter()
        self.oldest: float | None = None
        for type_, first, last in _groups(transaction, number):
            ((n,),) = transaction.rows("inspect/depth", (number, type_, first, last))
            ((since,),) = transaction.rows("inspect/oldest", (number, type_, first, last, HEAD))
            ((aged,),) = transaction.rows("inspect/aged_depth", (number, type_, first, last))
            if n > aged:
                self._add(HIGHEST - (first >> SEQUENCE_BITS), type_, n - aged, since)
        for query in ("inspect/aged", "inspect/gated"):
            for type_, priority, n, since in transaction.rows(query, (number,)):
                self._add(priority, type_, n, since)

    def _add(self, priority: int, type_: str, n: int, since: float) -> None:
        self.depth[priority] += n
        self.types[type_] += n
        self.oldest = since if self.oldest is None else min(self.oldest, since)


def _groups(transaction: Transaction, queue_id: int) -> Iterator[tuple[str, int, int]]:
    """Yield each type and priority that has ready jobs, with its ranks, stepping from one to the next in the index."""
    type_, last = "", -1
    while found := transaction.rows("inspect/next_group", (queue_id, type_, last)):
        type_, first = found[0]
        last = ((first >> SEQUENCE_BITS) + 1 << SEQUENCE_BITS) - 1
        yield type_, first, last


def _counts(transaction: Transaction) -> dict[int, Counter[str]]:
    """Count the jobs of each queue that are neither ready nor over, by place."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for name in ("inspect/running", "inspect/waiting", "inspect/dead"):
        for queue_id, place, n in transaction.rows(name):
            counts[queue_id][place] += n
    return counts


def _info(queue: _Queue, count: Counter[str]) -> QueueInfo:
    return QueueInfo(
        name=queue.name,
        paused=queue.paused,
        depth=dict(queue.depth),
        scheduled=count["scheduled"],
        retrying=count["retrying"],
        running=count["begun"] + count["ahead"],
        dead=count["dead"],
        trashed=count["trashed"],
        oldest=None if queue.oldest is None else moment(queue.oldest),
        ahead=count["ahead"],
    )


def _worker(row: Row, now: float) -> WorkerInfo:
    name, host, pid, version, queues, types, concurrency, busy, quiet, interval, started_at, heartbeat_at, stuck = row
    return WorkerInfo(
        id=name,
        host=host,
        pid=pid,
        version=version,
        queues=tuple(json.loads(queues)),
        types=None if (taken := json.loads(types)) is None else tuple(taken),
        concurrency=concurrency,
        busy=busy,
        quiet=bool(quiet),
        started_at=moment(started_at),
        heartbeat_at=moment(heartbeat_at),
        heartbeat_age=now - heartbeat_at,
        lost=now - heartbeat_at > 3 * interval,
        stuck=stuck,
    )
