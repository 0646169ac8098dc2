"""`jobconsole worker`: list, quiet, resume and stop workers; run them with `worker run`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from jobconsole.cli import running
from jobconsole.cli.asking import check_terminal, confirm
from jobconsole.cli.failures import DONE, Missing
from jobconsole.cli.noting import add_change, in_turn, noted, rehearse
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_verbs
from jobconsole.cli.session import connected
from jobconsole.cli.tables import show_workers, worker_body
from jobconsole.core.humanize import plural
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

Order = Literal["quiet", "resume", "stop"]


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_list, "list worker processes")
    running.add_arguments(add("run", running.run, "run workers until SIGTERM, which lets them finish their jobs"))
    _add_order(add("quiet", run_quiet, "let workers finish their jobs and claim no others"))
    _add_order(add("resume", run_resume, "let quiet workers claim again"))
    _add_order(add("stop", run_stop, "let workers finish their jobs and end"), destructive=True)


def _add_order(verb: Parser, destructive: bool = False) -> None:
    verb.add_argument("ids", nargs="+", metavar="WORKER", help="as 'worker list' names them")
    add_change(verb, destructive)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List workers."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        overview = await jobs.inspector.overview()
        if output.as_json:
            output.json({"now": overview.now, "workers": [worker_body(worker) for worker in overview.workers]})
        else:
            show_workers(output, overview.workers)
        return DONE

    return connected(options, output, run)


def run_quiet(options: argparse.Namespace, output: Output) -> int:
    """Order workers to be quiet."""
    return _order(options, output, "quiet")


def run_resume(options: argparse.Namespace, output: Output) -> int:
    """Order workers to claim again."""
    return _order(options, output, "resume")


def run_stop(options: argparse.Namespace, output: Output) -> int:
    """Order workers to end."""
    return _order(options, output, "stop")


def _order(options: argparse.Namespace, output: Output, order: Order) -> int:
    asks = order == "stop" and not (options.yes or options.dry_run)
    if asks:
        check_terminal("stop workers")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        ids = tuple(dict.fromkeys(options.ids))
        await _check(jobs, ids)
        if options.dry_run:
            return rehearse(output, order, ids)
        if asks:
            confirm(f"stop {plural(len(ids), 'worker')}")
        ordered, error = await in_turn(
            ids,
            lambda one: noted(jobs, options, order, f"worker {one}", partial(jobs.control.command, one, order)),
        )
        if output.as_json:
            output.json({"order": order, "workers": list(ordered)})
        elif ordered:
            output.line(f"{order}: {plural(len(ordered), 'worker')} will hear of it with the next heartbeat")
        if error is not None:
            raise error
        return DONE

    return connected(options, output, run, "" if options.dry_run else f"worker {order}")


async def _check(jobs: JobQueue, ids: Sequence[str]) -> None:
    known = {worker.id for worker in (await jobs.inspector.overview()).workers}
    for worker in ids:
        if worker not in known:
            raise Missing(f"no worker with id {safe(worker, 200)}; 'jobconsole worker list' shows them")
