"""`jobconsole job edit`: a new job is made of one that has ended, with another payload; the old one stays."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jobconsole.cli.asking import confirm
from jobconsole.cli.drafting import Edit, drafted, editable, looked_at
from jobconsole.cli.editor import edited
from jobconsole.cli.failures import DONE, Refused, UsageError, ask, fail, note, warn
from jobconsole.cli.noting import add_change
from jobconsole.cli.output import Output
from jobconsole.cli.pacing import add_target
from jobconsole.cli.parsing import Parser
from jobconsole.cli.selection import canonical
from jobconsole.cli.session import connected
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.job import Job
    from queue_core.queue import JobQueue

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
    job_id, given = canonical(options.id), _given(options)
    by_hand = given is None and not options.set and options.to_queue is None and options.priority is None
    if by_hand and not has_terminal():
        raise UsageError("there is no terminal for an editor; give --payload, --payload-file or --set")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        job = await editable(jobs, job_id)
        edit = await _edit_by_hand(jobs, options, job) if by_hand else await drafted(jobs, options, job, given)
        if edit.errors:
            raise UsageError(f"{'; '.join(edit.errors)}; nothing was enqueued{_HINT if edit.misfit else ''}")
        for sentence in edit.warnings:
            warn(sentence)
        if options.dry_run:
            return _rehearsed(output, edit)
        for line in edit.lines:
            note(line)
        if by_hand and not options.yes:
            confirm("enqueue this as a new job")
        return await _enqueued(jobs, options, output, edit)

    return connected(options, output, run, "" if options.dry_run else "job edit")


def has_terminal() -> bool:
    """Tell whether an editor has a place to appear in."""
    return sys.stdin.isatty() and sys.stdout.isatty()


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
    from jobconsole.core.editing import draft_of

    draft = draft_of(job)
    if draft.remark:
        note(draft.remark)
    while True:
        draft = replace(draft, text=edited(draft.text))
        edit = await looked_at(jobs, options, job, draft)
        if not edit.lines:
            raise Refused("nothing was changed, so nothing was enqueued")
        if not edit.errors:
            return edit
        for sentence in edit.errors:
            fail(sentence)
        if ask("edit it again? [Y/n] ").lower() not in {"", "y", "yes"}:
            raise Refused("nothing was enqueued")


def _rehearsed(output: Output, edit: Edit) -> int:
    if output.as_json:
        output.json({"dry_run": True, **edit.body()})
        return DONE
    for line in edit.lines:
        output.line(line)
    where = f"in queue {edit.draft.queue} with priority {edit.draft.priority}"
    output.line(safe(f"would enqueue a new {edit.job.type} {where}", 1_000))
    return DONE


async def _enqueued(jobs: JobQueue, options: argparse.Namespace, output: Output, edit: Edit) -> int:
    from jobconsole.core.editing import submit_edit
    from queue_core.operating import this_author

    new = await submit_edit(jobs, edit.job, edit.draft, this_author(), options.why)
    if output.as_json:
        output.json({"id": new.id, **edit.body()})
    else:
        output.line(new.id)
    if new.problem:
        warn(new.problem)
    return DONE
