"""`jobconsole dlq`: the dead-letter queue, by error signature and job by job."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jobconsole.cli import exporting, reviewing
from jobconsole.cli.bulk import DELETE, RESTORE, RETRY, add_change_of, add_move, add_retry, move
from jobconsole.cli.failures import DONE
from jobconsole.cli.job import add_list, list_jobs
from jobconsole.cli.operating import BulkVerb, operate
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_verbs, positive, whole
from jobconsole.cli.selection import add_filters, check_queue, filter_of
from jobconsole.cli.session import connected
from jobconsole.cli.tables import show_groups

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

MOVE = BulkVerb("move", "moved", ("status:dead",))
PURGE = BulkVerb("purge", "purged", ("status:dead", "trash:yes"), destructive=True, final=True)
_SLICES = 8


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    groups = add("groups", run_groups, "dead jobs by error signature, the fastest growing first")
    add_filters(groups)
    groups.add_argument("--window", type=positive, default=900.0, metavar="T", help="of the growth (default 15m)")
    groups.add_argument("--limit", type=whole(1, 10_000), default=50, metavar="N", help="at most N (default 50)")
    listed = add("list", run_list, "list dead jobs, the newest first")
    add_list(listed)
    listed.add_argument("--trash", action="store_true", help="list the trash instead")
    add_retry(add("retry", run_retry, "put dead jobs back to queued"))
    add_move(add("move", run_move, "move dead jobs to another queue or priority"))
    delete = add("delete", run_delete, "move dead jobs to the trash; 'restore' brings them back")
    add_change_of(delete, destructive=True)
    restore = add("restore", run_restore, "move jobs from the trash back into the DLQ")
    add_change_of(restore)
    reviewing.add_arguments(add("review", reviewing.run, "one dead job after another: retry, delete or skip it"))
    exporting.add_arguments(add("export", exporting.run, "write dead jobs out as CSV or JSON Lines"))
    purge = add("purge", run_purge, "remove jobs in the trash for good")
    add_change_of(purge, destructive=True)


def run_groups(options: argparse.Namespace, output: Output) -> int:
    """List error signatures."""
    where = filter_of(options, "status:dead")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        groups = await jobs.inspector.signatures(where, options.window, _SLICES, options.limit)
        if output.as_json:
            output.json({"window": options.window, "groups": groups})
        else:
            show_groups(output, groups)
        return DONE

    return connected(options, output, run)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List dead jobs."""
    trash = ["trash:yes"] if options.trash else []
    return list_jobs(options, output, filter_of(options, "status:dead", *trash))


def run_retry(options: argparse.Namespace, output: Output) -> int:
    """Retry dead jobs."""
    return operate(options, output, RETRY)


def run_move(options: argparse.Namespace, output: Output) -> int:
    """Move dead jobs."""
    return move(options, output, MOVE)


def run_delete(options: argparse.Namespace, output: Output) -> int:
    """Move dead jobs to the trash."""
    return operate(options, output, DELETE)


def run_restore(options: argparse.Namespace, output: Output) -> int:
    """Take jobs out of the trash."""
    return operate(options, output, RESTORE)


def run_purge(options: argparse.Namespace, output: Output) -> int:
    """Empty the trash."""
    return operate(options, output, PURGE)
