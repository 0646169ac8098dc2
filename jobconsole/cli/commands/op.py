"""`jobconsole op`: what was done, by whom, why and with what result; and what is still under way."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, FAILED, CommandError, fail, note, progress, warn
from jobconsole.cli.immediate import TARGETS, can_change, in_turn, report_dry_run, report_unchanged, switch
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_change, add_verbs, whole
from jobconsole.cli.session import connected
from jobconsole.cli.submission import end_of_limit, run_to_end
from jobconsole.cli.tables import operation_body, outcome, show_facts, show_operations, state_of_progress
from jobconsole.format.humanize import plural
from jobconsole.format.words import IMMEDIATE, not_opened, undoes, undone_by
from jobconsole.present.facts import Fact, of_operation
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.client.operations import Operations
    from queue_core.model.operation import Operation
    from queue_core.queue import JobQueue


Act = Callable[["Operations", int], Awaitable[bool]]


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
            return await _report_dry_changes(jobs, output, options.verb, numbers)
        changed, error = await in_turn(numbers, lambda number: _one(jobs, options, act, number))
        states: dict[int, str] = {}
        for number, new in changed.items():
            states[number] = TARGETS[options.verb] if new else (await jobs.operations.get(number)).state
        code = _report_changes(output, options.verb, changed, states)
        if error is not None:
            raise error
        return code

    return connected(options, output, run, "" if options.dry_run else f"op {options.verb}")


async def _one(jobs: JobQueue, options: argparse.Namespace, act: Act, number: int) -> bool:
    """Do it, and keep a note of it where there is something to do."""
    if not can_change(options.verb, (await jobs.operations.get(number)).state):
        return False
    return await switch(jobs, options, "operation", f"#{number}", partial(act, jobs.operations, number))


async def _report_dry_changes(jobs: JobQueue, output: Output, verb: str, numbers: list[int]) -> int:
    """Report what the verb would do; the exit code is that of doing it."""
    states = {number: (await jobs.operations.get(number)).state for number in numbers}
    would = [number for number, state in states.items() if can_change(verb, state)]
    report_dry_run(output, verb, [f"#{number}" for number in would])
    return max([DONE, *(report_unchanged(output, verb, one, states[one]) for one in numbers if one not in would)])


def _report_changes(output: Output, verb: str, changed: dict[int, bool], states: Mapping[int, str]) -> int:
    code, past = DONE, IMMEDIATE["operation", verb].past
    for number, new in changed.items():
        if not new:
            code = max(code, report_unchanged(output, verb, number, states[number]))
        elif not output.as_json:
            output.line(f"{past} #{number}")
    if output.as_json:
        found = [{"number": one, "state": states[one], "changed": new} for one, new in changed.items()]
        output.json({"operations": found})
    return code


def run_undo(options: argparse.Namespace, output: Output) -> int:
    """Take an operation back, as operations of its own that are carried out here."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        operation = await jobs.operations.get(options.number)
        _check_undoable(operation)
        from queue_core.client.operating.filters import saved_name_of
        from queue_core.client.operating.signatures import VERBS
        from queue_core.client.operations import this_author

        if operation.request.verb in VERBS or saved_name_of(operation) is not None:
            return await _undo_noted(jobs, options, output, operation)
        is_drain = operation.request.verb == "drain"
        refused = CommandError(not_opened(f"operation #{operation.number}", operation.request.label))
        if options.dry_run:
            if is_drain and not await jobs.operations.opens(operation):
                raise refused
            return _report_dry_run(output, operation)
        if not is_drain and (before := await _undone_by(jobs.operations, options.number)) is not None:
            warn(f"operation #{options.number} was undone before, by #{before}")
        submitted = await jobs.operations.undo(options.number, this_author())
        if is_drain and not submitted:
            raise refused
        return await _run_to_end(jobs, output, options.number, submitted)

    return connected(options, output, run, "" if options.dry_run else "op undo")


def _check_undoable(operation: Operation) -> None:
    request = operation.request
    if request.verb == "move" and request.options.priority is not None:
        raise CommandError(f"operation #{operation.number} gave jobs another priority, which cannot be undone")
    if request.verb == "drain":
        return
    from queue_core.client.operating.filters import saved_name_of

    of_a_filter = saved_name_of(operation) is not None
    if not of_a_filter and request.verb not in {"delete", "move", "mute", "resolve", "own", "note"}:
        raise CommandError(
            f"operation #{operation.number} is a {request.verb}, which cannot be undone; "
            "delete, move, drain, mute, resolve, own, note and changes of saved filters can"
        )
    if not operation.ended:
        number = operation.number
        raise CommandError(
            f"operation #{number} is {operation.state}; 'jobconsole op cancel {number}' ends it, then it can be undone"
        )


async def _undo_noted(jobs: JobQueue, options: argparse.Namespace, output: Output, operation: Operation) -> int:
    """Undo a change of a signature or of a saved filter."""
    of = jobs.signatures if operation.request.signatures else jobs.filters
    number = await (of.dry_run() if options.dry_run else of).undo(operation.number)
    if number is None:
        what = "signature" if operation.request.signatures else "filter"
        raise CommandError(f"operation #{operation.number} is not undone: the {what} was changed since")
    if options.dry_run:
        return _report_dry_run(output, operation)
    if output.as_json:
        output.json({"undone": operation.number, "operations": [operation_body(await jobs.operations.get(number))]})
    else:
        output.line(
            f"#{number} undoes #{operation.number}, {operation.request.verb} {safe(operation.request.label, 200)}"
        )
    return DONE


def _report_dry_run(output: Output, operation: Operation) -> int:
    if output.as_json:
        output.json({"dry_run": True, "verb": "undo", "operation": operation.number, "matched": operation.processed})
    else:
        what = f"the {operation.request.verb} of {plural(operation.processed, 'job')}"
        output.line(f"would undo #{operation.number}: {what}")
    return DONE


async def _run_to_end(jobs: JobQueue, output: Output, number: int, submitted: list[Operation]) -> int:
    from jobconsole.actions.plan import Plan, Report

    code, done = DONE, []
    for operation in submitted:
        plan = Plan("restore", operation.request.label, ())
        report = await run_to_end(jobs, Report(plan, operation))
        code = max(code, end_of_limit(report) or DONE)
        done.append(report.operation or operation)
    if output.as_json:
        output.json({"undone": number, "operations": [operation_body(operation) for operation in done]})
        return code
    for operation in done:
        opened = f"#{operation.number} undoes #{number}: {safe(operation.request.label, 200)} takes new jobs again"
        output.line(opened if operation.request.verb == "resume" else outcome(operation))
    if not done:
        output.line(f"nothing to undo: operation #{number} changed no job")
    return code


_POLL_SECONDS = 0.5
"""Seconds between two looks at an operation that is watched."""
_MAX_OPERATIONS = 1000
"""Operations that `op run` takes up at a time, and that are looked at for what undid another one."""


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
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            progress("")
        return _report_operations(output, [operation])

    return connected(options, output, run)


async def _abandoned(jobs: JobQueue, operation: Operation) -> bool:
    """Return whether an operation will never start, and report it: the process that wrote its jobs down is gone."""
    from queue_core.model.operation import ABANDONED_SECONDS, NEVER_STARTED

    if operation.state != "preparing":
        return False
    now = (await jobs.inspector.overview()).now
    if (now - operation.updated_at).total_seconds() <= ABANDONED_SECONDS:
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
            return report_dry_run(output, "run", [f"#{one.number}" for one in running])
        try:
            done = await (_all(jobs) if not chosen else _these(jobs, chosen))
        except asyncio.CancelledError:
            note("what was not done is still to be done: workers continue it, and so does 'jobconsole op run'")
            raise
        finally:
            progress("")
        return _report_operations(output, done)

    return connected(options, output, run, "" if options.dry_run else "op run")


async def _all(jobs: JobQueue) -> list[Operation]:
    """Carry out the running operations, and those that are started meanwhile."""
    done: dict[int, Operation] = {}
    while running := [one for one in await _unfinished(jobs) if one.state == "running"]:
        done.update({one.number: one for one in await _these(jobs, running)})
    return [done[number] for number in sorted(done)]


async def _unfinished(jobs: JobQueue) -> list[Operation]:
    return await jobs.operations.list_operations(_MAX_OPERATIONS, unfinished=True)


async def _these(jobs: JobQueue, operations: list[Operation]) -> list[Operation]:
    return await asyncio.gather(*(jobs.operations.run(one.number, _report_state) for one in operations))


def _report_state(operation: Operation) -> None:
    progress(state_of_progress(operation))


def _report_operations(output: Output, operations: list[Operation]) -> int:
    if output.as_json:
        output.json({"operations": [operation_body(operation) for operation in operations]})
    else:
        for operation in operations:
            output.line(outcome(operation))
        if not operations:
            output.line("no operation is running")
    return DONE if all(operation.state == "done" for operation in operations) else FAILED


_SHOWN_IDS = 20
"""Changed jobs that `show` names; --json names more of them."""
_SHOWN_IDS_JSON = 1000
_HIGHEST = 2**53


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    listed = add("list", run_list, "list operations, the newest first")
    listed.add_argument("--running", action="store_true", help="only those that have not ended")
    listed.add_argument("--limit", type=whole(1, 10_000), default=50, metavar="N", help="at most N (default 50)")
    listed.add_argument("--before", type=whole(1, _HIGHEST), metavar="N", help="only those older than operation N")
    _add_number(add("show", run_show, "everything about one operation, and the jobs that it changed"))
    _add_number(add("watch", run_watch, "follow an operation until it ends; carries nothing out"))
    _add_numbers(add("pause", run_pause, "let operations take no more steps"))
    _add_numbers(add("resume", run_resume, "resume paused and stopped operations"))
    _add_numbers(add("cancel", run_cancel, "end operations where they stand"))
    undo = add(
        "undo",
        run_undo,
        "take a delete, a move, a drain, or what was set of a signature back",
    )
    _add_number(undo)
    add_change(undo, why=False)
    run = add("run", run_run, "carry out operations here until they end, where no worker does")
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
        # One more than asked for shows whether there are more.
        found = await jobs.operations.list_operations(options.limit + 1, options.before, options.running)
        shown, more = found[: options.limit], len(found) > options.limit
        before = shown[-1].number if more else None
        if output.as_json:
            undone = undone_by(found)
            bodies = [operation_body(one, undone.get(one.number)) for one in shown]
            output.json({"operations": bodies, "before": before})
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
        tried = operation.request.verb == "retry" and operation.processed > 0
        outcomes = await operations.outcomes(number) if tried else None
        ids = await operations.changed_ids(number, _SHOWN_IDS_JSON if output.as_json else _SHOWN_IDS)
        undone = await _undone_by(operations, number)
        if output.as_json:
            body = operation_body(operation, undone)
            counts = None if outcomes is None else outcomes._asdict() | {"ended": outcomes.ended}
            output.json({"operation": body, "outcomes": counts, "ids": ids})
            return DONE
        before = undoes(operation)
        related = (
            Fact("undoes", f"#{before}" if before else None),
            Fact("undone by", f"#{undone}" if undone else None, "warn"),
        )
        show_facts(output, of_operation(operation, outcomes, related=related))
        _show_ids(output, operation, ids)
        return DONE

    return connected(options, output, run)


async def _undone_by(operations: Operations, number: int) -> int | None:
    """Return which operation has undone this one, of the newest ones and of those that came next."""
    newest = await operations.list_operations(_MAX_OPERATIONS)
    between = newest[-1].number if newest else number
    after = (
        []
        if between <= number
        else await operations.list_operations(_MAX_OPERATIONS, min(between, number + _MAX_OPERATIONS + 1))
    )
    return undone_by([*newest, *after]).get(number)


def _show_ids(output: Output, operation: Operation, ids: list[str]) -> None:
    if not ids:
        return
    output.line()
    output.line("changed jobs:")
    for job_id in ids:
        output.line(f"  {job_id}")
    if operation.processed > len(ids):
        output.line(f"  … and {operation.processed - len(ids):,} more")
