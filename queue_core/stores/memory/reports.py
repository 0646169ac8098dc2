"""What the inspector reads from many rows at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from queue_core.inspection import Conservation, Overview, QueueInfo, SignatureInfo, WorkerInfo
from queue_core.job import Job
from queue_core.states import UNFINISHED, WAITING, Status
from queue_core.stores.memory.rows import JobRow, WorkerRow, moment
from queue_core.stores.memory.state import MemoryState
from queue_core.stores.memory.totals import sliced


def overview(state: MemoryState) -> Overview:
    """Return queues, workers and depths as of now."""
    now = state.clock.now()
    rows: dict[str, list[JobRow]] = defaultdict(list)
    for row in state.jobs.values():
        rows[row.queue].append(row)
    waiting = Counter((row.queue, row.given.type) for row in state.jobs.values() if row.status in WAITING)
    return Overview(
        now=moment(now),
        queues=tuple(_queue(name, queue.paused, rows[name]) for name, queue in sorted(state.queues.items())),
        workers=tuple(_worker(name, worker, now) for name, worker in sorted(state.workers.items())),
        orphaned_types=state.announced().orphans(waiting.items()),
    )


def _queue(name: str, paused: bool, rows: list[JobRow]) -> QueueInfo:
    ready = [row for row in rows if row.status is Status.QUEUED]
    count = Counter(row.status for row in rows if row.trashed_at is None)
    return QueueInfo(
        name=name,
        paused=paused,
        depth=dict(Counter(row.given.priority for row in ready)),
        scheduled=count[Status.SCHEDULED],
        retrying=count[Status.RETRYING],
        running=count[Status.RUNNING],
        dead=count[Status.DEAD],
        trashed=sum(row.trashed_at is not None for row in rows),
        oldest=moment(min(row.run_at for row in ready)) if ready else None,
        ahead=sum(row.lease is not None and not row.lease.begun for row in rows),
    )


def _worker(name: str, row: WorkerRow, now: float) -> WorkerInfo:
    beat = row.beat
    return WorkerInfo(
        id=name,
        host=beat.host,
        pid=beat.pid,
        version=beat.version,
        queues=beat.queues,
        types=beat.types,
        concurrency=beat.concurrency,
        busy=beat.busy,
        quiet=beat.quiet,
        started_at=moment(row.started_at),
        heartbeat_at=moment(row.heartbeat_at),
        heartbeat_age=now - row.heartbeat_at,
        lost=row.lost(now),
        stuck=beat.stuck,
    )


def conservation(state: MemoryState) -> Conservation:
    """Return where all jobs are; those that were removed go on counting."""
    count = Counter(row.status for row in state.jobs.values())
    total = state.totals.total
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
        trend = state.totals.trend(signature, set(queues), since, window, slices)
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
