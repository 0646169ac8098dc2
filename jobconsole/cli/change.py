"""Changes from the command line: which jobs, the question before, the change, and its result."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from jobconsole.cli.failures import (
    DONE,
    FAILED,
    NOT_FOUND,
    UsageError,
    check_terminal,
    confirm,
    fail,
    warn,
)
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_change
from jobconsole.cli.rollout import add_rollout, add_spread, add_target, options_and_rollout
from jobconsole.cli.selection import (
    JobSelection,
    add_selection,
    check_queue,
    check_signature,
    find_ids,
    hint_names,
    in_dlq,
    search,
    search_body,
    selection_of,
    states_of,
)
from jobconsole.cli.session import connected
from jobconsole.cli.submission import end_of_limit, run_to_end, submit_plan
from jobconsole.format.humanize import plural
from jobconsole.format.words import WORDS
from jobconsole.present.facts import in_words
from queue_core.errors import StoreUnavailable
from queue_core.model.operation import VERBS

if TYPE_CHECKING:
    from jobconsole.actions.plan import Plan, Report, Verb
    from queue_core.queue import JobQueue


_MAX_NAMED = 20
"""Jobs that a dry run names, refusals that are explained one by one, and signatures that one operation is noted for."""


def operate(options: argparse.Namespace, output: Output, verb: Verb, narrowed: Sequence[str] | None = None) -> int:
    """Run a verb on what the options choose, and return the exit code.

    `narrowed`: what filters are narrowed to in place of the verb's own, in the filter language.

    Raises:
        UsageError, Refused, ReadOnly, NotFound, StoreUnavailable: nothing was done.
    """
    if verb == "move" and options.to_queue is None and options.priority is None:
        raise UsageError("where to? give --to-queue, --priority, or both")
    chosen = selection_of(options, *(WORDS[verb].narrowed if narrowed is None else narrowed))
    if WORDS[verb].question and not (options.yes or options.dry_run):
        # Before anything is looked at: a script without --yes must not work on the days when nothing matches.
        check_terminal(f"{verb} jobs")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        ids = await find_ids(jobs, chosen.ids)
        if verb == "retry" and options.noun == "dlq":
            ids = await in_dlq(jobs, ids)
        found = replace(chosen, ids=ids)
        plan, warnings = await _planned(jobs, options, verb, found)
        if options.dry_run:
            plan, explained = await _foreseen(jobs, verb, plan) if found.ids else (plan, _Result(_empty(plan)))
            return _report_dry_run(output, verb, plan, replace(explained, warnings=tuple(warnings)))
        if plan.ids and not options.yes:
            await _confirm(jobs, verb, plan)
        if not plan.ids:
            return _reported(output, verb, _Result(_empty(plan), warnings=tuple(warnings)))
        if verb != "retry":
            await _check_target(jobs, plan)
        report = await submit_plan(jobs, plan)
        if options.detach:
            return await _detached(jobs, output, report, warnings)
        report = await run_to_end(jobs, report)
        result = await _explain_unchanged(jobs, verb, found, report)
        return _reported(output, verb, replace(result, warnings=tuple(warnings)))

    return connected(options, output, run, "" if options.dry_run else f"{options.noun} {verb}")


async def _planned(
    jobs: JobQueue, options: argparse.Namespace, verb: Verb, chosen: JobSelection
) -> tuple[Plan, list[str]]:
    """Return what is to be done, and what to know before; that is a line each on standard error, too."""
    from jobconsole.actions.caution import cautions
    from jobconsole.actions.plan import Target, plan

    await search(jobs, options, chosen.where)
    wheres = () if chosen.where is None else (chosen.where,)
    signatures = await _signatures(jobs, chosen)
    target = Target(chosen.label, chosen.ids, wheres, signatures=signatures)
    made = await plan(jobs.inspector, verb, target)
    changes, rollout = options_and_rollout(options, len(made.ids))
    made = replace(made, options=changes, rollout=rollout, why=options.why)
    if not made.ids:
        await check_signature(jobs, options.signature)
        return made, await hint_names(jobs, chosen.where)
    warnings = await cautions(jobs.inspector, jobs.operations, target, made)
    for sentence in warnings:
        warn(sentence)
    return made, warnings


async def _signatures(jobs: JobQueue, chosen: JobSelection) -> tuple[str, ...]:
    """Return the signatures that a filter asks for: the console then shows the operation with them."""
    where = chosen.where
    if where is None or where.trash:
        return ()
    if not any(term.field == "signature" and not term.negated for term in where.terms):
        return ()
    return tuple(group.signature for group in await jobs.inspector.signatures(where, 60.0, 1, _MAX_NAMED))


async def _check_target(jobs: JobQueue, plan: Plan) -> None:
    """Warn of a queue without workers: jobs moved to a mistyped one would never run."""
    queue = plan.options.queue
    if queue is None:
        return
    workers = (await jobs.inspector.overview()).workers
    if not any(queue in worker.queues for worker in workers if not worker.lost):
        warn(f"no live worker works on queue '{queue}'; the jobs wait there until one does")


async def _foreseen(jobs: JobQueue, verb: Verb, plan: Plan) -> tuple[Plan, _Result]:
    """Return the plan without the jobs, all named by id, that a verb does not act on, and why it does not."""
    from queue_core.errors import WrongState

    found = await states_of(jobs, plan.ids)
    fit = {one for one, state in found.items() if VERBS[verb].acts_on(*state)}
    unfit = [one for one in plan.ids if one in found and one not in fit]
    refused = [str(WrongState(one, _state(*found[one]), WORDS[verb].past)) for one in unfit[:_MAX_NAMED]]
    missing = tuple(one for one in plan.ids if one not in found)
    return replace(plan, ids=tuple(one for one in plan.ids if one in fit)), _Result(
        _empty(plan), missing, tuple(refused)
    )


def _state(status: str, trashed: bool) -> str:
    return "in the trash" if trashed else str(status)


def _report_dry_run(output: Output, verb: Verb, plan: Plan, result: _Result) -> int:
    for sentence in result.sentences:
        fail(sentence)
    code = FAILED if result.refused else NOT_FOUND if result.missing else DONE
    if output.as_json:
        output.json({
            "dry_run": True, "verb": verb, "matched": len(plan.ids),
            **plan.options._asdict(), **plan.rollout._asdict(), "warnings": result.warnings, "ids": plan.ids,
            **search_body(plan.searched),
        })  # fmt: skip
        return code
    if _explained(result):
        return code
    how = "".join(f", {words}" for words in in_words(plan.options, plan.rollout)) if plan.ids else ""
    output.line(f"would {verb} {plural(len(plan.ids), 'job')}{how}{_capped(plan)}")
    for job_id in plan.ids[:_MAX_NAMED]:
        output.line(job_id)
    if len(plan.ids) > _MAX_NAMED:
        output.line(f"… and {len(plan.ids) - _MAX_NAMED:,} more")
    return code


async def _confirm(jobs: JobQueue, verb: Verb, plan: Plan) -> None:
    """Ask before what is not easily taken back: by its verb, or since it may lead to a queue that was mistyped.

    Raises:
        Refused: the answer is no, or there is no terminal to ask at.
    """
    question, queue = WORDS[verb].question, plan.options.queue
    what = f"{verb} {plural(len(plan.ids), 'job')}{_capped(plan)}"
    if question:
        confirm(what, typed=str(len(plan.ids)) if question == "count" else None)
    elif queue is not None:
        await confirm_new_queue(jobs, what, queue)


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


def _empty(plan: Plan) -> Report:
    from jobconsole.actions.plan import Report

    return Report(plan)


async def _detached(jobs: JobQueue, output: Output, report: Report, warnings: Sequence[str]) -> int:
    number = None if report.operation is None else report.operation.number
    if output.as_json:
        matched = len(report.plan.ids)
        body = {"verb": report.plan.verb, "matched": matched, "operation": number, "warnings": warnings}
        output.json(body | search_body(report.plan.searched))
    else:
        output.line(str(number))
    # The operation runs: its number must be written, and the verb is done, even if the question below fails.
    output.flush()
    with suppress(StoreUnavailable):
        if all(worker.lost for worker in (await jobs.inspector.overview()).workers):
            warn(f"no live worker carries operation #{number} out; 'jobconsole op run {number}' does it here")
    return DONE


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a verb, and the ids that the user named and that were not changed."""

    report: Report
    missing: tuple[str, ...] = ()
    # a sentence for each that is there and was left as it is
    refused: tuple[str, ...] = ()
    # what was to be known before
    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each job that was named and is not changed."""
        return (*(f"no job with id {job_id}" for job_id in self.missing[:_MAX_NAMED]), *self.refused)


async def _explain_unchanged(jobs: JobQueue, verb: Verb, chosen: JobSelection, report: Report) -> _Result:
    from queue_core.errors import JobNotFound, WrongState

    changed = set(report.changed)
    left = [job_id for job_id in chosen.ids if job_id not in changed]
    if report.problem or not report.finished or report.processed > len(changed) or not left:
        return _Result(report)
    missing, others = [], []
    for job_id in left[:_MAX_NAMED]:
        try:
            job = await jobs.inspector.get(job_id)
        except JobNotFound:
            missing.append(job_id)
        except StoreUnavailable as error:
            # The verb is done: only why these were left as they are stays unknown.
            others.append(f"job {job_id} was left as it is ({error})")
        else:
            trashed = job.trashed_at is not None
            if not VERBS[verb].acts_on(job.status, trashed):
                others.append(str(WrongState(job_id, _state(job.status, trashed), WORDS[verb].past)))
            elif not report.errored:
                others.append(f"job {job_id} was left as it is: {_skipped(report.plan, job.queue, job.priority)}")
            # else the operation's note has why, which is reported of all of them at once
    return _Result(report, tuple(missing), tuple(others))


def _skipped(plan: Plan, queue: str, priority: int) -> str:
    """Return why a job is as it was, whose state is one that the verb acts on."""
    there = plan.options.queue in (None, queue) and plan.options.priority in (None, priority)
    if plan.verb == "move" and there:
        return "it is there already"
    return "it changed meanwhile"


def _reported(output: Output, verb: Verb, result: _Result) -> int:
    report = result.report
    for sentence in result.sentences:
        fail(sentence)
    unfinished = end_of_limit(report)
    if output.as_json:
        body = _body(verb, report, result.missing) | {"warnings": result.warnings}
        output.json(body | search_body(report.plan.searched))
    elif not _explained(result):
        counts = f", skipped {report.skipped:,}, errored {report.errored:,}" if report.done != report.processed else ""
        output.line(f"{WORDS[verb].past} {plural(report.processed, 'job')}{_capped(report.plan)}{counts}")
    if unfinished is not None:
        return unfinished
    if result.refused:
        return FAILED
    return NOT_FOUND if result.missing else DONE


def _explained(result: _Result) -> bool:
    """Return whether nothing was changed, and why was reported of each job."""
    return 0 < len(result.report.plan.ids) == len(result.sentences)


def _body(verb: Verb, report: Report, missing: Sequence[str]) -> dict[str, object]:
    operation = report.operation
    return {
        "verb": verb,
        "matched": len(report.plan.ids),
        "processed": report.processed,
        "skipped": report.skipped,
        "errored": report.errored,
        "problem": report.problem or (operation.note if operation else "") or None,
        "missing": missing,
        "ids": report.changed,
        "operation": operation.number if operation else None,
        "state": operation.state if operation else None,
    }


def _capped(plan: Plan) -> str:
    searched = plan.searched
    some = ""
    if searched is not None and not searched.whole:
        some = f" (found in {searched.looked_at:,} of {searched.total:,} dead jobs)"
    return some + (" (more match; run it again)" if plan.capped else "")


Run = Callable[[argparse.Namespace, Output], int]


def add_verb(
    add: Callable[..., Parser],
    verb: Verb,
    *,
    summary: str = "",
    narrowed: Sequence[str] | None = None,
    run: Run | None = None,
) -> None:
    """Declare a verb on jobs with its options.

    `summary`, `narrowed`: its help and its filter in place of those in the table of words; `run`: what runs it in place
    of `operate`.
    """
    parser = add(verb, run or partial(operate, verb=verb, narrowed=narrowed), summary or WORDS[verb].summary)
    add_selection(parser)
    add_change(parser, bool(WORDS[verb].question) or "queue" in VERBS[verb].options)
    parser.add_argument(
        "--detach", action="store_true", help="print the operation's number and leave it to the workers"
    )
    if verb == "retry":
        add_spread(parser)
        add_rollout(parser)
    if "queue" in VERBS[verb].options:
        add_target(parser)
