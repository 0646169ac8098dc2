"""Carries an operation out from here: it says how far it is, and Ctrl+C cancels it in the store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jobconsole.cli.failures import FAILED, CommandError, Unreachable, fail, note, progress
from jobconsole.cli.opwords import state_of_progress
from jobconsole.core.humanize import plural
from queue_core.errors import OutcomeUnknown, QueueCoreError, StoreRefused

if TYPE_CHECKING:
    from jobconsole.core.operations import Plan, Report
    from queue_core.operations import Operation
    from queue_core.queue import JobQueue


class _Stopped(Exception):
    """Somebody pressed Ctrl+C while an operation was being written: it must not start."""


async def submitted(jobs: JobQueue, plan: Plan) -> Report:
    """Write a plan as an operation, which runs from then on; on Ctrl+C it does not start, or is cancelled.

    Raises:
        CommandError: the store went away or refused it. Nothing was changed, or the message says that this is unknown.
    """
    from jobconsole.core.operations import submit
    from queue_core.operating import this_author

    stopped = False

    def tell(report: Report) -> None:
        if stopped:
            raise _Stopped
        progress(f"{report.written:,} of {plural(len(plan.ids), 'job')} written down")

    # Shielded: whether it was started must be known when Ctrl+C ends this.
    writing = asyncio.ensure_future(submit(jobs.operations, plan, this_author(), tell))
    try:
        report = await asyncio.shield(writing)
    except asyncio.CancelledError:
        stopped = True
        try:
            await _take_back(jobs, (await writing).operation)
        except _Stopped:
            note("nothing was changed: the operation had not begun")
        raise
    finally:
        progress("")
    if report.problem:
        raise _not_begun(report)
    return report


def _not_begun(report: Report) -> CommandError:
    error = report.error
    if isinstance(error, OutcomeUnknown):
        return Unreachable(f"{error}; 'jobconsole op show {error.number}' tells, and if it was, workers carry it out")
    said = f"{report.problem}; nothing was changed ('jobconsole op list' shows what was begun)"
    return CommandError(said) if isinstance(error, StoreRefused) else Unreachable(said)


async def carried_out(jobs: JobQueue, report: Report) -> Report:
    """Carry out here what was submitted, until it ends or pauses; on Ctrl+C it is cancelled in the store."""
    from jobconsole.core.operations import carry_on

    def tell(report: Report) -> None:
        if report.operation is not None:
            progress(state_of_progress(report.operation))

    try:
        return await carry_on(jobs.operations, report, tell)
    except asyncio.CancelledError:
        await _take_back(jobs, report.operation)
        raise
    finally:
        progress("")


async def changed_one(jobs: JobQueue, verb: str, job_id: str, why: str) -> bool:
    """Retry or delete a job as an operation of its own; return whether it was still dead.

    Raises:
        CommandError: the store went away or refused it.
    """
    from jobconsole.core.operations import Plan, apply
    from queue_core.operating import this_author

    plan = Plan("retry" if verb == "retry" else "delete", f"job {job_id}", (job_id,), why=why)
    report = await apply(jobs.operations, plan, this_author())
    if report.problem and report.processed != 1:
        raise _not_begun(report) if report.operation is None else Unreachable(report.problem)
    return report.processed == 1


async def _take_back(jobs: JobQueue, operation: Operation | None) -> None:
    if operation is None:
        return
    number = operation.number
    try:
        await jobs.operations.cancel(number)
        left = await jobs.operations.get(number)
    except QueueCoreError as error:
        fail(f"{error}; operation #{number} could not be cancelled: 'jobconsole op cancel {number}' does it later")
        return
    done = f"{left.done:,} of {plural(left.total, 'job')}"
    note(f"operation #{number} is {left.state}, after {done}")


def told_end(report: Report) -> int | None:
    """Say what kept an operation from its end, and return the exit code for that; None: nothing did."""
    operation = report.operation
    if operation is None:
        return None
    number, done = operation.number, f"{report.done:,} of {plural(operation.total, 'job')}"
    if report.problem:
        seen = f"operation #{number} was at {done} when it was last seen"
        fail(f"{report.problem}; {seen}, and workers go on with it when the store is back")
    elif operation.state == "stopped":
        choice = f"'jobconsole op resume {number}' lets it go on, 'jobconsole op cancel {number}' ends it"
        fail(f"operation #{number} was stopped after {done}: {operation.note}; {choice}")
    elif operation.state == "paused":
        fail(f"operation #{number} was paused after {done}; 'jobconsole op resume {number}' lets it go on")
    elif operation.state != "done":
        fail(f"operation #{number} is {operation.state}, after {done}{operation.note and f': {operation.note}'}")
    elif operation.errored:
        fail(f"{plural(operation.errored, 'job')} could not be changed: {operation.note}")
    else:
        return None
    return FAILED
