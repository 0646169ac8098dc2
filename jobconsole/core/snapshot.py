"""A snapshot: one read of everything that the first screen shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from jobconsole.core.rows import JobLine, QueueLine, clean_signature, clean_worker, job_line, queue_line
from jobconsole.format.humanize import elapsed
from queue_core.client.finding.inspector import search_texts
from queue_core.client.operating.signatures import StatesRead, read_states
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.report import Release, SeriesPoint, SignatureInfo, WorkerInfo
from queue_core.model.states import Status
from queue_core.model.text import safe
from queue_core.model.triage.rules import NO_BOOK, RuleBook
from queue_core.model.triage.signatures import SignatureState, TypeRuns
from queue_core.ports.inspector import Inspector
from queue_core.runtime import end_tasks

MAX_SLICES = 30
"""Parts of a trend."""
LONGEST_SPAN = 3_600.0
"""Seconds of the series that is read."""
MINUTE = timedelta(minutes=1)
"""The smallest time that deaths are counted for."""
NARROWING_SECONDS = 1.0
"""How long a snapshot waits for the signatures of a filter: a value may have to be looked for in each dead payload."""
RESTS = 3
"""How many times as long as such a read took, where that was longer, none begins: it keeps the store as busy."""
OLD_SECONDS = 12.0
"""A picture is read each 5 seconds at least; from this age on it is not called live."""
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
    # why the signatures are old, or those of an earlier filter, which `needs` has then; "": they are neither
    behind: str = ""

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


@dataclass(frozen=True, slots=True)
class Groups:
    """The signatures of a snapshot."""

    needs: SnapshotNeeds
    # this process's steady clock, when they were complete
    taken: float
    signatures: tuple[SignatureInfo, ...]
    triage: StatesRead
    # as in a snapshot
    behind: str = ""


class GroupReader:
    """Reads signatures for one snapshot after the other; nothing else waits for those of a filter that takes long.

    Until they are there, snapshots have the ones that were read before. `ready` is called then.
    """

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self._last: Groups | None = None
        self._wanted = SnapshotNeeds()
        self._reading: asyncio.Task[Groups] | None = None
        # of the steady clock: when that began, and until when the next one does not
        self._began = self._rests_until = 0.0
        # why the last read of a filter found nothing out
        self._failed = ""

    async def read(self, inspector: Inspector, needs: SnapshotNeeds, book: RuleBook) -> Groups:
        """Return signatures, the wanted ones or earlier ones.

        Raises:
            StoreUnavailable: the store did not answer in time, and no filter can be the reason.
        """
        if self._wanted != needs:
            await self.close()
        last, self._wanted = self._last, needs
        if needs.where == DEAD or last is None:
            self._last = await read_groups(inspector, needs, book)
            return self._last
        if self._reading is None and time.monotonic() >= self._rests_until:
            self._began = time.monotonic()
            self._reading = asyncio.ensure_future(read_groups(inspector, needs, book))
        return self._earlier(last) if self._reading is None else await self._found(self._reading, last)

    async def _found(self, reading: asyncio.Task[Groups], last: Groups) -> Groups:
        if not (await asyncio.wait({reading}, timeout=NARROWING_SECONDS))[0]:
            reading.remove_done_callback(self._done)
            reading.add_done_callback(self._done)
            return self._earlier(last)
        self._reading, took = None, time.monotonic() - self._began
        self._rests_until = time.monotonic() + RESTS * took if took > NARROWING_SECONDS else 0.0
        try:
            self._last, self._failed = reading.result(), ""
        except QueueCoreError as error:
            self._failed = safe(f"cannot be narrowed: {getattr(error, 'reason', error)}", 200)
            return self._earlier(last)
        return self._last

    def hurry(self) -> None:
        """Do not rest: what took long was a server that was away."""
        self._rests_until = 0.0

    async def close(self) -> None:
        """End what is under way."""
        reading, self._reading = self._reading, None
        self._rests_until, self._failed = 0.0, ""
        await end_tasks(reading)

    def _done(self, reading: asyncio.Task[Groups]) -> None:
        if reading is self._reading:
            self._ready()

    def _earlier(self, last: Groups) -> Groups:
        """Return earlier groups, with the reason where they are of another filter or old."""
        age = time.monotonic() - last.taken
        if self._failed:
            return replace(last, behind=self._failed)
        if last.needs.where != self._wanted.where:
            return replace(last, behind=f"searching, {elapsed(time.monotonic() - self._began)}")
        return replace(last, behind=f"as of {elapsed(age)} ago" if age > OLD_SECONDS else "")


async def read_snapshot(
    inspector: Inspector, needs: SnapshotNeeds, book: RuleBook = NO_BOOK, groups: GroupReader | None = None
) -> Snapshot:
    """Read overview, signatures, the first page of running jobs and the newest throughput together.

    `book`: the rules that give signatures an owner, a runbook and a link; `groups`: reads the signatures.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    began = time.monotonic()
    overview, found, running, series = await asyncio.gather(
        inspector.overview(),
        read_groups(inspector, needs, book) if groups is None else groups.read(inspector, needs, book),
        inspector.jobs(RUNNING, needs.running, None, "oldest"),
        inspector.series(needs.minutes),
    )
    queues = tuple(queue_line(queue) for queue in sorted(overview.queues, key=lambda queue: queue.name))
    workers = tuple(clean_worker(worker) for worker in sorted(overview.workers, key=lambda worker: worker.id))
    return Snapshot(
        now=overview.now,
        began=began,
        taken=time.monotonic(),
        needs=found.needs,
        queues=queues,
        workers=workers,
        orphaned_types={safe(name, 120): number for name, number in overview.orphaned_types.items()},
        signatures=found.signatures,
        running=tuple(job_line(job) for job in running.jobs),
        more_running=running.cursor is not None,
        series=tuple(series),
        totals=_totals(queues, workers, sum(queue.trashed for queue in overview.queues)),
        states=found.triage.states,
        releases=found.triage.releases,
        runs=found.triage.runs,
        behind=found.behind,
    )


async def read_groups(inspector: Inspector, needs: SnapshotNeeds, book: RuleBook) -> Groups:
    """Read the signatures of a snapshot.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    await search_texts(inspector, needs.where)
    found = await inspector.signatures(needs.where, needs.window, needs.slices, needs.signatures)
    triage = await read_states(inspector, found, needs.window, book)
    return Groups(needs, time.monotonic(), tuple(clean_signature(info) for info in found), triage)


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
