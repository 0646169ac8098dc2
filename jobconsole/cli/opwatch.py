"""`jobconsole op watch`, which only looks on, and `jobconsole op run`, which carries operations out in this process."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, FAILED, fail, note, progress
from jobconsole.cli.noting import rehearse
from jobconsole.cli.opwords import operation_body, outcome, state_of_progress
from jobconsole.cli.output import Output
from jobconsole.cli.session import connected

if TYPE_CHECKING:
    from queue_core.operations import Operation
    from queue_core.queue import JobQueue

_LOOK = 0.5
"""Seconds between two looks at an operation that is watched."""
_MOST = 1000
"""Operations that `op run` takes up at a time."""


def run_watch(options: argparse.Namespace, output: Output) -> int:
    """Follow an operation until it has ended, was stopped, or was given up by who wrote it; paused ones are waited for.

    Raises:
        OperationNotFound, StoreUnavailable: it cannot be followed.
    """

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        try:
            while True:
                operation = await jobs.operations.get(options.number)
                if operation.ended or operation.state == "stopped" or await _abandoned(jobs, operation):
                    break
                progress(state_of_progress(operation))
                await asyncio.sleep(_LOOK)
        finally:
            progress("")
        return _told(output, [operation])

    return connected(options, output, run)


async def _abandoned(jobs: JobQueue, operation: Operation) -> bool:
    """Tell whether an operation will not be begun any more, and say so: who wrote its jobs down has gone."""
    from queue_core.operations import ABANDONED, NEVER_STARTED

    if operation.state != "preparing":
        return False
    now = (await jobs.inspector.overview()).now
    if (now - operation.updated_at).total_seconds() <= ABANDONED:
        return False
    number = operation.number
    fail(f"operation #{number} was never begun: {NEVER_STARTED}; 'jobconsole op cancel {number}' ends it")
    return True


def run_run(options: argparse.Namespace, output: Output) -> int:
    """Carry out operations until none of them runs any more.

    Raises:
        OperationNotFound, ReadOnly, StoreUnavailable: what was not done is still to be done.
    """

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        chosen = [await jobs.operations.get(number) for number in dict.fromkeys(options.numbers)]
        if options.dry_run:
            running = [one for one in chosen or await _unfinished(jobs) if one.state == "running"]
            return rehearse(output, "run", [f"#{one.number}" for one in running])
        try:
            done = await (_all(jobs) if not chosen else _these(jobs, chosen))
        except asyncio.CancelledError:
            note("what was not done is still to be done: workers go on with it, and so does 'jobconsole op run'")
            raise
        finally:
            progress("")
        return _told(output, done)

    return connected(options, output, run, "" if options.dry_run else "op run")


async def _all(jobs: JobQueue) -> list[Operation]:
    """Carry out whatever runs, and what is asked for meanwhile."""
    done: dict[int, Operation] = {}
    while running := [one for one in await _unfinished(jobs) if one.state == "running"]:
        done.update({one.number: one for one in await _these(jobs, running)})
    return [done[number] for number in sorted(done)]


async def _unfinished(jobs: JobQueue) -> list[Operation]:
    return await jobs.operations.find(_MOST, unfinished=True)


async def _these(jobs: JobQueue, operations: list[Operation]) -> list[Operation]:
    return await asyncio.gather(*(jobs.operations.carry_out(one.number, _tell) for one in operations))


def _tell(operation: Operation) -> None:
    progress(state_of_progress(operation))


def _told(output: Output, operations: list[Operation]) -> int:
    if output.as_json:
        output.json({"operations": [operation_body(operation) for operation in operations]})
    else:
        for operation in operations:
            output.line(outcome(operation))
        if not operations:
            output.line("no operation is running")
    return DONE if all(operation.state == "done" for operation in operations) else FAILED
