"""`jobconsole op pause`, `resume`, `cancel` and `undo`."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from jobconsole.cli.carrying import carried_out, told_end
from jobconsole.cli.failures import DONE, FAILED, CommandError, fail
from jobconsole.cli.noting import in_turn, rehearse, switched
from jobconsole.cli.opwords import operation_body, outcome
from jobconsole.cli.output import Output
from jobconsole.cli.session import connected
from jobconsole.core.humanize import plural

if TYPE_CHECKING:
    from queue_core.operating import Operations
    from queue_core.operations import Operation, OperationState
    from queue_core.queue import JobQueue

Act = Callable[["Operations", int], Awaitable[bool]]

_TARGETS: dict[str, OperationState] = {"pause": "paused", "resume": "running", "cancel": "cancelled"}
"""The state that each verb leads to."""
_PAST = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


def run_pause(options: argparse.Namespace, output: Output) -> int:
    """Pause operations."""
    return _each(options, output, lambda operations, number: operations.pause(number))


def run_resume(options: argparse.Namespace, output: Output) -> int:
    """Resume operations."""
    return _each(options, output, lambda operations, number: operations.resume(number))


def run_cancel(options: argparse.Namespace, output: Output) -> int:
    """Cancel operations."""
    return _each(options, output, lambda operations, number: operations.cancel(number))


def _each(options: argparse.Namespace, output: Output, act: Act) -> int:
    numbers = list(dict.fromkeys(options.numbers))

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        for number in numbers:
            # All of them first: a mistyped number must not leave half of the work done.
            await jobs.operations.get(number)
        if options.dry_run:
            return rehearse(output, options.verb, [f"#{number}" for number in numbers])
        changed, error = await in_turn(numbers, lambda number: _one(jobs, options, act, number))
        states: dict[int, str] = {}
        for number, new in changed.items():
            states[number] = _TARGETS[options.verb] if new else (await jobs.operations.get(number)).state
        code = _told(output, options.verb, changed, states)
        if error is not None:
            raise error
        return code

    return connected(options, output, run, "" if options.dry_run else f"op {options.verb}")


async def _one(jobs: JobQueue, options: argparse.Namespace, act: Act, number: int) -> bool:
    """Do it, and keep a note of it where there is something to do."""
    from queue_core.operations import MOVES

    state = (await jobs.operations.get(number)).state
    # One that is preparing goes on by itself, as soon as all its jobs are written down.
    if _TARGETS[options.verb] not in MOVES[state] or (options.verb == "resume" and state == "preparing"):
        return False
    past = _PAST[options.verb]
    return await switched(jobs, options, f"operation #{number}", partial(act, jobs.operations, number), past)


def _told(output: Output, verb: str, changed: dict[int, bool], states: Mapping[int, str]) -> int:
    code, past = DONE, _PAST[verb]
    for number, new in changed.items():
        already = not new and states[number] == _TARGETS[verb]
        if not new and not already:
            fail(f"operation #{number} is {states[number]}; it cannot be {past}")
            code = FAILED
        elif not output.as_json:
            output.line(f"{past} #{number}" if new else f"#{number} was {_TARGETS[verb]} already")
    if output.as_json:
        found = [{"number": one, "state": states[one], "changed": new} for one, new in changed.items()]
        output.json({"operations": found})
    return code


def run_undo(options: argparse.Namespace, output: Output) -> int:
    """Take an operation back, as operations of its own that are carried out here."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        operation = await jobs.operations.get(options.number)
        _check_undoable(operation)
        if options.dry_run:
            return _rehearsed(output, operation)
        from queue_core.operating import this_author

        submitted = await jobs.operations.undo(options.number, this_author())
        return await _carried_out(jobs, output, options.number, submitted)

    return connected(options, output, run, "" if options.dry_run else "op undo")


def _check_undoable(operation: Operation) -> None:
    asked = operation.asked
    if asked.verb == "move" and asked.way.priority is not None:
        raise CommandError(f"operation #{operation.number} gave jobs another priority, which cannot be taken back")
    if asked.verb not in {"delete", "move"}:
        raise CommandError(
            f"operation #{operation.number} is a {asked.verb}, which cannot be taken back; a delete and a move can"
        )
    if not operation.ended:
        number = operation.number
        raise CommandError(
            f"operation #{number} is {operation.state}; 'jobconsole op cancel {number}' ends it, then it can be undone"
        )


def _rehearsed(output: Output, operation: Operation) -> int:
    if output.as_json:
        output.json({"dry_run": True, "verb": "undo", "operation": operation.number, "matched": operation.processed})
    else:
        what = f"the {operation.asked.verb} of {plural(operation.processed, 'job')}"
        output.line(f"would undo #{operation.number}: {what}")
    return DONE


async def _carried_out(jobs: JobQueue, output: Output, number: int, submitted: list[Operation]) -> int:
    from jobconsole.core.operations import Plan, Report

    code, done = DONE, []
    for operation in submitted:
        plan = Plan("restore", operation.asked.label, ())
        report = await carried_out(jobs, Report(plan, operation))
        code = max(code, told_end(report) or DONE)
        done.append(report.operation or operation)
    if output.as_json:
        output.json({"undone": number, "operations": [operation_body(operation) for operation in done]})
        return code
    for operation in done:
        output.line(outcome(operation))
    if not done:
        output.line(f"nothing to undo: operation #{number} changed no job")
    return code
