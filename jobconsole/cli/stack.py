"""`jobconsole job stack`: ask the worker of a running job where that is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, FAILED, CommandError, fail
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser
from jobconsole.cli.selection import canonical, find_id
from jobconsole.cli.session import connected

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

WIDTH = 120
"""Characters of a line of a stack."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--frames", action="store_true", help="the frames of libraries, too")
    parser.add_argument("--kept", action="store_true", help="do not ask; show those that were taken and kept")


def run(options: argparse.Namespace, output: Output) -> int:
    """Ask the worker of a running job where that is.

    Raises:
        CommandError: it does not run.
    """
    from jobconsole.core.rows import LONGEST_NAME
    from jobconsole.format.glyphs import UNICODE
    from jobconsole.format.spans import RenderContext
    from jobconsole.present.stack import SILENT, read_stack, stack_body, stack_lines, unmoved_since
    from queue_core.errors import WrongState
    from queue_core.model.text import safe

    named = canonical(options.id)

    async def ask(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        job_id = await find_id(jobs, named)
        asked = None if options.kept else await jobs.operations.ask_stack(job_id)
        job, kept = await jobs.inspector.get(job_id), await jobs.operations.stacks(job_id)
        if asked is None and not options.kept:
            raise CommandError(str(WrongState(job_id, job.status.value, "asked for its stack")))
        stacks = [read_stack(one) for one in kept]
        silent = asked is not None and asked.taken_at is None
        if output.as_json:
            output.json({
                "job": job_id, "worker": asked.worker if asked else job.worker, "answered": not silent and bool(stacks),
                "unmoved_since": unmoved_since(stacks), "stacks": [stack_body(one) for one in stacks],
            })  # fmt: skip
        elif not silent:
            context = RenderContext((await jobs.inspector.overview()).now, UNICODE)
            for line in stack_lines(stacks, options.frames, context, WIDTH, "--frames"):
                output.line("".join(text for text, _ in line).rstrip())
        if asked is not None and silent:
            fail(f"worker {safe(asked.worker, LONGEST_NAME)} {SILENT}")
        return FAILED if silent else DONE

    return connected(options, output, ask, "" if options.kept else "job stack")
