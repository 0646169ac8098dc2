"""How jobs, groups, queues and workers look as table rows and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jobconsole.cli.output import Column, Output
from jobconsole.format.humanize import age, elapsed, exact, plural, rate, seconds_between
from jobconsole.format.humanize import duration as length
from queue_core.model.job import LINE_BYTES, Job
from queue_core.model.report import LogPage, QueueInfo, SignatureInfo, WorkerInfo
from queue_core.model.rules import BANDS, band
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.operation import Operation, Outcomes, Pace, Way


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


def in_words(way: Way, pace: Pace) -> list[str]:
    """Return how an operation goes on, for people; nothing where it goes on as ever."""
    return [*_pace_in_words(pace), *_way_in_words(way)]


def _pace_in_words(pace: Pace) -> Iterator[str]:
    if pace.canary:
        yield f"a canary of {plural(pace.canary, 'job')} first"
    if pace.rate is not None:
        yield f"{pace.rate:g} a second"
    if pace.stop_percent is not None:
        yield f"stopped when more than {pace.stop_percent:g}% die again"


def _way_in_words(way: Way) -> Iterator[str]:
    if way.queue is not None:
        yield f"into queue {safe(way.queue, 120)}"
    if way.priority is not None:
        yield f"with priority {way.priority}"
    if way.delay:
        yield f"due after {length(way.delay)}"
    if way.spread:
        yield f"spread over {length(way.spread)}"


OPERATIONS = (
    Column("#", "right"),
    Column("CREATED"),
    Column("WHO", limit=40),
    Column("VERB", limit=20),
    Column("STATE"),
    Column("DONE", "right"),
    Column("SKIPPED", "right"),
    Column("ERRORED", "right"),
    Column("WHAT", limit=200),
)


def show_operations(output: Output, operations: Iterable[Operation]) -> None:
    """Write operations as a table."""
    output.table(OPERATIONS, (_row(operation) for operation in operations))


def _row(operation: Operation) -> tuple[object, ...]:
    asked, members = operation.asked, operation.total
    return (
        operation.number,
        moment(operation.created_at),
        "@".join(asked.author),
        asked.verb,
        operation.state,
        f"{exact(operation.done)}/{exact(members)}" if members else None,
        exact(operation.skipped) if members else None,
        exact(operation.errored) if members else None,
        f"{asked.label} ({asked.why})" if asked.why else asked.label,
    )


def state_of_progress(operation: Operation) -> str:
    """Return how far an operation is, on one line."""
    pace = operation.asked.pace
    if operation.held:
        where = f"waits for the outcome of its canary of {plural(operation.barrier, 'job')}"
    else:
        where = f"{exact(operation.done)} of {plural(operation.total, 'job')}"
        where += "" if operation.state == "running" else f", {operation.state}"
    if pace.rate and operation.state == "running" and not operation.in_canary:
        where += f", {rate(pace.rate)}, {elapsed((operation.total - operation.done) / pace.rate)} left"
    skipped = f", skipped {exact(operation.skipped)}" if operation.skipped else ""
    errored = f", errored {exact(operation.errored)}" if operation.errored else ""
    return f"#{operation.number} {operation.asked.verb}: {where}{skipped}{errored}"


def outcome(operation: Operation) -> str:
    """Return what an operation came to, on one line."""
    counts = f"changed {exact(operation.processed)} of {plural(operation.total, 'job')}"
    if operation.done != operation.processed:
        counts += f", skipped {exact(operation.skipped)}, errored {exact(operation.errored)}"
    said = f"#{operation.number} {operation.asked.verb}: {operation.state}"
    if operation.total:
        said += f", {counts}"
    return f"{said}; {safe(operation.note, 500)}" if operation.note else said


def facts(operation: Operation, outcomes: Outcomes | None) -> list[tuple[str, object]]:
    """Return everything that is known of an operation, in the order of the questions who, what, how, why and what came
    of it."""
    asked = operation.asked
    return [
        ("operation", f"#{operation.number}"),
        ("verb", asked.verb),
        ("what", asked.label),
        ("state", operation.state),
        ("who", "@".join(asked.author)),
        ("why", asked.why),
        ("how", ", ".join(in_words(asked.way, asked.pace))),
        ("signatures", ", ".join(asked.signatures)),
        ("created", moment(operation.created_at)),
        ("started", moment(operation.started_at)),
        ("last step", moment(operation.updated_at)),
        ("ended", moment(operation.finished_at)),
        ("jobs", exact(operation.total) if operation.total else None),
        ("done", exact(operation.done) if operation.total else None),
        ("changed", exact(operation.processed) if operation.total else None),
        ("skipped", exact(operation.skipped) if operation.skipped else None),
        ("errored", exact(operation.errored) if operation.errored else None),
        ("canary", _canary(operation)),
        ("outcomes", outcomes and _outcomes(outcomes)),
        ("note", operation.note),
    ]


def _canary(operation: Operation) -> str:
    if not operation.asked.pace.canary or operation.state == "preparing":
        return ""
    if not operation.in_canary:
        return "over"
    return "its outcome is waited for" if operation.held else f"of {plural(operation.barrier, 'job')}, not over"


def _outcomes(outcomes: Outcomes) -> str:
    words = (
        (outcomes.completed, "completed"),
        (outcomes.dead, "dead again"),
        (outcomes.unfinished, "on their way"),
        (outcomes.ended - outcomes.dead - outcomes.completed, "gone"),
    )
    found = ", ".join(f"{exact(count)} {word}" for count, word in words if count)
    return f"of the last {exact(outcomes.looked)}: {found}"


def operation_body(operation: Operation) -> dict[str, Any]:
    """Return an operation as JSON."""
    asked = operation.asked
    return {
        "number": operation.number,
        "verb": asked.verb,
        "label": asked.label,
        "state": operation.state,
        "user": asked.author.user,
        "host": asked.author.host,
        "why": asked.why,
        **asked.way._asdict(),
        **asked.pace._asdict(),
        "signatures": asked.signatures,
        "total": operation.total,
        "done": operation.done,
        "processed": operation.processed,
        "skipped": operation.skipped,
        "errored": operation.errored,
        "note": operation.note,
        "created_at": operation.created_at,
        "started_at": operation.started_at,
        "updated_at": operation.updated_at,
        "finished_at": operation.finished_at,
    }
