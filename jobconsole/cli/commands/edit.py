"""`jobconsole job edit`: a dead job as a new one with another payload."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from jobconsole.cli.commands.editor import assigned, edited
from jobconsole.cli.commands.enqueue import checked_object
from jobconsole.cli.failures import DONE, CommandError, Refused, UsageError, ask, confirm, fail, note, warn
from jobconsole.cli.output import Output, has_terminal
from jobconsole.cli.parser import Parser, add_change
from jobconsole.cli.rollout import add_target
from jobconsole.cli.selection import canonical, find_id
from jobconsole.cli.session import connected
from queue_core.model.text import safe

if TYPE_CHECKING:
    from jobconsole.actions.edit import Draft, Problem
    from queue_core.model.job import Job
    from queue_core.queue import JobQueue


@dataclass(frozen=True, slots=True)
class Edit:
    """A draft that was looked at."""

    job: Job
    draft: Draft
    # how its payload differs from the job's
    lines: Sequence[str]
    problems: Sequence[Problem]
    # without the type's schema there would be no error
    misfit: bool = False

    @property
    def errors(self) -> list[str]:
        """Why it cannot be enqueued."""
        return [problem.sentence for problem in self.problems if problem.severity == "error"]

    @property
    def warnings(self) -> list[str]:
        """What may surprise."""
        return [problem.sentence for problem in self.problems if problem.severity == "warning"]

    def body(self) -> dict[str, object]:
        """Return it as JSON."""
        from jobconsole.actions.json import value_of

        return {
            "original": self.job.id,
            "type": self.job.type,
            "queue": self.draft.queue,
            "priority": self.draft.priority,
            "payload": value_of(self.draft.text),
            "diff": self.lines,
        }


async def editable(jobs: JobQueue, job_id: str) -> Job:
    """Return a job that has ended.

    Raises:
        JobNotFound, CommandError: it is not there, or will still run as it is.
    """
    from queue_core.errors import WrongState
    from queue_core.model.states import FINAL

    job = await jobs.inspector.get(job_id)
    if job.status not in FINAL:
        raise CommandError(f"{WrongState(job_id, job.status.value, 'edited')}: cancel it first, or it runs as it is")
    return job


async def drafted(jobs: JobQueue, options: argparse.Namespace, job: Job, text: str | None) -> Edit:
    """Check a payload; without one, that of the job with the values of --set.

    Raises:
        UsageError, InvalidJob: it leads nowhere, or is no object.
    """
    from jobconsole.actions.edit import draft_of
    from jobconsole.actions.json import NotJson, pretty, value_of

    draft = draft_of(job)
    text = draft.text if text is None else text
    try:
        checked_object(value_of(text))
        text = pretty(reduce(assigned, options.set, text))
    except NotJson as error:
        if options.set:
            raise UsageError(f"the payload is not JSON: {error.reason}") from None
    queue = job.queue if options.to_queue is None else options.to_queue
    priority = job.priority if options.priority is None else options.priority
    return await preview(jobs, options, job, replace(draft, text=text, queue=queue, priority=priority))


async def preview(jobs: JobQueue, options: argparse.Namespace, job: Job, draft: Draft) -> Edit:
    """Find out how a draft differs from its job, and what is wrong with it."""
    from jobconsole.actions.edit import Problem, check, diff, read_known

    known = await read_known(jobs.inspector, job.type, draft.queue)
    lines = diff(job.payload_text, draft.text)
    if not lines and (draft.queue, draft.priority) == (job.queue, job.priority):
        same = f"nothing is changed: 'jobconsole job retry {job.id}' runs the job as it is"
        return Edit(job, draft, lines, [Problem("error", same)])
    limit = jobs.settings.limits.payload
    without = Edit(job, draft, lines, check(draft, job, replace(known, schema=None), limit))
    if options.no_check or without.errors:
        return without
    return replace(without, problems=check(draft, job, known, limit), misfit=True)


_LONGEST_INPUT = 64 << 20
"""Bytes of a payload that are read; the limit of payloads is checked afterwards, and is far below."""

_HINT = " (--no-check leaves the type's schema out of it)"


def add_arguments(verb: Parser) -> None:
    """Declare the options."""
    verb.add_argument("id", metavar="ID")
    payload = verb.add_argument_group("the new payload (without one of these: $VISUAL or $EDITOR is opened)")
    payload.add_argument("--payload", metavar="JSON", help="an object of parameter names")
    payload.add_argument("--payload-file", metavar="F", help="a file that holds it; - reads standard input")
    payload.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="one value, as in user.id=7; several times"
    )
    add_target(verb)
    verb.add_argument("--no-check", action="store_true", help="enqueue a payload that does not fit the type's schema")
    add_change(verb)


def run(options: argparse.Namespace, output: Output) -> int:
    """Enqueue a new job that is made of another one.

    Raises:
        UsageError, InvalidJob, JobNotFound, Refused, ReadOnly, StoreUnavailable: nothing was written.
    """
    named, given = canonical(options.id), _given(options)
    by_hand = given is None and not options.set and options.to_queue is None and options.priority is None
    if by_hand and not has_terminal():
        raise UsageError("there is no terminal for an editor; give --payload, --payload-file or --set")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        job = await editable(jobs, await find_id(jobs, named))
        edit = await _edit_by_hand(jobs, options, job) if by_hand else await drafted(jobs, options, job, given)
        if edit.errors:
            raise UsageError(f"{'; '.join(edit.errors)}; nothing was enqueued{_HINT if edit.misfit else ''}")
        for sentence in edit.warnings:
            warn(sentence)
        if options.dry_run:
            return _report_dry_run(output, edit)
        for line in edit.lines:
            note(line)
        if by_hand and not options.yes:
            confirm("enqueue this as a new job")
        return await _enqueued(jobs, options, output, edit, ask_again=by_hand and not options.yes)

    return connected(options, output, run, "" if options.dry_run else "job edit")


def _given(options: argparse.Namespace) -> str | None:
    """Return the payload that the options name, before --set."""
    if options.payload is not None and options.payload_file is not None:
        raise UsageError("give either --payload or --payload-file, not both")
    if options.payload_file is None:
        return None if options.payload is None else str(options.payload)
    if options.payload_file == "-":
        return sys.stdin.read(_LONGEST_INPUT)
    try:
        with Path(options.payload_file).open(encoding="utf-8") as file:
            return file.read(_LONGEST_INPUT)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read {options.payload_file}: {why}") from None


async def _edit_by_hand(jobs: JobQueue, options: argparse.Namespace, job: Job) -> Edit:
    """Open the editor, again when something is wrong and the person wants to mend it."""
    from jobconsole.actions.edit import draft_of

    draft = draft_of(job)
    if draft.remark:
        note(draft.remark)
    while True:
        draft = replace(draft, text=edited(draft.text))
        edit = await preview(jobs, options, job, draft)
        if not edit.lines:
            raise Refused("nothing was changed, so nothing was enqueued")
        if not edit.errors:
            return edit
        for sentence in edit.errors:
            fail(sentence)
        if ask("edit it again? [Y/n] ").lower() not in {"", "y", "yes"}:
            raise Refused("nothing was enqueued")


def _report_dry_run(output: Output, edit: Edit) -> int:
    if output.as_json:
        output.json({"dry_run": True, **edit.body()})
        return DONE
    for line in edit.lines:
        output.line(line)
    where = f"in queue {edit.draft.queue} with priority {edit.draft.priority}"
    output.line(safe(f"would enqueue a new {edit.job.type} {where}", 1_000))
    return DONE


async def _enqueued(jobs: JobQueue, options: argparse.Namespace, output: Output, edit: Edit, ask_again: bool) -> int:
    from jobconsole.actions.edit import OriginalChanged, submit_edit
    from queue_core.client.operations import this_author

    try:
        new = await submit_edit(jobs, edit.job, edit.draft, this_author(), options.why)
    except OriginalChanged as changed:
        if ask_again:
            confirm(f"{changed}; enqueue this as a new job all the same")
        else:
            warn(str(changed))
        job = replace(edit.job, status=changed.now)
        new = await submit_edit(jobs, job, edit.draft, this_author(), options.why)
    output.note_change(f"job {new.id} was enqueued")
    if output.as_json:
        output.json({"id": new.id, **edit.body()})
    else:
        output.line(new.id)
    if new.problem:
        warn(new.problem)
    return DONE
