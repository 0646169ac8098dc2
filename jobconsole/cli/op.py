"""`jobconsole op`: what was done, by whom, why and with what result; and what is still under way."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jobconsole.cli import opchanges, opwatch
from jobconsole.cli.failures import DONE, note
from jobconsole.cli.noting import add_change
from jobconsole.cli.opwords import facts, operation_body, show_operations
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_verbs, whole
from jobconsole.cli.session import connected
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.operations import Operation
    from queue_core.queue import JobQueue

_IDS = 20
"""Changed jobs that `show` names; --json names more of them."""
_IDS_JSON = 1000
_HIGHEST = 2**53


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    listed = add("list", run_list, "list operations, the newest first")
    listed.add_argument("--running", action="store_true", help="only those that have not ended")
    listed.add_argument("--limit", type=whole(1, 10_000), default=50, metavar="N", help="at most N (default 50)")
    listed.add_argument("--before", type=whole(1, _HIGHEST), metavar="N", help="only those older than operation N")
    _add_number(add("show", run_show, "everything about one operation, and the jobs that it changed"))
    _add_number(add("watch", opwatch.run_watch, "follow an operation until it ends; carries nothing out"))
    _add_numbers(add("pause", opchanges.run_pause, "let operations take no more steps"))
    _add_numbers(add("resume", opchanges.run_resume, "let paused and stopped operations go on"))
    _add_numbers(add("cancel", opchanges.run_cancel, "end operations where they stand"))
    undo = add("undo", opchanges.run_undo, "take a delete or a move back: exactly the jobs that it changed")
    _add_number(undo)
    add_change(undo, why=False)
    run = add("run", opwatch.run_run, "carry out operations here until they end, where no worker does")
    run.add_argument("numbers", nargs="*", type=whole(1, _HIGHEST), metavar="N", help="only these (default: all)")
    add_change(run, why=False)


def _add_number(verb: Parser) -> None:
    verb.add_argument("number", type=whole(1, _HIGHEST), metavar="N", help="as 'op list' numbers them")


def _add_numbers(verb: Parser) -> None:
    verb.add_argument("numbers", nargs="+", type=whole(1, _HIGHEST), metavar="N", help="as 'op list' numbers them")
    add_change(verb)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List operations."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        # One more than asked for tells whether there are more.
        found = await jobs.operations.find(options.limit + 1, options.before, options.running)
        shown, more = found[: options.limit], len(found) > options.limit
        before = shown[-1].number if more else None
        if output.as_json:
            output.json({"operations": [operation_body(operation) for operation in shown], "before": before})
            return DONE
        show_operations(output, shown)
        if more:
            note(f"more with: --before {before}")
        return DONE

    return connected(options, output, run)


def run_show(options: argparse.Namespace, output: Output) -> int:
    """Show one operation."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        operations, number = jobs.operations, options.number
        operation = await operations.get(number)
        tried = operation.asked.verb == "retry" and operation.processed > 0
        outcomes = await operations.outcomes(number) if tried else None
        ids = await operations.changed_ids(number, _IDS_JSON if output.as_json else _IDS)
        if output.as_json:
            body = operation_body(operation)
            counts = None if outcomes is None else outcomes._asdict() | {"ended": outcomes.ended}
            output.json({"operation": body, "outcomes": counts, "ids": ids})
            return DONE
        for name, value in facts(operation, outcomes):
            if value not in (None, ""):
                output.line(f"{name:<14}{safe(str(value), 600)}")
        _show_ids(output, operation, ids)
        return DONE

    return connected(options, output, run)


def _show_ids(output: Output, operation: Operation, ids: list[str]) -> None:
    if not ids:
        return
    output.line()
    output.line("changed jobs:")
    for job_id in ids:
        output.line(f"  {job_id}")
    if operation.processed > len(ids):
        output.line(f"  … and {operation.processed - len(ids):,} more")
