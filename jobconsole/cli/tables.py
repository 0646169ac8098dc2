"""Jobs, groups, queues, workers and operations on standard output: facts as lines and tables, records as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jobconsole.cli.output import Output, TextColumn
from jobconsole.core.rows import attempts_of, bands
from jobconsole.format.humanize import elapsed, exact, plural, rate
from jobconsole.format.words import outcome_phrase, state_phrase, undoes, undone_by, written_phrase
from jobconsole.present.facts import Fact, Facts, cells, moment, of_job
from jobconsole.present.signature import state_body
from queue_core.model.job import MAX_LOG_LINE_BYTES, Attempt, Job
from queue_core.model.report import LogPage, QueueInfo, WorkerInfo
from queue_core.model.rules import BANDS
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.operation import Operation
    from queue_core.model.report import SignatureInfo
    from queue_core.model.triage.signatures import SignatureState


_HEAVY = frozenset({"traceback", "payload_text"})

JOBS = (
    TextColumn("ID"),
    TextColumn("TYPE", limit=40),
    TextColumn("QUEUE", limit=40),
    TextColumn("STATUS"),
    TextColumn("PRI", "right"),
    TextColumn("TRIES", "right"),
    TextColumn("CHANGED"),
    TextColumn("ERROR", limit=200),
)
GROUPS = (
    TextColumn("SIGNATURE"),
    TextColumn("COUNT", "right"),
    TextColumn("GROWN", "right"),
    TextColumn("FIRST"),
    TextColumn("LAST"),
    TextColumn("STATE"),
    TextColumn("OWNER", limit=20),
    TextColumn("SINCE", limit=20),
    TextColumn("TYPES", limit=60),
    TextColumn("ERROR", limit=200),
)
QUEUES = (
    TextColumn("QUEUE", limit=60),
    TextColumn("STATE"),
    *(TextColumn(name.upper(), "right") for name in BANDS),
    TextColumn("SCHEDULED", "right"),
    TextColumn("RETRYING", "right"),
    TextColumn("RUNNING", "right"),
    TextColumn("DEAD", "right"),
    TextColumn("OLDEST", "right"),
)
WORKERS = (
    TextColumn("ID"),
    TextColumn("HOST", limit=40),
    TextColumn("PID", "right"),
    TextColumn("STATE"),
    TextColumn("BUSY", "right"),
    TextColumn("BEAT", "right"),
    TextColumn("VERSION", limit=20),
    TextColumn("RELEASE"),
    TextColumn("QUEUES", limit=60),
    TextColumn("TYPES", limit=120),
)


def show_jobs(output: Output, jobs: Iterable[Job]) -> None:
    """Write jobs as a table."""
    output.table(JOBS, (_job_row(job) for job in jobs))


def _job_row(job: Job) -> tuple[object, ...]:
    status = "trashed" if job.trashed_at else job.status.value
    tries = "{}/{}".format(*attempts_of(job))
    error = job.error or (job.progress_message and f"{job.progress}% {job.progress_message}")
    return (job.id, job.type, job.queue, status, job.priority, tries, moment(job.updated_at), error)


_LONGEST_BLOCK = 20_000
"""Characters of a payload, result or traceback that `show` prints; --json has all of it."""
LAST_LINES = 10
"""Lines of its log that `show` prints; `logs` has all of it."""

_ATTEMPTS = (
    TextColumn("ATTEMPT", "right"),
    TextColumn("KIND"),
    TextColumn("ENDED"),
    TextColumn("WORKER"),
    TextColumn("RELEASE"),
    TextColumn("ERROR", limit=200),
)


def show_job(
    output: Output, job: Job, attempts: Sequence[Attempt], log: LogPage, operations: Sequence[Operation]
) -> None:
    """Write everything about a job: facts, payload, result, traceback, attempts, the end of its log, operations."""
    show_facts(output, of_job(job))
    text = job.payload_text if job.payload is None else json.dumps(job.payload, indent=2, ensure_ascii=False)
    _block(output, "payload", text)
    if job.result is not None:
        _block(output, "result", json.dumps(job.result, indent=2, ensure_ascii=False))
    if job.traceback:
        _block(output, "traceback", job.traceback)
    if attempts:
        output.line()
        rows = [
            (one.number, one.kind, moment(one.finished_at), one.worker, one.release, one.message) for one in attempts
        ]
        output.table(_ATTEMPTS, rows)
    if log.entries:
        output.line()
        output.line("log, its last lines:" if len(log.entries) == LAST_LINES else "log:")
        show_log(output, log, indent="  ")
    _show_operations(output, operations)


def _show_operations(output: Output, operations: Sequence[Operation]) -> None:
    if operations:
        output.line()
        output.line("operations:")
    for operation in operations:
        request = operation.request
        why = f": {request.why}" if request.why else ""
        text = f"#{operation.number} {request.verb} by {'@'.join(request.author)}{why}"
        output.line(f"  {moment(operation.created_at)}  {safe(text, 600)}")


def _block(output: Output, title: str, text: str) -> None:
    output.line()
    output.line(f"{title}:")
    for line in safe(text, _LONGEST_BLOCK, newlines=True).rstrip("\n").split("\n"):
        output.line(f"  {line}")


def job_body(job: Job, complete: bool = False) -> dict[str, Any]:
    """Return a job as JSON; lists leave out fields that may be large and add no information."""
    left_out = frozenset() if complete else _HEAVY
    return {field.name: getattr(job, field.name) for field in dataclasses.fields(job) if field.name not in left_out}


def show_facts(output: Output, facts: Iterable[Fact]) -> None:
    """Write the facts that are known, one a line."""
    for fact in facts:
        if fact.known:
            output.line(f"{fact.label:<14}{fact.text()}")


def show_table(output: Output, columns: Sequence[TextColumn], rows: Iterable[Facts]) -> None:
    """Write things as a table, whose titles are the labels of facts."""
    titles = [column.title for column in columns]
    output.table(columns, (cells(facts, titles) for facts in rows))


def show_log(output: Output, page: LogPage, indent: str = "") -> None:
    """Write the lines of a job's log with their times; further lines of the same entry are indented."""
    if page.dropped:
        output.line(f"{indent}({plural(page.dropped, 'earlier line')} not kept)")
    for entry in page.entries:
        first, *more = safe(entry.text, 2 * MAX_LOG_LINE_BYTES, newlines=True).rstrip("\n").split("\n")
        output.line(f"{indent}{moment(entry.at)}  {first}".rstrip())
        for line in more:
            output.line(f"{indent}{'':20}  {line}".rstrip())


def group_body(group: SignatureInfo, state: SignatureState) -> dict[str, Any]:
    """Return a group of dead jobs with its state as JSON."""
    own = {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
    return own | state_body(state)


def queue_body(queue: QueueInfo) -> dict[str, Any]:
    """Return a queue as JSON."""
    own = {field.name: getattr(queue, field.name) for field in dataclasses.fields(queue)}
    return own | {"state": queue.state, "queued": queue.queued, "pending": queue.pending, "bands": bands(queue)}


def worker_body(worker: WorkerInfo) -> dict[str, Any]:
    """Return a worker as JSON."""
    own = {field.name: getattr(worker, field.name) for field in dataclasses.fields(worker)}
    return own | {"state": worker.state}


OPERATIONS = (
    TextColumn("#", "right"),
    TextColumn("CREATED"),
    TextColumn("WHO", limit=40),
    TextColumn("VERB", limit=20),
    TextColumn("STATE"),
    TextColumn("DONE", "right"),
    TextColumn("SKIPPED", "right"),
    TextColumn("ERRORED", "right"),
    TextColumn("OUTCOME"),
    TextColumn("WHAT", limit=200),
)


def show_operations(output: Output, operations: Iterable[Operation]) -> None:
    """Write operations as a table."""
    found = list(operations)
    undone = undone_by(found)
    output.table(OPERATIONS, (_row(operation, undone.get(operation.number)) for operation in found))


def _row(operation: Operation, undone: int | None) -> tuple[object, ...]:
    request, members = operation.request, operation.total
    progress = f"{exact(operation.done)}/{exact(members)}"
    if operation.state == "preparing":
        progress = written_phrase(operation)
    return (
        operation.number,
        moment(operation.created_at),
        "@".join(request.author),
        request.verb,
        f"undone by #{undone}" if undone else state_phrase(operation, operation.updated_at),
        progress if members else None,
        exact(operation.skipped) if members else None,
        exact(operation.errored) if members else None,
        outcome_phrase(operation) if operation.outcomes is not None or request.verb == "drain" else None,
        f"{request.label} ({request.why})" if request.why else request.label,
    )


def state_of_progress(operation: Operation) -> str:
    """Return how far an operation is, on one line."""
    rollout = operation.request.rollout
    stage = operation.stage
    if operation.waits_for:
        where = f"{'waits' if operation.state == 'running' else operation.state} for release {operation.waits_for}"
    elif operation.awaiting_canary and rollout.ramp:
        size = plural(stage.size, "job")
        where = f"ramp {stage.number} of {stage.of}, waiting for the outcome of {size}"
    elif operation.awaiting_canary:
        where = f"waiting for its canary of {plural(stage.size, 'job')}"
    else:
        drained = "drained " if operation.request.verb == "drain" else ""
        where = f"{drained}{exact(operation.done)} of {plural(operation.total, 'job')}"
        where += "" if operation.state == "running" else f", {operation.state}"
    if rollout.rate and operation.state == "running" and not operation.in_canary:
        where += f", {rate(rollout.rate)}, {elapsed((operation.total - operation.done) / rollout.rate)} left"
    skipped = f", skipped {exact(operation.skipped)}" if operation.skipped else ""
    errored = f", errored {exact(operation.errored)}" if operation.errored else ""
    known = f", {outcome_phrase(operation)}" if operation.outcomes is not None else ""
    return f"#{operation.number} {operation.request.verb}: {where}{skipped}{errored}{known}"


def outcome(operation: Operation) -> str:
    """Return what an operation came to, on one line."""
    past = "drained" if operation.request.verb == "drain" else "changed"
    counts = f"{past} {exact(operation.processed)} of {plural(operation.total, 'job')}"
    if operation.done != operation.processed:
        counts += f", skipped {exact(operation.skipped)}, errored {exact(operation.errored)}"
    text = f"#{operation.number} {operation.request.verb}: {operation.state}"
    if operation.total:
        text += f", {counts}"
    if operation.outcomes is not None and (operation.outcomes.ended or operation.outcomes.retrying):
        text += f"; {outcome_phrase(operation)}"
    return f"{text}; {safe(operation.note, 500)}" if operation.note else text


def operation_body(operation: Operation, undone: int | None = None) -> dict[str, Any]:
    """Return an operation as JSON; `undone`: the number of the one that has undone it, as far as it was read."""
    request, outcomes, stage = operation.request, operation.outcomes, operation.stage
    return {
        "number": operation.number,
        "verb": request.verb,
        "label": request.label,
        "state": operation.state,
        "user": request.author.user,
        "host": request.author.host,
        "why": request.why,
        **request.options._asdict(),
        **request.rollout._asdict(),
        "undoes": undoes(operation) or None,
        "undone_by": undone,
        "signatures": request.signatures,
        "total": operation.total,
        "done": operation.done,
        "processed": operation.processed,
        "skipped": operation.skipped,
        "errored": operation.errored,
        "note": operation.note,
        "outcomes": None if outcomes is None else outcomes._asdict() | {"ended": outcomes.ended},
        "stage": {"number": stage.number, "of": stage.of} if stage.of and operation.in_canary else None,
        "waits_for": operation.waits_for or None,
        "created_at": operation.created_at,
        "started_at": operation.started_at,
        "updated_at": operation.updated_at,
        "finished_at": operation.finished_at,
    }
