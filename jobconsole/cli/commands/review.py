"""`jobconsole dlq review`: one dead job after another at a prompt."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, Refused, note, prompt
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser
from jobconsole.cli.selection import add_filters, check_queue, check_signature, filter_of, hint_names, search
from jobconsole.cli.session import connected
from jobconsole.cli.submission import changed_one
from jobconsole.format.humanize import plural
from jobconsole.present.facts import attempts, moment
from queue_core.errors import JobNotFound
from queue_core.model.states import Status
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.filters import Filter
    from queue_core.model.job import Job
    from queue_core.queue import JobQueue


_PAGE = 50
_PAYLOAD, _TRACEBACK = 300, 20_000
"""Characters of a payload at a glance, and of what was asked for."""
_QUESTION = "[r]etry  [d]elete  [s]kip  [t]raceback  [p]ayload  [q]uit: "

_ANSWERS = ("retry", "delete", "skip", "traceback", "payload", "quit")

WriteLine = Callable[[str], None]


def add_arguments(verb: Parser) -> None:
    """Declare the options."""
    add_filters(verb)
    verb.add_argument("--dry-run", action="store_true", help="change nothing, whatever is answered")
    verb.add_argument("--yes", action="store_true", help="accepted; each job is asked for")
    verb.add_argument("--why", default="", metavar="TEXT", help="the reason, which is kept with each operation")


def run(options: argparse.Namespace, output: Output) -> int:
    """Ask about one dead job after another, the newest first, until there are no more or the user quits.

    Raises:
        Refused: standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise Refused("refused to review jobs, since standard input is no terminal; 'dlq list' needs none")
    where = filter_of(options, "status:dead")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        await check_signature(jobs, options.signature)
        await search(jobs, options, where)
        review = _Review(jobs, note if output.as_json else output.line, options)
        if not await review.through(where):
            await hint_names(jobs, where)
        review.report(output)
        return DONE

    return connected(options, output, run, "" if options.dry_run else "dlq review")


class _Review:
    """A walk over dead jobs, with what was decided so far."""

    def __init__(self, jobs: JobQueue, write: WriteLine, options: argparse.Namespace) -> None:
        self._jobs = jobs
        self._write = write
        self._dry_run: bool = options.dry_run
        self._why: str = options.why
        self._done: dict[str, list[str]] = {"retry": [], "delete": [], "skip": [], "changed": []}

    async def through(self, where: Filter) -> int:
        """Ask about each job that matches; return about how many."""
        number = 0
        async for job in _dead(self._jobs, where):
            number += 1
            _glance(self._write, job, number)
            answer = _answer(self._write, job)
            if answer is None:
                return number
            await self._change(answer, job.id)
        self._write("no more dead jobs" if number else "no dead jobs")
        return number

    async def _change(self, verb: str, job_id: str) -> None:
        if verb != "skip" and not self._dry_run and not await changed_one(self._jobs, verb, job_id, self._why):
            self._write("it had changed meanwhile and was left as it is")
            verb = "changed"
        self._done[verb].append(job_id)

    def report(self, output: Output) -> None:
        """Write the decisions."""
        done = self._done
        if output.as_json:
            output.json({"dry_run": self._dry_run, "retried": done["retry"], "deleted": done["delete"],
                         "skipped": done["skip"], "changed_meanwhile": done["changed"]})  # fmt: skip
            return
        would = "would have " if self._dry_run else ""
        words = f"{would}retried {plural(len(done['retry']), 'job')}, {would}deleted {len(done['delete']):,}"
        output.line(f"{words}, skipped {len(done['skip']):,}")


async def _dead(jobs: JobQueue, where: Filter) -> AsyncIterator[Job]:
    """Yield each job as it is when its turn comes; those that are not dead any more are left out."""
    cursor: str | None = None
    while True:
        page = await jobs.inspector.jobs(where, _PAGE, cursor)
        for listed in page.jobs:
            try:
                job = await jobs.inspector.get(listed.id)
            except JobNotFound:
                continue
            if job.status is Status.DEAD and (job.trashed_at is not None) == where.trash:
                yield job
        cursor = page.cursor
        if cursor is None:
            return


def _answer(write: WriteLine, job: Job) -> str | None:
    """Ask until there is an answer: retry, delete, skip, or None to quit."""
    while True:
        answer = prompt(_QUESTION)
        word = "quit" if answer is None else answer.lower() or "?"
        verb = next((one for one in _ANSWERS if one.startswith(word)), "")
        if verb in {"retry", "delete", "skip"}:
            return verb
        if verb == "quit":
            return None
        if verb == "traceback":
            _block(write, job.traceback or "no traceback was kept")
        elif verb == "payload":
            _block(write, job.payload_text if job.payload is None else json.dumps(job.payload, indent=2))
        else:
            write("answer r, d, s, t, p or q")


def _glance(write: WriteLine, job: Job, number: int) -> None:
    """Return the facts needed to decide."""
    from jobconsole.core.tracebacks import parse, top_frame

    tries = f"{attempts(job)} attempts"
    died = f"died {moment(job.completed_at)}, signature {job.signature or 'none'}"
    write("")
    write(f"#{number:,}  {safe(job.type, 120)}  {job.id}")
    write(f"    queue {safe(job.queue, 120)}, {tries}, {died}")
    write(f"    {safe(job.error or 'no error was kept', 400)}")
    frame = top_frame(parse(job.traceback)) if job.traceback else None
    if frame is not None:
        write(f"    {frame.place} {frame.function}")
    write(f"    {safe(json.dumps(job.payload) if job.payload is not None else job.payload_text, _PAYLOAD)}")


def _block(write: WriteLine, text: str) -> None:
    for line in safe(text, _TRACEBACK, newlines=True).rstrip("\n").split("\n"):
        write(f"    {line}")
