"""`jobconsole job`: look at jobs, put one in, change some."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from jobconsole.cli.change import add_verb, move, operate
from jobconsole.cli.commands import edit, enqueue
from jobconsole.cli.failures import DONE, note
from jobconsole.cli.output import Column, Output
from jobconsole.cli.root import Parser, add_verbs, whole
from jobconsole.cli.selection import add_filters, canonical, check_queue, filter_of
from jobconsole.cli.session import connected
from jobconsole.cli.tables import job_body, moment, operation_body, show_jobs, show_log
from jobconsole.format.words import WORDS
from queue_core.model.job import LINES
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.filters import Filter
    from queue_core.model.job import Attempt, Job
    from queue_core.model.operation import Operation
    from queue_core.model.report import LogPage
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


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add_list(add("list", run_list, "list jobs, the newest change first"))
    show = add("show", run_show, "everything about one job, its failed attempts included")
    show.add_argument("id", metavar="ID")
    logs = add("logs", run_logs, "the lines that a job's handlers wrote, the oldest first")
    logs.add_argument("id", metavar="ID")
    logs.add_argument(
        "--limit", type=whole(1, LINES), default=LINES, metavar="N", help="the last N lines (default all)"
    )
    enqueue.add_arguments(add("enqueue", enqueue.run, "put a job in; prints its id"))
    edit.add_arguments(add("edit", edit.run, "enqueue a job that has ended anew, with another payload"))
    completed = " (completed ones by id or with --status completed)"
    add_verb(add, "retry", run_retry, f"{WORDS['retry'].summary}{completed}")
    add_verb(add, "move", run_move)
    add_verb(add, "cancel", run_cancel)
    add_verb(add, "delete", run_delete)
    add_verb(add, "restore", run_restore)


def add_list(verb: Parser) -> None:
    """Declare the options of a list of jobs."""
    add_filters(verb)
    verb.add_argument("--limit", type=whole(1, 10_000), default=50, metavar="N", help="at most N jobs (default 50)")
    verb.add_argument("--cursor", metavar="TEXT", help="go on where the page before ended")
    verb.add_argument("--oldest", action="store_true", help="the oldest change first")


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List jobs."""
    return list_jobs(options, output, filter_of(options))


def list_jobs(options: argparse.Namespace, output: Output, where: Filter) -> int:
    """List the jobs that match."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        order = "oldest" if options.oldest else "newest"
        page = await jobs.inspector.jobs(where, options.limit, options.cursor, order)  # type: ignore[arg-type]
        if output.as_json:
            output.json({"jobs": [job_body(job) for job in page.jobs], "cursor": page.cursor})
            return DONE
        show_jobs(output, page.jobs)
        if page.cursor is not None:
            note(f"more with: --cursor {page.cursor}")
        return DONE

    return connected(options, output, run)


def run_retry(options: argparse.Namespace, output: Output) -> int:
    """Retry jobs."""
    return operate(options, output, "retry", narrowed=None if options.status is None else ())


def run_move(options: argparse.Namespace, output: Output) -> int:
    """Move jobs."""
    return move(options, output)


def run_cancel(options: argparse.Namespace, output: Output) -> int:
    """Cancel jobs."""
    return operate(options, output, "cancel")


def run_delete(options: argparse.Namespace, output: Output) -> int:
    """Delete jobs."""
    return operate(options, output, "delete")


def run_restore(options: argparse.Namespace, output: Output) -> int:
    """Restore jobs."""
    return operate(options, output, "restore")
