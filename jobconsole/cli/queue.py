"""`jobconsole queue`: list, pause and resume queues."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE
from jobconsole.cli.noting import add_change, in_turn, rehearse, switched, tell_switched
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_verbs
from jobconsole.cli.selection import check_queue
from jobconsole.cli.session import connected
from jobconsole.cli.tables import queue_body, show_queues

if TYPE_CHECKING:
    from queue_core.queue import JobQueue


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_list, "list queues with their depth")
    pause = add("pause", run_pause, "let no worker claim from queues")
    pause.add_argument("names", nargs="+", metavar="QUEUE")
    add_change(pause)
    resume = add("resume", run_resume, "let workers claim from queues again")
    resume.add_argument("names", nargs="+", metavar="QUEUE")
    add_change(resume)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List queues."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        overview = await jobs.inspector.overview()
        if output.as_json:
            orphans = overview.orphaned_types
            queues = [queue_body(queue) for queue in overview.queues]
            output.json({"now": overview.now, "queues": queues, "types_without_worker": orphans})
        else:
            show_queues(output, overview.queues, overview.now)
        return DONE

    return connected(options, output, run)


def run_pause(options: argparse.Namespace, output: Output) -> int:
    """Pause queues."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        return await _each(jobs, options, output, jobs.control.pause, "paused")

    return connected(options, output, run, "" if options.dry_run else "queue pause")


def run_resume(options: argparse.Namespace, output: Output) -> int:
    """Resume queues."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        return await _each(jobs, options, output, jobs.control.resume, "resumed")

    return connected(options, output, run, "" if options.dry_run else "queue resume")


async def _each(
    jobs: JobQueue, options: argparse.Namespace, output: Output, verb: Callable[[str], Awaitable[bool]], past: str
) -> int:
    for name in options.names:
        # All names first: a mistyped one must not leave half of the work done.
        await check_queue(jobs, name)
    if options.dry_run:
        return rehearse(output, options.verb, list(dict.fromkeys(options.names)))
    names = dict.fromkeys(options.names)
    changed, error = await in_turn(
        names, lambda name: switched(jobs, options, f"queue {name}", partial(verb, name), past)
    )
    tell_switched(output, "queues", changed, past)
    if error is not None:
        raise error
    return DONE
