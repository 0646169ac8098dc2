"""How jobs, groups, queues and workers look as table rows and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from jobconsole.cli.output import Column, Output
from jobconsole.core.humanize import age, exact, plural, seconds_between
from queue_core.inspection import LogPage, QueueInfo, SignatureInfo, WorkerInfo
from queue_core.job import Job
from queue_core.joblogs import LINE_BYTES
from queue_core.priorities import BANDS, band
from queue_core.text import safe

_HEAVY = frozenset({"traceback", "payload_text"})

JOBS = (
    Column("ID"),
    Column("TYPE", limit=40),
    Column("QUEUE", limit=40),
    Column("STATUS"),
    Column("PRI", "right"),
    Column("TRIES", "right"),
    Column("CHANGED"),
    Column("ERROR", limit=200),
)
GROUPS = (
    Column("SIGNATURE"),
    Column("COUNT", "right"),
    Column("GROWN", "right"),
    Column("FIRST"),
    Column("LAST"),
    Column("TYPES", limit=60),
    Column("ERROR", limit=200),
)
QUEUES = (
    Column("QUEUE", limit=60),
    Column("STATE"),
    *(Column(name.upper(), "right") for name in BANDS),
    Column("SCHEDULED", "right"),
    Column("RETRYING", "right"),
    Column("RUNNING", "right"),
    Column("DEAD", "right"),
    Column("OLDEST", "right"),
)
WORKERS = (
    Column("ID"),
    Column("HOST", limit=40),
    Column("PID", "right"),
    Column("STATE"),
    Column("BUSY", "right"),
    Column("BEAT", "right"),
    Column("VERSION", limit=20),
    Column("QUEUES", limit=60),
    Column("TYPES", limit=120),
)


def moment(when: datetime | None) -> str:
    """Return 2026-01-30 03:07:41Z."""
    return "" if when is None else when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def show_jobs(output: Output, jobs: Iterable[Job]) -> None:
    """Write jobs as a table."""
    output.table(JOBS, (_job_row(job) for job in jobs))


def _job_row(job: Job) -> tuple[object, ...]:
    status = "trashed" if job.trashed_at else job.status.value
    tries = f"{job.retry_count}/{job.max_retries}"
    error = job.error or (job.progress_message and f"{job.progress}% {job.progress_message}")
    return (job.id, job.type, job.queue, status, job.priority, tries, moment(job.updated_at), error)


def job_body(job: Job, complete: bool = False) -> dict[str, Any]:
    """Return a job as JSON; lists leave out what may be large and says nothing new."""
    left_out = frozenset() if complete else _HEAVY
    return {field.name: getattr(job, field.name) for field in dataclasses.fields(job) if field.name not in left_out}


def show_log(output: Output, page: LogPage, indent: str = "") -> None:
    """Write the lines of a job's log with their times; those that go on over several lines are indented."""
    if page.dropped:
        output.line(f"{indent}({plural(page.dropped, 'earlier line')} not kept)")
    for entry in page.entries:
        first, *more = safe(entry.text, 2 * LINE_BYTES, newlines=True).rstrip("\n").split("\n")
        output.line(f"{indent}{moment(entry.at)}  {first}".rstrip())
        for line in more:
            output.line(f"{indent}{'':20}  {line}".rstrip())


def show_groups(output: Output, groups: Iterable[SignatureInfo]) -> None:
    """Write error signatures as a table."""
    output.table(
        GROUPS,
        (
            (
                group.signature,
                exact(group.count),
                exact(group.grown),
                moment(group.first_seen),
                moment(group.last_seen),
                ", ".join(name for name, _ in group.types),
                group.title,
            )
            for group in groups
        ),
    )


def show_queues(output: Output, queues: Iterable[QueueInfo], now: datetime) -> None:
    """Write queues as a table."""
    output.table(QUEUES, (_queue_row(queue, now) for queue in queues))


def _queue_row(queue: QueueInfo, now: datetime) -> tuple[object, ...]:
    depth = bands(queue)
    return (
        queue.name,
        "paused" if queue.paused else "open",
        *(exact(depth[name]) for name in BANDS),
        exact(queue.scheduled),
        exact(queue.retrying),
        exact(queue.begun),
        exact(queue.dead),
        age(seconds_between(queue.oldest, now)),
    )


def bands(queue: QueueInfo) -> dict[str, int]:
    """Return the ready jobs by priority band."""
    depth = dict.fromkeys(BANDS, 0)
    for priority, number in queue.depth.items():
        depth[band(priority)] += number
    return depth


def queue_body(queue: QueueInfo) -> dict[str, Any]:
    """Return a queue as JSON."""
    own = {field.name: getattr(queue, field.name) for field in dataclasses.fields(queue)}
    return own | {"queued": queue.queued, "pending": queue.pending, "bands": bands(queue)}


def worker_state(worker: WorkerInfo) -> str:
    """Return lost, quiet, busy or idle."""
    if worker.lost:
        return "lost"
    if worker.quiet:
        return "quiet"
    return "busy" if worker.busy else "idle"


def show_workers(output: Output, workers: Iterable[WorkerInfo]) -> None:
    """Write workers as a table."""
    output.table(
        WORKERS,
        (
            (
                worker.id,
                worker.host,
                worker.pid,
                worker_state(worker),
                f"{worker.busy}/{worker.concurrency}" + (f" + {worker.stuck} stuck" if worker.stuck else ""),
                age(worker.heartbeat_age),
                worker.version,
                ", ".join(worker.queues),
                "every type" if worker.types is None else ", ".join(worker.types),
            )
            for worker in workers
        ),
    )


def worker_body(worker: WorkerInfo) -> dict[str, Any]:
    """Return a worker as JSON."""
    own = {field.name: getattr(worker, field.name) for field in dataclasses.fields(worker)}
    return own | {"state": worker_state(worker)}
