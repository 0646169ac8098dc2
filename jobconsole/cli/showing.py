"""`jobconsole job show` and `jobconsole job logs`: everything about one job."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE
from jobconsole.cli.opwords import operation_body
from jobconsole.cli.output import Column, Output
from jobconsole.cli.selection import canonical
from jobconsole.cli.session import connected
from jobconsole.cli.tables import job_body, moment, show_log
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.inspection import LogPage
    from queue_core.job import Attempt, Job
    from queue_core.operations import Operation
    from queue_core.queue import JobQueue

_LONGEST = 20_000
"""Characters of a payload, result or traceback that `show` prints; --json has all of it."""

_LAST_LINES = 10
"""Lines of its log that `show` prints; `logs` has all of it."""

_OPERATIONS = 20
"""Operations on a job that `show` names, the last ones."""

_ATTEMPTS = (Column("ATTEMPT", "right"), Column("KIND"), Column("ENDED"), Column("WORKER"), Column("ERROR", limit=200))


def run_show(options: argparse.Namespace, output: Output) -> int:
    """Show one job."""
    job_id = canonical(options.id)

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        job, attempts = await jobs.inspector.get(job_id), await jobs.inspector.attempts(job_id)
        log = await jobs.inspector.logs(job_id, _LAST_LINES)
        operations = await jobs.operations.of_job(job_id, _OPERATIONS)
        if output.as_json:
            lines = {"lines": log.entries, "dropped": log.dropped}
            body = {"job": job_body(job, complete=True), "attempts": attempts, "log": lines}
            output.json(body | {"operations": [operation_body(operation) for operation in operations]})
        else:
            _show(output, job, attempts, log)
            _show_operations(output, operations)
        return DONE

    return connected(options, output, run)


def run_logs(options: argparse.Namespace, output: Output) -> int:
    """Show a job's log."""
    job_id = canonical(options.id)

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        page = await jobs.inspector.logs(job_id, options.limit)
        if output.as_json:
            output.json({"lines": page.entries, "dropped": page.dropped})
        else:
            show_log(output, page)
        return DONE

    return connected(options, output, run)


def _show(output: Output, job: Job, attempts: list[Attempt], log: LogPage) -> None:
    for name, value in _facts(job):
        if value not in (None, "", "-"):
            output.line(f"{name:<14}{safe(str(value), 500)}")
    text = job.payload_text if job.payload is None else json.dumps(job.payload, indent=2, ensure_ascii=False)
    _block(output, "payload", text)
    if job.result is not None:
        _block(output, "result", json.dumps(job.result, indent=2, ensure_ascii=False))
    if job.traceback:
        _block(output, "traceback", job.traceback)
    if attempts:
        output.line()
        rows = [(one.number, one.kind, moment(one.finished_at), one.worker, one.message) for one in attempts]
        output.table(_ATTEMPTS, rows)
    if log.entries:
        output.line()
        output.line("log, its last lines:" if len(log.entries) == _LAST_LINES else "log:")
        show_log(output, log, indent="  ")


def _show_operations(output: Output, operations: list[Operation]) -> None:
    if operations:
        output.line()
        output.line("operations:")
    for operation in operations:
        asked = operation.asked
        why = f": {asked.why}" if asked.why else ""
        said = f"#{operation.number} {asked.verb} by {'@'.join(asked.author)}{why}"
        output.line(f"  {moment(operation.created_at)}  {safe(said, 600)}")


def _facts(job: Job) -> list[tuple[str, object]]:
    return [
        ("id", job.id),
        ("type", job.type),
        ("queue", job.queue),
        ("status", f"{job.status.value}{', in the trash' if job.trashed_at else ''}"),
        ("priority", job.priority),
        ("tags", ", ".join(job.tags)),
        ("ordering key", job.ordering_key),
        ("unique key", job.unique_key),
        ("retries", f"{job.retry_count} of {job.max_retries}"),
        ("losses", job.losses or None),
        ("crashes", job.crashes or None),
        ("progress", f"{job.progress}% {job.progress_message}".strip() if job.progress else None),
        ("created", moment(job.created_at)),
        ("due", moment(job.run_at)),
        ("started", moment(job.started_at)),
        ("ended", moment(job.completed_at)),
        ("worker", job.worker),
        ("lease until", moment(job.lease_expires_at)),
        ("cancel", "requested" if job.cancel_requested else None),
        ("signature", job.signature),
        ("error", job.error),
    ]


def _block(output: Output, title: str, text: str) -> None:
    output.line()
    output.line(f"{title}:")
    for line in safe(text, _LONGEST, newlines=True).rstrip("\n").split("\n"):
        output.line(f"  {line}")
