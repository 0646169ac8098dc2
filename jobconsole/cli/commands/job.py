"""`jobconsole job`: look at jobs, put one in, change some."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jobconsole.cli import stack
from jobconsole.cli.change import add_verb, operate
from jobconsole.cli.commands import causes, edit, enqueue
from jobconsole.cli.failures import DONE, UsageError, note
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_verbs, whole
from jobconsole.cli.selection import (
    add_filters,
    canonical,
    check_listed,
    check_queue,
    filter_of,
    find_id,
    hint_names,
    read_jobs,
    search,
    search_body,
)
from jobconsole.cli.session import connected
from jobconsole.cli.tables import LAST_LINES, job_body, operation_body, show_job, show_jobs, show_log
from queue_core.errors import FilterError
from queue_core.model.job import MAX_LOG_LINES

if TYPE_CHECKING:
    from queue_core.model.filters import Filter
    from queue_core.queue import JobQueue


_OPERATIONS = 20
"""Operations on a job that `show` names, the last ones."""


def run_show(options: argparse.Namespace, output: Output) -> int:
    """Show one job."""
    named = canonical(options.id)

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        job_id = await find_id(jobs, named)
        job, attempts = await jobs.inspector.get(job_id), await jobs.inspector.attempts(job_id)
        log = await jobs.inspector.logs(job_id, LAST_LINES)
        operations = await jobs.operations.list_for_job(job_id, _OPERATIONS)
        if output.as_json:
            lines = {"lines": log.entries, "dropped": log.dropped}
            body = {"job": job_body(job, complete=True), "attempts": attempts, "log": lines}
            output.json(body | {"operations": [operation_body(operation) for operation in operations]})
        else:
            show_job(output, job, attempts, log, operations)
        return DONE

    return connected(options, output, run)


def run_logs(options: argparse.Namespace, output: Output) -> int:
    """Show a job's log."""
    named = canonical(options.id)

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        page = await jobs.inspector.logs(await find_id(jobs, named), options.limit)
        if output.as_json:
            output.json({"lines": page.entries, "dropped": page.dropped})
        else:
            show_log(output, page)
        return DONE

    return connected(options, output, run)


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add_list(add("list", run_list, "list jobs, the newest change first"))
    show = add("show", run_show, "everything about one job, its failed attempts included")
    show.add_argument("id", metavar="ID")
    compared = "its payload beside the last one of its type that succeeded"
    causes.add_compare_arguments(add("compare", causes.run_compare_job, compared), "ID")
    logs = add("logs", run_logs, "the lines that a job's handlers wrote, the oldest first")
    logs.add_argument("id", metavar="ID")
    logs.add_argument(
        "--limit",
        type=whole(1, MAX_LOG_LINES),
        default=MAX_LOG_LINES,
        metavar="N",
        help="the last N lines (default all)",
    )
    stack.add_arguments(add("stack", stack.run, "where a running job is: its worker is asked, and answers within 2 s"))
    enqueue.add_arguments(add("enqueue", enqueue.run, "put a job in; prints its id"))
    edit.add_arguments(add("edit", edit.run, "enqueue a job that has ended anew, with another payload"))
    completed = "put dead jobs back to queued (completed ones by id or with --status completed)"
    add_verb(add, "retry", summary=completed, run=run_retry)
    for verb in ("move", "cancel", "delete", "restore"):
        add_verb(add, verb)


def add_list(verb: Parser) -> None:
    """Declare the options of a list of jobs."""
    add_filters(verb)
    verb.add_argument("--limit", type=whole(1, 10_000), default=50, metavar="N", help="at most N jobs (default 50)")
    verb.add_argument("--cursor", metavar="TEXT", help="continue where the page before ended")
    verb.add_argument("--oldest", action="store_true", help="the oldest change first")


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List jobs."""
    return list_jobs(options, output, filter_of(options))


def list_jobs(options: argparse.Namespace, output: Output, where: Filter) -> int:
    """List the jobs that match."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        searched = await search(jobs, options, where)
        try:
            found, cursor = await read_jobs(jobs, where, options.limit, options.cursor, options.oldest)
        except FilterError as error:
            if options.cursor is None or error.text != options.cursor:
                raise
            raise UsageError(f"argument --cursor: {error.reason}") from None
        if not found and options.cursor is None:
            await check_listed(jobs, options.signature)
            await hint_names(jobs, where)
        if output.as_json:
            output.json({"jobs": [job_body(job) for job in found], "cursor": cursor} | search_body(searched))
            return DONE
        show_jobs(output, found)
        if cursor is not None:
            note(f"more with: --cursor {cursor}")
        return DONE

    return connected(options, output, run)


def run_retry(options: argparse.Namespace, output: Output) -> int:
    """Retry jobs."""
    return operate(options, output, "retry", narrowed=None if options.status is None else ())
