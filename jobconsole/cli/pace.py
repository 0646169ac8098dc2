"""The options for the rollout of an operation, and following one until it ends."""

from __future__ import annotations

import argparse
import asyncio
import re
from datetime import datetime
from typing import TYPE_CHECKING

from jobconsole.cli.failures import (
    FAILED,
    CommandError,
    Unreachable,
    check_terminal,
    confirm,
    fail,
    note,
    progress,
)
from jobconsole.cli.root import Parser, duration, whole
from jobconsole.cli.tables import state_of_progress
from jobconsole.format.humanize import plural
from queue_core.errors import OutcomeUnknown, QueueCoreError, StoreRefused

if TYPE_CHECKING:
    from jobconsole.actions.plan import Plan, Report
    from queue_core.model.operation import ChangeOptions, Operation, Rollout
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


_MOST = 1_000_000


def add_spread(verb: Parser) -> None:
    """Declare the options of a retry that avoid a stampede."""
    verb.add_argument(
        "--spread",
        type=duration,
        metavar="T",
        help="over this time (default: 200 jobs a second from 50 jobs on, unless --canary or --rate is given; 0 = now)",
    )
    verb.add_argument("--delay", type=duration, default=0.0, metavar="T", help="due after this time, as in 5m")


def add_rollout(verb: Parser) -> None:
    """Declare the options of a retry that begins carefully."""
    verb.add_argument("--canary", type=whole(0, _MOST), metavar="N", help="N jobs first, and wait for their outcome")
    verb.add_argument(
        "--canary-first-failure",
        action="store_true",
        help="a job of the canary, or of a step of the ramp, counts for --stop-if at its first failed attempt",
    )
    verb.add_argument(
        "--ramp",
        type=ramp,
        metavar="N,N,…",
        help="N jobs, then N, …, then the rest; each step waits for its outcome, and the first one is the canary",
    )
    verb.add_argument(
        "--when-release", metavar="NAME", help="begin when a live worker that runs such jobs announces this release"
    )
    verb.add_argument("--begin-at", type=begin_at, metavar="TIME", help="begin then, as in 2030-01-31T09:00:00+01:00")
    verb.add_argument("--rate", type=rate, metavar="R", help="at most so many jobs a second, as in 100, 100/s or 90/m")
    verb.add_argument(
        "--stop-if", type=percent, metavar="PCT", help="stop when more than so many percent of them die again"
    )


def add_target(verb: Parser) -> None:
    """Declare another queue and another priority."""
    verb.add_argument("--to-queue", type=queue, metavar="Q", help="into this queue")
    verb.add_argument("--priority", type=priority, metavar="P", help="-128 to 127, or low, normal, high, urgent")


async def confirm_new_queue(jobs: JobQueue, what: str, queue: str) -> None:
    """Ask before jobs go into a queue that is not there yet, and on which no live worker would work.

    Raises:
        Refused: the answer is no, or there is no terminal to ask at.
    """
    overview = await jobs.inspector.overview()
    known = any(one.name == queue for one in overview.queues)
    if not known and not any(queue in worker.queues for worker in overview.workers if not worker.lost):
        what += f" into queue '{queue}', which is new and on which no live worker works"
        check_terminal(what)
        confirm(what)


def rate(text: str) -> float:
    """Return the jobs a second in 100, 100/s or 90/m."""
    from queue_core.model.rules import parse_rate

    try:
        return parse_rate(float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else text) or 0.0
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def ramp(text: str) -> tuple[int, ...]:
    """Return the steps of 1,10,100."""
    from queue_core.errors import InvalidArgument
    from queue_core.model.operation import Rollout
    from queue_core.model.validation import check_rollout

    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text) or not all(int(step) for step in text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' is no ramp; write the jobs of each step, as in 1,10,100")
    try:
        return check_rollout(Rollout(ramp=tuple(int(step) for step in text.split(",")))).ramp
    except InvalidArgument as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def begin_at(text: str) -> datetime:
    """Return a moment with its time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no time; write it as in 2030-01-31T09:00:00+01:00") from None
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"'{text}' has no time zone; add one, as in {moment.isoformat()}Z")
    return moment


def percent(text: str) -> float:
    """Return 20 for 20 or 20%."""
    number = text.removesuffix("%")
    if not re.fullmatch(r"\d{1,3}(\.\d{1,9})?", number) or float(number) > 100:
        raise argparse.ArgumentTypeError(f"'{text}' is not a percentage from 0 to 100")
    return float(number)


def queue(text: str) -> str:
    """Return the name of a queue."""
    from queue_core.errors import InvalidJob
    from queue_core.model.validation import check_queue_name

    try:
        return check_queue_name(text)
    except InvalidJob as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def priority(text: str) -> int:
    """Return a priority by its number or name."""
    from queue_core.errors import InvalidJob
    from queue_core.model.rules import parse_priority

    try:
        return int(parse_priority(text))
    except InvalidJob as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def options_and_rollout(options: argparse.Namespace, number: int) -> tuple[ChangeOptions, Rollout]:
    """Return the changes and the rollout from the options, for an operation on so many jobs.

    A canary is never the default: a script must not wait for its outcome unless an option asks for it.
    """
    from jobconsole.actions.plan import default_spread
    from queue_core.model.operation import ChangeOptions, Rollout
    from queue_core.model.validation import check_rollout

    target = (getattr(options, "to_queue", None), getattr(options, "priority", None))
    if not hasattr(options, "spread"):
        return ChangeOptions(0.0, 0.0, *target), Rollout()
    spread = options.spread
    if spread is None:
        paced = options.canary is not None or options.rate is not None or options.ramp
        spread = 0.0 if paced else default_spread("retry", number)
    rollout = Rollout(
        canary=options.canary or 0,
        rate=options.rate,
        stop_percent=options.stop_if,
        first_failure=options.canary_first_failure,
        ramp=options.ramp or (),
        begin_at=options.begin_at,
        when_release=options.when_release,
    )
    return ChangeOptions(options.delay, spread, *target), check_rollout(rollout)
