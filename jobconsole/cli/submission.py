"""Operations from the command line: submitted, carried out here to their end, taken back on Ctrl+C, and reported."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jobconsole.cli.failures import FAILED, CommandError, Unreachable, fail, note, progress
from jobconsole.cli.tables import state_of_progress
from jobconsole.format.humanize import plural
from queue_core.errors import OutcomeUnknown, QueueCoreError, StoreRefused

if TYPE_CHECKING:
    from jobconsole.actions.plan import Plan, Report
    from queue_core.model.operation import Operation
    from queue_core.queue import JobQueue


class _Stopped(Exception):
    """Ctrl+C was pressed while an operation was being written: it must not start."""


async def submit_plan(jobs: JobQueue, plan: Plan) -> Report:
    """Write a plan as an operation, which runs from then on; on Ctrl+C it does not start, or is cancelled.

    Raises:
        CommandError: the store was lost or refused it. Nothing was changed, or the message states that this is unknown.
    """
    from jobconsole.actions.plan import submit
    from queue_core.client.operations import this_author

    stopped = False

    def show(report: Report) -> None:
        if stopped:
            raise _Stopped
        progress(f"{report.written:,} of {plural(len(plan.ids), 'job')} written down")

    # Shielded: whether it was started must be known when Ctrl+C ends this.
    writing = asyncio.ensure_future(submit(jobs.operations, plan, this_author(), show))
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
        raise _not_started(report)
    return report


def _not_started(report: Report) -> CommandError:
    error = report.error
    if isinstance(error, OutcomeUnknown):
        return Unreachable(f"{error}; 'jobconsole op show {error.number}' tells, and if it was, workers carry it out")
    text = f"{report.problem}; nothing was changed ('jobconsole op list' shows what was begun)"
    return CommandError(text) if isinstance(error, StoreRefused) else Unreachable(text)


async def run_to_end(jobs: JobQueue, report: Report) -> Report:
    """Carry out here what was submitted, until it ends or pauses; on Ctrl+C it is cancelled in the store."""
    from jobconsole.actions.plan import run_submitted

    def show(report: Report) -> None:
        if report.operation is not None:
            progress(state_of_progress(report.operation))

    try:
        return await run_submitted(jobs.operations, report, show)
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
    from jobconsole.actions.plan import Plan, apply
    from queue_core.client.operations import this_author

    plan = Plan("retry" if verb == "retry" else "delete", f"job {job_id}", (job_id,), why=why)
    report = await apply(jobs.operations, plan, this_author())
    if report.problem and report.processed != 1:
        raise _not_started(report) if report.operation is None else Unreachable(report.problem)
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


def end_of_limit(report: Report) -> int | None:
    """Report what kept an operation from its end, and return the exit code for that; None: nothing did."""
    operation = report.operation
    if operation is None:
        return None
    number, done = operation.number, f"{report.done:,} of {plural(operation.total, 'job')}"
    if report.problem:
        seen = f"operation #{number} was at {done} when it was last seen"
        fail(f"{report.problem}; {seen}, and workers continue it when the store is back")
    elif operation.state == "stopped":
        choice = f"'jobconsole op resume {number}' resumes it, 'jobconsole op cancel {number}' ends it"
        fail(f"operation #{number} was stopped after {done}: {operation.note}; {choice}")
    elif operation.state == "paused":
        fail(f"operation #{number} was paused after {done}; 'jobconsole op resume {number}' resumes it")
    elif operation.state != "done":
        fail(f"operation #{number} is {operation.state}, after {done}{operation.note and f': {operation.note}'}")
    elif operation.errored:
        fail(f"{plural(operation.errored, 'job')} could not be changed: {operation.note}")
    else:
        return None
    return FAILED
