"""The verbs that change many jobs: choose, freeze, show or ask, then work in chunks and report."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, FAILED, NOT_FOUND, Refused, ask, fail, note, progress
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, duration
from jobconsole.cli.selection import Selection, check_queue, selection_of
from jobconsole.cli.session import connected
from jobconsole.core.humanize import plural
from queue_core.text import safe

if TYPE_CHECKING:
    from jobconsole.core.operations import Plan, Report, Verb
    from queue_core.queue import JobQueue

_SHOWN = 20
"""Jobs that a dry run names, and refusals that are explained one by one."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb as the command line offers it."""

    verb: Verb
    # as in "retried 3 jobs"
    past: str
    # what filters are narrowed to, in the filter language
    narrowed: tuple[str, ...]
    # asks first, and insists on --yes without a terminal
    destructive: bool = False
    # the count has to be typed: this cannot be taken back
    final: bool = False


def add_operation(verb: Parser, destructive: bool) -> None:
    """Declare the options of a verb that changes many jobs."""
    verb.add_argument("--dry-run", action="store_true", help="only say what it would be")
    verb.add_argument("--yes", action="store_true", help="do not ask" if destructive else "accepted; it never asks")


def rehearse(output: Output, verb: str, names: Sequence[str]) -> int:
    """Say what a verb on things that have names would do."""
    if output.as_json:
        output.json({"dry_run": True, "verb": verb, "matched": len(names), "names": list(names)})
        return DONE
    for name in names:
        output.line(f"would {verb} {safe(name, 200)}")
    return DONE


def add_spread(verb: Parser) -> None:
    """Declare the option of a retry that avoids a stampede."""
    verb.add_argument(
        "--spread",
        type=duration,
        metavar="T",
        help="over this time (default: 200 jobs a second from 50 jobs on; 0 = now)",
    )


def operate(options: argparse.Namespace, output: Output, operation: Operation) -> int:
    """Run a verb on what the options choose, and return the exit code.

    Raises:
        UsageError, Refused, ReadOnly, NotFound, StoreUnavailable: nothing was done.
    """
    chosen = selection_of(options, *operation.narrowed)
    if operation.destructive and not (options.yes or options.dry_run):
        # Before anything is looked at: a script without --yes must not work on the days when nothing matches.
        check_terminal(f"{operation.verb} jobs")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        plan = await _planned(jobs, options, operation, chosen)
        if options.dry_run:
            return _rehearsed(output, operation, plan)
        _confirm(options, operation, plan)
        report = await _applied(jobs, plan)
        refused = await _refused(jobs, operation, chosen, report)
        return _reported(output, operation, report, refused)

    return connected(options, output, run, "" if options.dry_run else f"{options.noun} {operation.verb}")


async def _planned(jobs: JobQueue, options: argparse.Namespace, operation: Operation, chosen: Selection) -> Plan:
    from jobconsole.core.operations import Target, plan

    wheres = () if chosen.where is None else (chosen.where,)
    made = await plan(jobs.inspector, operation.verb, Target("command line", chosen.ids, wheres))
    spread = getattr(options, "spread", None)
    return made if spread is None else replace(made, spread=spread)


def _rehearsed(output: Output, operation: Operation, plan: Plan) -> int:
    if output.as_json:
        output.json({"dry_run": True, "verb": operation.verb, "matched": len(plan.ids), "ids": plan.ids})
        return DONE
    output.line(f"would {operation.verb} {plural(len(plan.ids), 'job')}{_capped(plan)}")
    for job_id in plan.ids[:_SHOWN]:
        output.line(job_id)
    if len(plan.ids) > _SHOWN:
        output.line(f"… and {len(plan.ids) - _SHOWN:,} more")
    return DONE


def _confirm(options: argparse.Namespace, operation: Operation, plan: Plan) -> None:
    if not operation.destructive or options.yes or not plan.ids:
        return
    what = f"{operation.verb} {plural(len(plan.ids), 'job')}{_capped(plan)}"
    confirm(what, typed=str(len(plan.ids)) if operation.final else None)


def check_terminal(what: str) -> None:
    """Make sure that there is somebody to ask.

    Raises:
        Refused: standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise Refused(f"refused to {what} without --yes, since standard input is no terminal to ask at")


def confirm(what: str, typed: str | None = None) -> None:
    """Ask the person at the terminal; with `typed`, that text has to be typed in place of y.

    Raises:
        Refused: the answer is no.
    """
    if typed is None:
        agreed = ask(f"{what}? [y/N] ").lower() in {"y", "yes"}
    else:
        agreed = ask(f"{what}, for good? type {typed} to go on: ") == typed
    if not agreed:
        raise Refused("nothing was done")


async def _applied(jobs: JobQueue, plan: Plan) -> Report:
    from jobconsole.core.operations import Report, apply

    last = Report(plan)

    def tell(report: Report) -> None:
        nonlocal last
        last = report
        progress(f"{report.done:,} of {len(plan.ids):,}")

    try:
        return await apply(jobs.control, plan, tell)
    except asyncio.CancelledError:
        note(f"stopped after {plural(last.processed, 'job')}")
        raise
    finally:
        progress("")


@dataclass(frozen=True, slots=True)
class _Refusals:
    """Ids that a person named and that were not changed."""

    missing: tuple[str, ...] = ()
    # a sentence for each
    others: tuple[str, ...] = ()


async def _refused(jobs: JobQueue, operation: Operation, chosen: Selection, report: Report) -> _Refusals:
    from queue_core.errors import JobNotFound, WrongState

    left = [job_id for job_id in chosen.ids if job_id not in set(report.changed)]
    if report.errored or not left:
        return _Refusals()
    missing, others = [], []
    for job_id in left[:_SHOWN]:
        try:
            job = await jobs.inspector.get(job_id)
        except JobNotFound:
            missing.append(job_id)
        else:
            status = "in the trash" if job.trashed_at else job.status.value
            others.append(str(WrongState(job_id, status, operation.past)))
    return _Refusals(tuple(missing), tuple(others))


def _reported(output: Output, operation: Operation, report: Report, refused: _Refusals) -> int:
    for sentence in (*(f"no job with id {job_id}" for job_id in refused.missing), *refused.others):
        fail(sentence)
    if report.problem:
        fail(f"stopped: {report.problem}")
    if output.as_json:
        output.json(_body(operation, report, refused.missing))
    else:
        counts = f", skipped {report.skipped:,}, errored {report.errored:,}" if report.done != report.processed else ""
        output.line(f"{operation.past} {plural(report.processed, 'job')}{_capped(report.plan)}{counts}")
    if report.errored or refused.others:
        return FAILED
    return NOT_FOUND if refused.missing else DONE


def _body(operation: Operation, report: Report, missing: Sequence[str]) -> dict[str, object]:
    return {
        "verb": operation.verb,
        "matched": len(report.plan.ids),
        "processed": report.processed,
        "skipped": report.skipped,
        "errored": report.errored,
        "problem": report.problem or None,
        "missing": missing,
        "ids": report.changed,
    }


def _capped(plan: Plan) -> str:
    return " (more match; run it again)" if plan.capped else ""
