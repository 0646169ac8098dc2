"""Retry and delete from a notebook: a preview with frozen jobs first, which `run` carries out as an operation."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from uuid import UUID

from jobconsole.actions.plan import (
    REVERSIBLE,
    Facts,
    Plan,
    Report,
    Target,
    apply,
    breakdown,
    changeable_only,
    plan,
    run_submitted,
    submit,
)
from jobconsole.format.humanize import exact, plural
from jobconsole.format.words import WORDS
from jobconsole.notebook.connection import NotebookConnection, in_one_sentence
from jobconsole.notebook.draw import Block, Drawing, FactsBlock, LinesBlock, note
from jobconsole.notebook.options import RetryOptions, check_names, options_and_rollout
from jobconsole.notebook.rows import JobRows
from jobconsole.present.facts import Fact, in_words, of_operation, only
from queue_core.client.operations import this_author
from queue_core.errors import InvalidArgument, QueueCoreError, ReadOnly
from queue_core.model.filters import Filter, parse, render
from queue_core.model.job import Job
from queue_core.model.operation import Author, ChangeOptions, MemberVerb, Rollout
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.client.operations import Operations

Chosen = str | Filter | Job | JobRows | Iterable[str | Job]
"""Jobs, as a notebook names them: a filter or an id as text, a job, a table of jobs, or several ids or jobs."""


def target_of(verb: MemberVerb, chosen: Chosen) -> Target:
    """Return what a verb is to act on; a filter is narrowed to the jobs that it acts on.

    Raises:
        FilterError, InvalidArgument: it cannot be read, or is empty.
    """
    if isinstance(chosen, JobRows):
        chosen = chosen.where
    if isinstance(chosen, str) and _id(chosen) is None:
        chosen = parse(chosen)
    if isinstance(chosen, Filter):
        narrowed = changeable_only(verb, chosen)
        where = Filter(tuple(dict.fromkeys(narrowed.terms)), narrowed.trash)
        return Target(render(where) or "all jobs", wheres=(where,))
    ids = tuple(dict.fromkeys(_ids([chosen] if isinstance(chosen, str | Job) else chosen)))
    if not ids:
        raise InvalidArgument("which jobs? give a filter, such as 'type:mail age:<1h', ids, or jobs")
    return Target(f"job {ids[0]}" if len(ids) == 1 else f"{plural(len(ids), 'job')} by id", ids=ids)


def _ids(chosen: Iterable[str | Job]) -> Iterator[str]:
    for one in chosen:
        job_id = one.id if isinstance(one, Job) else _id(one) if isinstance(one, str) else None
        if job_id is None:
            raise InvalidArgument(f"{str(one)[:60]!r} is no job and no job's id")
        yield job_id


def _id(text: str) -> str | None:
    try:
        return str(UUID(text.strip()))
    except ValueError:
        return None


def author() -> Author:
    """Return who works in this notebook: the user of JupyterHub, else that of the system, and the host."""
    own = this_author()
    return own._replace(user=os.environ.get("JUPYTERHUB_USER") or own.user)


class Preview(Drawing):
    """What a verb would do to jobs that are frozen by now; nothing is changed before `run`."""

    def __init__(self, connection: NotebookConnection, plan: Plan, facts: Facts) -> None:
        self.plan = plan
        # what was carried out; None: nothing so far
        self.result: ChangeResult | None = None
        self._connection = connection
        self._facts = facts

    def __repr__(self) -> str:
        return f"<Preview of {self.plan.verb}: {plural(len(self.plan.ids), 'job')}>"

    def __len__(self) -> int:
        """Return how many jobs there are."""
        return len(self.plan.ids)

    def blocks(self) -> Iterator[Block]:
        """Yield what would happen to which jobs, and how to let it happen."""
        one = self.plan
        yield LinesBlock([((WORDS[one.verb].title, "strong"), ("  a preview: nothing is changed yet", "muted"))])
        yield FactsBlock((*self.facts, Fact("then", WORDS[one.verb].consequence, "muted")))
        if self.result is not None:
            yield note(self.result.sentence, "good")
        elif one.ids:
            yield note(".run(why='…') carries it out, under your name")

    @property
    def facts(self) -> tuple[Fact, ...]:
        """How many jobs, of which filter, and what is known about them."""
        one, more = self.plan, "; more match" if self.plan.capped else ""
        return (
            Fact("jobs", f"{exact(len(one.ids))}{more}", "strong" if one.ids else "warn"),
            Fact("of", one.label),
            *(Fact(label, value) for label, value in self._facts),
            Fact("how", ", ".join(in_words(one.options, one.rollout))),
        )

    def run(self, why: str = "") -> ChangeResult:
        """Carry it out as an operation, kept with who asked for it and why; an interrupt cancels the rest.

        Raises:
            InvalidArgument: there is no job, or it was carried out already.
            ReadOnly: the connection may look and not change.
            StoreUnavailable: the store was lost before it began; nothing was changed.
        """
        with in_one_sentence():
            if self.result is not None:
                raise InvalidArgument(f"this preview was carried out already: {self.result.sentence}")
            connection = self._connection
            report = connection.run(carry_out(connection.operations, self.confirmed(why)))
            if report.operation is None and report.error is not None:
                raise report.error
        self.result = ChangeResult(connection, report)
        return self.result

    def confirmed(self, why: str) -> Plan:
        """Return the plan with a person's reason.

        Raises:
            InvalidArgument: there is no job in it.
            ReadOnly: the connection may look and not change.
        """
        if self._connection.read_only:
            raise ReadOnly(self.plan.verb)
        if not self.plan.ids:
            raise InvalidArgument(f"no job is in a state for {self.plan.verb}; nothing was done")
        return replace(self.plan, why=why)


RESULT_FACTS = ("who", "why", "what", "how", "skipped", "errored", "note")
"""The labels of what is shown of an operation that was carried out."""


class ChangeResult(Drawing):
    """What came of a change, as of its last step here."""

    def __init__(self, connection: NotebookConnection, report: Report) -> None:
        self.report = report
        self._connection = connection

    def __repr__(self) -> str:
        return f"<ChangeResult {self.sentence}>"

    @property
    def sentence(self) -> str:
        """What was done, in a sentence."""
        return sentence_of_report(self.report)

    def blocks(self) -> Iterator[Block]:
        """Yield the sentence, and the operation's facts."""
        report = self.report
        yield LinesBlock(
            [((self.sentence, "good" if report.operation and report.operation.state == "done" else "warn"),)]
        )
        if report.operation is not None:
            yield FactsBlock(only(of_operation(report.operation, None), *RESULT_FACTS))
        if report.plan.verb in REVERSIBLE and report.processed:
            yield note(".undo() brings exactly these back")

    def undo(self) -> list[ChangeResult]:
        """Bring back exactly what a delete has moved to the trash.

        Raises:
            InvalidArgument: nothing takes this verb back.
            ReadOnly, StoreUnavailable: nothing was changed.
        """
        connection, report = self._connection, self.report
        with in_one_sentence():
            if report.plan.verb not in REVERSIBLE or report.operation is None:
                raise InvalidArgument(f"a {report.plan.verb} cannot be undone once it has ended")
            done = connection.run(_take_back(connection.operations, report.operation.number))
        return [ChangeResult(connection, one) for one in done]


async def preview(connection: NotebookConnection, verb: MemberVerb, chosen: Chosen, given: RetryOptions) -> Preview:
    """Freeze the jobs that a verb would act on, and look at them.

    Raises:
        FilterError, InvalidArgument, InvalidJob: what was chosen, or an option, cannot be.
        StoreUnavailable: the store did not answer in time.
    """
    check_names(given)
    target = target_of(verb, chosen)
    inspector = connection.jobs.inspector
    made = await plan(inspector, verb, target)
    facts = await breakdown(inspector, target)
    if verb == "retry":
        options, rollout = options_and_rollout(given, len(made.ids))
        made = replace(made, options=options, rollout=rollout)
    return Preview(connection, made, facts)


async def carry_out(
    operations: Operations, plan: Plan, progress: Callable[[Report], None] = lambda report: None
) -> Report:
    """Write a plan as an operation and carry it out; cancelled, it is cancelled in the store, too.

    One that waits for a time or a release is left to the workers.

    Raises:
        InvalidArgument, InvalidJob, ReadOnly: nothing was written.
    """
    if waits(plan.rollout):
        return await submit(operations, plan, author(), progress)
    number = 0

    def note_number(report: Report) -> None:
        nonlocal number
        number = report.number or number
        progress(report)

    work = asyncio.ensure_future(apply(operations, plan, author(), note_number))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait({work})
        with suppress(QueueCoreError):
            if number and await operations.cancel(number):
                left = await operations.get(number)
                sys.stderr.write(
                    f"operation #{number} is cancelled, after {left.done:,} of {plural(left.total, 'job')}\n"
                )
        raise


def waits(rollout: Rollout) -> bool:
    """Return whether an operation begins later."""
    return rollout.when_release is not None or rollout.begin_at is not None


async def _take_back(operations: Operations, number: int) -> list[Report]:
    reports = []
    for operation in await operations.undo(number, author()):
        request = operation.request
        back = Report(Plan(cast(MemberVerb, request.verb), request.label, ()), operation=operation)
        reports.append(await run_submitted(operations, back))
    return reports


def sentence_of_report(report: Report) -> str:
    """Return what was done to how many jobs, or why it is not done."""
    operation, past = report.operation, WORDS[report.plan.verb].past
    if operation is None:
        return f"nothing was {past}: {safe(report.problem)}"
    done = f"{exact(report.done)} of {plural(operation.total, 'job')}"
    if report.problem:
        return f"{safe(report.problem)}; operation #{operation.number} was at {done}, and workers continue it"
    if operation.state == "running" and not report.done and waits(operation.request.rollout):
        begins = ", ".join(in_words(ChangeOptions(), operation.request.rollout))
        return f"operation #{operation.number} is written down for {plural(operation.total, 'job')}: {begins}"
    if operation.state != "done":
        return f"operation #{operation.number} is {operation.state}, after {done}"
    parts = [f"{past} {plural(report.processed, 'job')}"]
    if report.skipped:
        parts.append(f"skipped {exact(report.skipped)} that had changed meanwhile")
    if report.errored:
        parts.append(f"{exact(report.errored)} not done")
    return f"{', '.join(parts)} (operation #{operation.number})"
