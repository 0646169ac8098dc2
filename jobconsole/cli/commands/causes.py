"""`dlq show`, `dlq compare` and `job compare`: why jobs died, from what they have in common."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, Missing, UsageError
from jobconsole.cli.output import Output, TextColumn
from jobconsole.cli.parser import Parser, whole
from jobconsole.cli.selection import canonical, find_id, quoted
from jobconsole.cli.session import connected
from jobconsole.cli.tables import group_body, job_body, show_facts
from jobconsole.core.rows import ended_at
from jobconsole.present.facts import Fact, of_group
from jobconsole.present.signature import of_state
from queue_core.errors import FilterError

if TYPE_CHECKING:
    from queue_core.client.causes.compare import Comparison
    from queue_core.model.report import Breakdown, SignatureInfo
    from queue_core.queue import JobQueue

_WINDOW, _SLICES = 900.0, 8
SHARES = (
    TextColumn("PROPERTY", limit=40),
    TextColumn("VALUE", limit=100),
    TextColumn("DEAD", "right"),
    TextColumn("COMPLETED", "right"),
    TextColumn("FILTER", limit=120),
)
COMPARED = (
    TextColumn("", limit=1),
    TextColumn("FIELD", limit=60),
    TextColumn("FAILING", limit=100),
    TextColumn("COMPLETED", limit=100),
)


async def group_of(jobs: JobQueue, signature: str) -> SignatureInfo:
    """Return the signature that begins so.

    Raises:
        Missing: no dead job has it.
        UsageError: this is no signature, or several begin so.
    """
    from queue_core.model.filters import Filter, parse

    try:
        where = Filter((*parse("status:dead").terms, *parse(f"signature:{quoted(signature)}").terms))
    except FilterError as error:
        raise UsageError(error.reason) from None
    found = await jobs.inspector.signatures(where, _WINDOW, _SLICES, 2)
    if not found:
        raise Missing(f"no dead job has a signature that begins with '{signature}'")
    if len(found) > 1:
        raise UsageError(f"several signatures begin with '{signature}'; 'jobconsole dlq groups' lists them")
    return found[0]


async def known_group_of(jobs: JobQueue, signature: str) -> SignatureInfo:
    """Return the signature that begins so, also one whose jobs have all been retried or deleted since.

    Raises:
        Missing: no job has died of it.
        UsageError: this is no signature, or several begin so.
    """
    try:
        return await group_of(jobs, signature)
    except Missing:
        found = await jobs.signatures.died_of(signature)
        if len(found) > 1:
            raise UsageError(f"several signatures begin with '{signature}': {', '.join(list(found)[:4])}") from None
        if not found:
            raise
        return (await jobs.signatures.known(next(iter(found))))[0]


def add_show_arguments(verb: Parser) -> None:
    """Declare the argument."""
    verb.add_argument("signature", metavar="SIG", help="its first digits")


def run_show(options: argparse.Namespace, output: Output) -> int:
    """Show a signature with its breakdown."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        group = await known_group_of(jobs, options.signature)
        found = await jobs.breakdown(group.signature)
        state = (await jobs.signatures.states([group], _WINDOW))[group.signature]
        if output.as_json:
            output.json({"group": group_body(group, state), "breakdown": found})
        else:
            show_facts(output, (*of_group(group, "15m"), *of_state(state)))
            if group.count:
                show_breakdown(output, found)
            else:
                output.line("none of its jobs is dead any more")
        return DONE

    return connected(options, output, run)


def show_breakdown(output: Output, found: Breakdown) -> None:
    """Write the shares as a table, and what they are of."""
    from jobconsole.present.breakdown import no_fields, notes, percent, share_rows

    output.line()
    rows = share_rows(found)
    cells = [(("payload." if row.field and row.label else "") + row.label, row) for row in rows]
    output.table(
        SHARES, [(name, row.value, percent(row.dead), percent(row.completed), row.where) for name, row in cells]
    )
    if not found.fields:
        output.line(no_fields(found))
    for line in notes(found):
        output.line(line)


def add_compare_arguments(verb: Parser, what: str) -> None:
    """Declare the arguments; `what` is compared: SIG or ID."""
    verb.add_argument("what", metavar=what, help="the newest job of this signature" if what == "SIG" else "a job")
    verb.add_argument(
        "--back", type=whole(0, 49), default=0, metavar="N", help="with the completed job N places before the last one"
    )
    verb.add_argument("--equal", action="store_true", help="show the fields that are equal, too")


def run_compare_signature(options: argparse.Namespace, output: Output) -> int:
    """Compare the newest job of a signature."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        group = await group_of(jobs, options.what)
        return _show(output, await jobs.compare(group.sample_id, back=options.back), options.equal)

    return connected(options, output, run)


def run_compare_job(options: argparse.Namespace, output: Output) -> int:
    """Compare a job."""
    named = canonical(options.what)

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        return _show(output, await jobs.compare(await find_id(jobs, named), back=options.back), options.equal)

    return connected(options, output, run)


def _show(output: Output, found: Comparison, equal: bool) -> int:
    completed = found.completed
    if output.as_json:
        bodies = {"failing": job_body(found.failing), "completed": None if completed is None else job_body(completed)}
        fields = found.fields if equal else found.different
        body = {**bodies, "fields": fields, "equal": found.equal, "older": found.older, "contrasts": found.contrasts}
        body |= {"contrasted": found.contrasted, "contrasted_completed": found.contrasted_completed}
        output.json(body)
        return DONE
    show_facts(output, (
        Fact("failing", found.failing.id), Fact("died", ended_at(found.failing)), Fact("on", found.failing.worker),
        Fact("completed", "" if completed is None else completed.id),
        Fact("at", None if completed is None else completed.updated_at),
        Fact("by", None if completed is None else completed.worker), Fact("type", found.failing.type),
    ))  # fmt: skip
    if completed is None:
        output.line("none of the newest 20,000 completed jobs is of this type: there is nothing to compare with")
        return DONE
    output.line()
    shown = found.fields if equal else found.different
    if shown:
        output.table(
            COMPARED, [(one.sign, one.path, one.failing or "absent", one.completed or "absent") for one in shown]
        )
    else:
        output.line("the payloads are equal" if found.fields else "no fields to compare: a payload is no JSON object")
    if found.equal and not equal:
        output.line(f"{found.equal} equal; --equal shows them")
    from jobconsole.present.breakdown import contrast_sentence

    if best := contrast_sentence(found):
        output.line(best)
    return DONE
