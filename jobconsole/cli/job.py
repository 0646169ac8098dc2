"""`jobconsole job`: look at jobs, put one in, change some."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jobconsole.cli import editing, enqueueing, showing
from jobconsole.cli.bulk import CANCEL, DELETE, MOVE, RESTORE, RETRY, add_change_of, add_move, add_retry, move
from jobconsole.cli.failures import DONE, note
from jobconsole.cli.operating import BulkVerb, operate
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_verbs, whole
from jobconsole.cli.selection import add_filters, check_queue, filter_of
from jobconsole.cli.session import connected
from jobconsole.cli.tables import job_body, show_jobs
from queue_core.joblogs import LINES

if TYPE_CHECKING:
    from queue_core.filters import Filter
    from queue_core.queue import JobQueue


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add_list(add("list", run_list, "list jobs, the newest change first"))
    show = add("show", showing.run_show, "everything about one job, its failed attempts included")
    show.add_argument("id", metavar="ID")
    logs = add("logs", showing.run_logs, "the lines that a job's handlers wrote, the oldest first")
    logs.add_argument("id", metavar="ID")
    logs.add_argument(
        "--limit", type=whole(1, LINES), default=LINES, metavar="N", help="the last N lines (default all)"
    )
    enqueueing.add_arguments(add("enqueue", enqueueing.run, "put a job in; prints its id"))
    editing.add_arguments(add("edit", editing.run, "enqueue a job that has ended anew, with another payload"))
    retry = add("retry", run_retry, "put dead jobs back to queued (completed ones by id or with --status completed)")
    add_retry(retry)
    add_move(add("move", run_move, "move waiting and dead jobs to another queue or priority"))
    cancel = add("cancel", run_cancel, "cancel waiting jobs, and ask the workers of running ones to stop them")
    add_change_of(cancel, destructive=True)
    delete = add("delete", run_delete, "move dead jobs to the trash; 'restore' brings them back")
    add_change_of(delete, destructive=True)
    restore = add("restore", run_restore, "move jobs from the trash back into the DLQ")
    add_change_of(restore)


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
    verb = RETRY if options.status is None else BulkVerb("retry", "retried", ())
    return operate(options, output, verb)


def run_move(options: argparse.Namespace, output: Output) -> int:
    """Move jobs."""
    return move(options, output, MOVE)


def run_cancel(options: argparse.Namespace, output: Output) -> int:
    """Cancel jobs."""
    return operate(options, output, CANCEL)


def run_delete(options: argparse.Namespace, output: Output) -> int:
    """Delete jobs."""
    return operate(options, output, DELETE)


def run_restore(options: argparse.Namespace, output: Output) -> int:
    """Restore jobs."""
    return operate(options, output, RESTORE)
