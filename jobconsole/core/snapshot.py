"""One read of everything that the first screen shows."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobconsole.core.rows import JobLine, QueueLine, clean_signature, clean_worker, job_line, queue_line
from queue_core.filters import Filter, Term
from queue_core.inspection import Inspector, SeriesPoint, SignatureInfo, WorkerInfo
from queue_core.states import Status
from queue_core.text import safe

LONGEST_SPAN = 3_600.0
"""Seconds of the series that is read."""
RUNNING = Filter((Term("status", "=", Status.RUNNING.value),))
DEAD = Filter((Term("status", "=", Status.DEAD.value),))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a snapshot is to hold."""

    # narrows the signatures; the other parts always show everything
    where: Filter = DEAD
    # seconds over which growth and trend of signatures are counted
    window: float = 900.0
    slices: int = 6
    signatures: int = 500
    # the longest running jobs
    running: int = 200
    # of throughput: the last hour, and the running minute
    minutes: int = 61


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all queues."""

    queued: int
    running: int
    scheduled: int
    retrying: int
    dead: int
    trashed: int
    # due time of the ready job that waits longest
    oldest: datetime | None
    workers: int
    lost_workers: int
    # jobs that all live workers together can run at once
    slots: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the store said at one moment."""

    # the store's clock
    now: datetime
    # this process's steady clock, when the read began and when it was complete
    began: float
    taken: float
    wanted: Wanted
    queues: tuple[QueueLine, ...]
    workers: tuple[WorkerInfo, ...]
    orphaned_types: dict[str, int]
    signatures: tuple[SignatureInfo, ...]
    # longest running first; `more_running` when there are others
    running: tuple[JobLine, ...]
    more_running: bool
    # the last minutes, oldest first
    series: tuple[SeriesPoint, ...]
    totals: Totals

    @property
    def deaths(self) -> int:
        """Jobs that died within the window, of the last hour at most."""
        return sum(point.dead for point in self.series if self.now - point.minute <= self.span)

    @property
    def span(self) -> timedelta:
        """Over which time deaths are counted."""
        return timedelta(seconds=min(self.wanted.window, LONGEST_SPAN))


async def read_snapshot(inspector: Inspector, wanted: Wanted) -> Snapshot:
    """Read overview, signatures, the first page of running jobs and the newest throughput together.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    began = time.monotonic()
    overview, signatures, running, series = await asyncio.gather(
        inspector.overview(),
        inspector.signatures(wanted.where, wanted.window, wanted.slices, wanted.signatures),
        inspector.jobs(RUNNING, wanted.running, None, "oldest"),
        inspector.series(wanted.minutes),
    )
    queues = tuple(queue_line(queue) for queue in sorted(overview.queues, key=lambda queue: queue.name))
    workers = tuple(clean_worker(worker) for worker in sorted(overview.workers, key=lambda worker: worker.id))
    return Snapshot(
        now=overview.now,
        began=began,
        taken=time.monotonic(),
        wanted=wanted,
        queues=queues,
        workers=workers,
        orphaned_types={safe(name, 120): number for name, number in overview.orphaned_types.items()},
        signatures=tuple(clean_signature(info) for info in signatures),
        running=tuple(job_line(job) for job in running.jobs),
        more_running=running.cursor is not None,
        series=tuple(series),
        totals=_totals(queues, workers, sum(queue.trashed for queue in overview.queues)),
    )


def _totals(queues: tuple[QueueLine, ...], workers: tuple[WorkerInfo, ...], trashed: int) -> Totals:
    alive = [worker for worker in workers if not worker.lost]
    waiting = [queue.oldest for queue in queues if queue.oldest is not None]
    return Totals(
        queued=sum(queue.queued for queue in queues),
        running=sum(queue.running for queue in queues),
        scheduled=sum(queue.scheduled for queue in queues),
        retrying=sum(queue.retrying for queue in queues),
        dead=sum(queue.dead for queue in queues),
        trashed=trashed,
        oldest=min(waiting, default=None),
        workers=len(alive),
        lost_workers=len(workers) - len(alive),
        slots=sum(worker.concurrency for worker in alive),
    )
