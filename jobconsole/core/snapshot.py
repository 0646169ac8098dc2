"""A snapshot: one read of everything that the first screen shows."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from jobconsole.core.rows import JobLine, QueueLine, clean_signature, clean_worker, job_line, queue_line
from jobconsole.format.glyphs import Ring
from queue_core.client.finding.inspector import search_texts
from queue_core.client.operating.signatures import StatesRead, read_states
from queue_core.model.events import EventBatch, EventName
from queue_core.model.filters import Filter, Term
from queue_core.model.report import Release, SeriesPoint, SignatureInfo, WorkerInfo
from queue_core.model.states import Status
from queue_core.model.text import safe
from queue_core.model.triage.rules import NO_BOOK, RuleBook
from queue_core.model.triage.signatures import SignatureState, TypeRuns
from queue_core.ports.inspector import Inspector

MAX_SLICES = 30
"""Parts of a trend."""
LONGEST_SPAN = 3_600.0
"""Seconds of the series that is read."""
MINUTE = timedelta(minutes=1)
"""The smallest time that deaths are counted for."""
RUNNING = Filter((Term("status", "=", Status.RUNNING.value),))
DEAD = Filter((Term("status", "=", Status.DEAD.value),))


@dataclass(frozen=True, slots=True)
class SnapshotNeeds:
    """What a snapshot should contain."""

    # narrows the signatures; the other parts always show everything
    where: Filter = DEAD
    # seconds over which growth and trend of signatures are counted
    window: float = 900.0
    signatures: int = 500
    # the longest running jobs
    running: int = 200
    # of throughput: the last hour, and the running minute
    minutes: int = 61

    @property
    def slices(self) -> int:
        """The parts of the window that trends are counted by: minutes, which are the smallest there are, at most 30."""
        return max(1, min(MAX_SLICES, int(self.window / 60)))


@dataclass(frozen=True, slots=True)
class SnapshotTotals:
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
    """The store's state at one moment."""

    # the store's clock
    now: datetime
    # this process's steady clock, when the read began and when it was complete
    began: float
    taken: float
    needs: SnapshotNeeds
    queues: tuple[QueueLine, ...]
    workers: tuple[WorkerInfo, ...]
    orphaned_types: dict[str, int]
    signatures: tuple[SignatureInfo, ...]
    # longest running first; `more_running` when there are others
    running: tuple[JobLine, ...]
    more_running: bool
    # the last minutes, oldest first
    series: tuple[SeriesPoint, ...]
    totals: SnapshotTotals
    # of the signatures
    states: Mapping[str, SignatureState] = field(default_factory=dict)
    # in their order, the oldest first, and what became of the jobs of each type on each
    releases: tuple[Release, ...] = ()
    runs: tuple[TypeRuns, ...] = ()

    @property
    def deaths(self) -> int:
        """Jobs that died within the window, of the last hour at most."""
        return deaths_within(self.series, self.span, self.now)

    @property
    def span(self) -> timedelta:
        """Over which time deaths are counted."""
        return timedelta(seconds=min(self.needs.window, LONGEST_SPAN))


def deaths_within(series: Sequence[SeriesPoint], span: timedelta, now: datetime) -> int:
    """Return how many jobs died; a minute that began before the span counts as a whole, as in the growth of errors."""
    return sum(point.dead for point in series if now - point.minute < span + MINUTE)


def live_releases(snapshot: Snapshot) -> list[str]:
    """Return the releases of workers that are alive, the newest first."""
    places = {one.name: one.place for one in snapshot.releases}
    live = {worker.release for worker in snapshot.workers if worker.release and not worker.lost}
    return sorted(live, key=lambda name: (places.get(name, len(places)), name), reverse=True)


async def read_snapshot(inspector: Inspector, needs: SnapshotNeeds, book: RuleBook = NO_BOOK) -> Snapshot:
    """Read overview, signatures, the first page of running jobs and the newest throughput together.

    `book`: the rules that give signatures an owner, a runbook and a link.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    began = time.monotonic()
    overview, (signatures, triage), running, series = await asyncio.gather(
        inspector.overview(),
        _signatures(inspector, needs, book),
        inspector.jobs(RUNNING, needs.running, None, "oldest"),
        inspector.series(needs.minutes),
    )
    queues = tuple(queue_line(queue) for queue in sorted(overview.queues, key=lambda queue: queue.name))
    workers = tuple(clean_worker(worker) for worker in sorted(overview.workers, key=lambda worker: worker.id))
    return Snapshot(
        now=overview.now,
        began=began,
        taken=time.monotonic(),
        needs=needs,
        queues=queues,
        workers=workers,
        orphaned_types={safe(name, 120): number for name, number in overview.orphaned_types.items()},
        signatures=tuple(clean_signature(info) for info in signatures),
        running=tuple(job_line(job) for job in running.jobs),
        more_running=running.cursor is not None,
        series=tuple(series),
        totals=_totals(queues, workers, sum(queue.trashed for queue in overview.queues)),
        states=triage.states,
        releases=triage.releases,
        runs=triage.runs,
    )


async def _signatures(
    inspector: Inspector, needs: SnapshotNeeds, book: RuleBook
) -> tuple[list[SignatureInfo], StatesRead]:
    await search_texts(inspector, needs.where)
    groups = await inspector.signatures(needs.where, needs.window, needs.slices, needs.signatures)
    return groups, await read_states(inspector, groups, needs.window, book)


def _totals(queues: tuple[QueueLine, ...], workers: tuple[WorkerInfo, ...], trashed: int) -> SnapshotTotals:
    alive = [worker for worker in workers if not worker.lost]
    waiting = [queue.oldest for queue in queues if queue.oldest is not None]
    return SnapshotTotals(
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


COUNTED = {"created": "enqueued", "completed": "completed", "retrying": "retried", "dead": "dead"}
"""Events whose rate is kept, and what the store calls their number in a minute."""


class RateMeter:
    """One ring for each kind of event.

    The store counts exactly, by the minute, but late; events come at once, but some may be lost and some modes send
    only part of them. The difference between the store's count and the events is added at the next look.
    """

    def __init__(self) -> None:
        self.rings = {name: Ring() for name in COUNTED}
        self._minutes: dict[datetime, SeriesPoint] = {}
        # what the store counted more than the rings, at the last look
        self._missing = dict.fromkeys(COUNTED, 0.0)
        self._started = False

    def hear(self, name: str, steady: float) -> None:
        """Count an event."""
        ring = self.rings.get(name)
        if ring is not None:
            ring.add(steady)
            self._missing[name] -= 1

    def update(self, series: Sequence[SeriesPoint], now: datetime, steady: float) -> None:
        """Take the store's counts by the minute as of `now`, which is `steady` seconds by this process's clock."""
        for name, counted in COUNTED.items():
            if self._started:
                self._correct(name, self._grown(series, counted), steady)
            else:
                self._begin(name, series, counted, now, steady)
        self._minutes = {point.minute: point for point in series}
        self._started = True

    def _grown(self, series: Sequence[SeriesPoint], field: str) -> int:
        before = self._minutes
        return sum(
            getattr(point, field) - (getattr(before[point.minute], field) if point.minute in before else 0)
            for point in series
        )

    def _correct(self, name: str, grown: int, steady: float) -> None:
        """Add what was missing at the last look already and has not arrived since; the rest may be on its way."""
        overdue = self._missing[name]
        self._missing[name] += grown
        if overdue > 0:
            self.rings[name].add(steady, overdue)
            self._missing[name] -= overdue
        elif overdue < 0 and self._missing[name] < 0:
            # Events of before the first look, or some that came twice: they are no debt of later ones.
            self._missing[name] = 0.0

    def _begin(self, name: str, series: Sequence[SeriesPoint], field: str, now: datetime, steady: float) -> None:
        """Count what happened before the first look as if each minute had been even."""
        self._missing[name] = 0.0
        ring = self.rings[name]
        for point in series:
            counted: int = getattr(point, field)
            if not counted:
                continue
            start = int(steady - (now - point.minute).total_seconds())
            seconds = range(start, min(start + 60, int(steady)))
            for second in seconds:
                ring.add(second, counted / len(seconds))


SAMPLES = 60
"""Depths that are kept of a queue."""
EVERY_SECONDS = 60.0
"""Between two of them: together an hour."""
QUEUES = 1_000
"""Queues that are recorded."""
RATE_SECONDS = 10
"""Over which the rate of a queue is averaged."""


class QueueHistory:
    """Depth by the minute and completed jobs by the second, for each queue."""

    def __init__(self) -> None:
        self._depths: dict[str, deque[float]] = {}
        self._rates: dict[str, Ring] = {}
        self._sampled: float | None = None

    def hear(self, batch: EventBatch, steady: float) -> None:
        """Count what was completed."""
        done = sum(event.event == EventName.COMPLETED for event in batch.events)
        ring = self._rates.get(batch.queue)
        if ring is None:
            if not done or len(self._rates) >= QUEUES:
                return
            ring = self._rates[batch.queue] = Ring(2 * RATE_SECONDS)
        ring.add(steady, done)

    def update(self, queues: Sequence[QueueLine], steady: float) -> tuple[QueueLine, ...]:
        """Return the queues with their rate and history; the depths are kept once a minute."""
        due = self._sampled is None or steady - self._sampled >= EVERY_SECONDS
        if due:
            self._sampled = steady
            names = {queue.name for queue in queues}
            self._depths = {name: kept for name, kept in self._depths.items() if name in names}
        return tuple(self._with_history(queue, steady, due) for queue in queues)

    def _with_history(self, queue: QueueLine, steady: float, due: bool) -> QueueLine:
        if due and (queue.name in self._depths or len(self._depths) < QUEUES):
            self._depths.setdefault(queue.name, deque(maxlen=SAMPLES)).append(queue.queued)
        ring = self._rates.get(queue.name)
        history = (*self._depths.get(queue.name, ()), float(queue.queued))
        return replace(queue, rate=ring.rate(steady, RATE_SECONDS) if ring else 0.0, history=history)
