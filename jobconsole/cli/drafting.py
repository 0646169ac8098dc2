"""What a job becomes by `jobconsole job edit`: a draft that was looked at, before anything is written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from jobconsole.cli.assigning import assigned
from jobconsole.cli.enqueueing import checked_object
from jobconsole.cli.failures import CommandError, UsageError

if TYPE_CHECKING:
    from jobconsole.core.editing import Draft, Problem
    from queue_core.job import Job
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
        from jobconsole.core.jsontext import value_of

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
    from queue_core.states import FINAL

    job = await jobs.inspector.get(job_id)
    if job.status not in FINAL:
        raise CommandError(f"{WrongState(job_id, job.status.value, 'edited')}: cancel it first, or it runs as it is")
    return job


async def drafted(jobs: JobQueue, options: argparse.Namespace, job: Job, text: str | None) -> Edit:
    """Look at a payload; without one, at that of the job, with what --set says.

    Raises:
        UsageError, InvalidJob: it leads nowhere, or is no object.
    """
    from jobconsole.core.editing import draft_of
    from jobconsole.core.jsontext import NotJson, pretty, value_of

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
    return await looked_at(jobs, options, job, replace(draft, text=text, queue=queue, priority=priority))


async def looked_at(jobs: JobQueue, options: argparse.Namespace, job: Job, draft: Draft) -> Edit:
    """Find out how a draft differs from its job, and what is wrong with it."""
    from jobconsole.core.editing import Problem, check, diff, look_up

    known = await look_up(jobs.inspector, job.type, draft.queue)
    lines = diff(job.payload_text, draft.text)
    if not lines and (draft.queue, draft.priority) == (job.queue, job.priority):
        same = f"nothing is changed: 'jobconsole job retry {job.id}' runs the job as it is"
        return Edit(job, draft, lines, [Problem("error", same)])
    limit = jobs.settings.limits.payload
    without = Edit(job, draft, lines, check(draft, job, replace(known, schema=None), limit))
    if options.no_check or without.errors:
        return without
    return replace(without, problems=check(draft, job, known, limit), misfit=True)
