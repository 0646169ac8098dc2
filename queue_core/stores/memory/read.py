"""The inspector of the store in memory: jobs, pages, overviews and sums."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from queue_core.errors import FilterError, JobNotFound
from queue_core.model.filters import Filter, Searched, Term, matches
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.job import MAX_LOG_LINES, Attempt, Job
from queue_core.model.report import (
    Conservation,
    DeadCount,
    DeadCounts,
    LogPage,
    Order,
    Overview,
    Page,
    QueueInfo,
    Release,
    SeriesPoint,
    SignatureInfo,
    Tally,
    TypeInfo,
    WorkerInfo,
    counts_by_minute,
)
from queue_core.model.states import UNFINISHED, WAITING, Status
from queue_core.model.triage.signatures import SignatureDeaths, StoredFacts, TypeRuns, newest_runs
from queue_core.ports.inspector import SAMPLED_TEXT
from queue_core.stores.memory.records import JobRow, QueueRow, WorkerRow, moment
from queue_core.stores.memory.state import MemoryState
from queue_core.stores.memory.statistics import sliced
from queue_core.stores.memory.store import MemoryStore


def page(row: JobRow, limit: int, after: int | None) -> LogPage:
    """Return lines of a job's log."""
    if after is None:
        entries = list(row.log)[-limit:] if limit > 0 else []
    else:
        entries = [entry for entry in row.log if entry.number > after][: max(limit, 0)]
    return LogPage(tuple(entries), row.log_end.number - len(row.log))


def overview(state: MemoryState) -> Overview:
    """Return queues, workers and depths as of now."""
    now = state.clock.now()
    rows: dict[str, list[JobRow]] = defaultdict(list)
    for row in state.jobs.values():
        rows[row.queue].append(row)
    waiting = Counter((row.queue, row.given.type) for row in state.jobs.values() if row.status in WAITING)
    return Overview(
        now=moment(now),
        queues=tuple(_queue(queue, rows[name]) for name, queue in sorted(state.queues.items())),
        workers=tuple(_worker(state, name, worker, now) for name, worker in sorted(state.workers.items())),
        orphaned_types=state.announced().orphans(waiting.items()),
    )


def _queue(queue: QueueRow, rows: list[JobRow]) -> QueueInfo:
    ready = [row for row in rows if row.status is Status.QUEUED]
    count = Counter(row.status for row in rows if row.trashed_at is None)
    return QueueInfo(
        name=queue.name,
        paused=queue.paused,
        depth=dict(Counter(row.given.priority for row in ready)),
        scheduled=count[Status.SCHEDULED],
        retrying=count[Status.RETRYING],
        running=count[Status.RUNNING],
        dead=count[Status.DEAD],
        trashed=sum(row.trashed_at is not None for row in rows),
        oldest=moment(min(row.run_at for row in ready)) if ready else None,
        ahead=sum(row.lease is not None and not row.lease.started for row in rows),
        closed=queue.closed,
    )


def _worker(state: MemoryState, name: str, row: WorkerRow, now: float) -> WorkerInfo:
    request = row.request
    return WorkerInfo(
        id=name,
        host=request.host,
        pid=request.pid,
        version=request.version,
        queues=request.queues,
        types=request.types,
        concurrency=request.concurrency,
        busy=request.busy,
        quiet=request.quiet,
        started_at=moment(row.started_at),
        heartbeat_at=moment(row.heartbeat_at),
        heartbeat_age=now - row.heartbeat_at,
        lost=row.lost(now),
        stuck=request.stuck,
        release=state.releases.name_of(request.release),
    )


def conservation(state: MemoryState) -> Conservation:
    """Return where all jobs are; those that were removed go on counting."""
    count = Counter(row.status for row in state.jobs.values())
    total = state.tallies.total
    return Conservation(
        completed=count[Status.COMPLETED] + total("expired_completed"),
        dead=count[Status.DEAD] + total("expired_dead", "purged"),
        cancelled=count[Status.CANCELLED] + total("expired_cancelled"),
        unfinished=sum(count[status] for status in UNFINISHED),
        retries=total("retried"),
    )


def signatures(
    state: MemoryState, dead: Iterable[Job], window: float, slices: int, by_minutes: bool
) -> list[SignatureInfo]:
    """Group dead jobs by their signature, those that grew most first, then by count.

    `by_minutes`: growth is by the deaths of each minute, else by these jobs alone.
    """
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in dead:
        groups[job.signature or ""].append(job)
    found = [_group(state, signature, jobs, window, slices, by_minutes) for signature, jobs in groups.items()]
    return sorted(found, key=lambda group: (-group.grown, -group.count, group.signature))


def _group(
    state: MemoryState, signature: str, jobs: list[Job], window: float, slices: int, by_minutes: bool
) -> SignatureInfo:
    newest = max(jobs, key=lambda job: (job.updated_at, job.id))
    queues = sorted({job.queue for job in jobs})
    since = state.clock.now() - window
    if by_minutes:
        trend = state.tallies.trend(signature, set(queues), since, window, slices)
    else:
        minutes = Counter(int(job.updated_at.timestamp() // 60) for job in jobs)
        trend = sliced(minutes.items(), since, window, slices)
    title, first_seen = state.signatures[signature]
    return SignatureInfo(
        signature=signature,
        title=title,
        count=len(jobs),
        grown=sum(trend),
        trend=trend,
        first_seen=moment(first_seen),
        last_seen=newest.updated_at,
        types=tuple(Counter(job.type for job in jobs).most_common()),
        queues=tuple(queues),
        sample_id=newest.id,
    )


def dead_counts(dead: Iterable[Job]) -> DeadCounts:
    """Count dead jobs by queue and type."""
    found = Counter[tuple[str, str]]()
    first: datetime | None = None
    for job in dead:
        found[job.queue, job.type] += 1
        first = job.updated_at if first is None else min(first, job.updated_at)
    rows = [DeadCount(queue, type_, n) for (queue, type_), n in found.items()]
    return DeadCounts(tuple(sorted(rows, key=lambda row: (-row.count, row.queue, row.type))), found.total(), first)


_DEAD = Term("status", "=", Status.DEAD.value)


class MemoryInspector:
    """Looks at a `MemoryStore`; see queue_core.ports.inspector.Inspector for what each method does."""

    def __init__(self, store: MemoryStore) -> None:
        self._state = store.state

    async def overview(self) -> Overview:
        with self._state.lock:
            return overview(self._state)

    async def get(self, job_id: str) -> Job:
        with self._state.lock:
            return self._row(job_id).view()

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change."""
        with self._state.lock:
            found = list(islice(self._matching(where, order, cursor), limit + 1))
            more = len(found) > limit
            return Page(tuple(found[:limit]), _cursor(found[limit - 1]) if more and limit > 0 else None)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        with self._state.lock:
            return sum(1 for _ in islice(self._matching(where), at_most))

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs."""
        with self._state.lock:
            return [job.id for job in islice(self._matching(where), limit)]

    async def attempts(self, job_id: str) -> list[Attempt]:
        with self._state.lock:
            return list(self._row(job_id).attempts)

    async def logs(self, job_id: str, limit: int = MAX_LOG_LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first."""
        with self._state.lock:
            return page(self._row(job_id), limit, after)

    async def types(self) -> dict[str, TypeInfo]:
        """Return what workers have announced of types."""
        with self._state.lock:
            return deepcopy(self._state.types)

    async def saved_filters(self) -> list[SavedFilter]:
        with self._state.lock:
            return [saved for _, saved in sorted(self._state.filters.items())]

    async def signature_facts(self, signatures: Sequence[str] | None = None) -> StoredFacts:
        with self._state.lock:
            facts = self._state.facts
            wanted = facts if signatures is None else [one for one in signatures if one in facts]
            return StoredFacts(self._state.clock.now(), {signature: facts[signature] for signature in wanted})

    async def signature_deaths(self, signatures: Sequence[str]) -> list[SignatureDeaths]:
        with self._state.lock:
            return self._state.tallies.deaths(signatures)

    async def titles(self, beginning: str, limit: int) -> dict[str, str]:
        with self._state.lock:
            found = sorted((name, title) for name, (title, _) in self._state.signatures.items())
            return dict([one for one in found if one[0].startswith(beginning)][:limit])

    async def type_runs(self, types: Sequence[str], newest: int = 50) -> list[TypeRuns]:
        wanted = frozenset(types)
        with self._state.lock:
            ran = [
                TypeRuns(key[0], key[1], *counts)
                for key, counts in self._state.tallies.runs.items()
                if key[0] in wanted
            ]
        return newest_runs(ran, newest)

    async def releases(self) -> list[Release]:
        with self._state.lock:
            return self._state.releases.in_order()

    async def known_signatures(self, where: Filter, window: float, limit: int) -> list[SignatureInfo]:
        return await self.signatures(where, window, 1, limit)

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        with self._state.lock:
            dead = self._matching(where.having(_DEAD))
            return signatures(self._state, dead, window, slices, counts_by_minute(where))[:limit]

    async def sample(
        self, where: Filter, limit: int, before: datetime | None = None, among: int | None = None
    ) -> Sequence[Job]:
        with self._state.lock:
            now = moment(self._state.clock.now())
            recent = self._matching(Filter(tuple(t for t in where.terms if t.field == "status"), where.trash))
            seen = islice((job for job in recent if before is None or job.updated_at < before), among)
            found = islice((job for job in seen if matches(job, where, now)), limit)
            return [job if len(job.payload_text) <= SAMPLED_TEXT else replace(job, payload=None) for job in found]

    async def search(self, where: Filter, most: int, cursor: str | None = None) -> Searched:
        where = where.having(_DEAD)
        with self._state.lock:
            now = moment(self._state.clock.now())
            every = self._matching(Filter((_DEAD, *where.leading), where.trash), "newest", cursor)
            page = list(islice(every, most))
            ids = [job.id for job in page if matches(self._state.jobs[job.id].view(), where, now)]
            total = 0 if cursor else len(page) + sum(1 for _ in every)
            return Searched(tuple(ids), len(page), _cursor(page[-1]) if len(page) == most and page else None, total)

    async def dead_counts(self, signature: str) -> DeadCounts:
        with self._state.lock:
            return dead_counts(self._matching(Filter((_DEAD, Term("signature", "=", signature)))))

    async def tallies(self) -> list[Tally]:
        with self._state.lock:
            return self._state.tallies.tallies()

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        """Return the last minutes, oldest first."""
        with self._state.lock:
            return self._state.tallies.series(self._state.clock.now(), minutes, queue)

    async def conservation(self) -> Conservation:
        """Return where all jobs are."""
        with self._state.lock:
            return conservation(self._state)

    async def now(self) -> float:
        return self._state.clock.now()

    async def ping(self) -> float:
        """Return 0: there is no way to go."""
        return 0.0

    async def blockers(self) -> list[dict[str, Any]]:
        """Return none: its only lock is held for moments."""
        return []

    async def facts(self) -> dict[str, Any]:
        """Return the facts of a store in memory."""
        with self._state.lock:
            return {"backend": "memory", "now": self._state.clock.now(), "jobs": len(self._state.jobs)}

    async def close(self) -> None:
        """Nothing is connected."""

    def _row(self, job_id: str) -> JobRow:
        try:
            return self._state.jobs[job_id]
        except KeyError:
            raise JobNotFound(job_id) from None

    def _matching(self, where: Filter, order: Order = "newest", cursor: str | None = None) -> Iterator[Job]:
        """Yield the jobs that match, behind the cursor, in order."""
        newest, after = order == "newest", None if cursor is None else _key(cursor)
        now, wanted = moment(self._state.clock.now()), where.statuses()
        rows = [(moment(row.updated_at), row) for row in self._state.jobs.values() if row.status in wanted]
        for updated_at, row in sorted(rows, key=lambda pair: (pair[0], pair[1].id), reverse=newest):
            key = (updated_at, row.id)
            if after is not None and (key >= after if newest else key <= after):
                continue
            job = row.view()
            if matches(job, where, now):
                yield job


def _cursor(job: Job) -> str:
    return f"{job.updated_at.timestamp()!r} {job.id}"


def _key(cursor: str) -> tuple[datetime, str]:
    at, _, job_id = cursor.partition(" ")
    try:
        return moment(float(at)), job_id
    except (ValueError, OverflowError, OSError):  # the clock of some systems is narrower than a datetime
        raise FilterError("this is no cursor that a page gave", cursor, 0) from None
