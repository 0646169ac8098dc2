"""`jobconsole dlq`: the dead-letter queue, by error signature and job by job."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jobconsole.cli.change import add_verb
from jobconsole.cli.commands import causes, review
from jobconsole.cli.commands.job import add_list, list_jobs
from jobconsole.cli.failures import DONE, CommandError, Refused, UsageError, note, progress
from jobconsole.cli.filters import add_verbs_on_filters
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_verbs, positive, whole
from jobconsole.cli.selection import (
    add_filters,
    add_selection,
    check_queue,
    check_signature,
    filter_of,
    find_ids,
    hint_names,
    search,
    search_body,
    selection_of,
)
from jobconsole.cli.session import connected, ending_signals
from jobconsole.cli.signatures import add_verbs_on_one
from jobconsole.cli.tables import GROUPS, group_body, show_table
from jobconsole.format.humanize import plural
from jobconsole.present.facts import Fact, Facts, of_group
from jobconsole.present.signature import since_mark, state_word

if TYPE_CHECKING:
    from jobconsole.actions.export import ExportOptions
    from queue_core.model.triage.signatures import SignatureState
    from queue_core.queue import JobQueue


def add_export_arguments(verb: Parser) -> None:
    """Declare the options."""
    add_selection(verb)
    verb.add_argument("--trash", action="store_true", help="what is in the trash instead")
    verb.add_argument("--format", choices=("csv", "jsonl"), metavar="csv|jsonl", help="(default: the file's, or jsonl)")
    verb.add_argument("--output", metavar="FILE", help="a new file (default, and -: standard output)")
    verb.add_argument("--tracebacks", action="store_true", help="with tracebacks: one more read for each job")
    verb.add_argument("--limit", type=whole(1, 10**9), metavar="N", help="at most N jobs")
    verb.add_argument("--dry-run", action="store_true", help="only say how many it would be")


def run_export(options: argparse.Namespace, output: Output) -> int:
    """Export what the options choose.

    Raises:
        UsageError, Refused, CommandError: nothing was written.
        StoreUnavailable: there is no file; standard output has what was read before.
    """
    from jobconsole.actions.export import ExportOptions
    from jobconsole.actions.plan import Target

    options.output = None if options.output == "-" else options.output
    if output.as_json and options.output is None and not options.dry_run:
        raise UsageError("--json reports what was written, so the jobs need a place of their own: give --output FILE")
    chosen = selection_of(options, "status:dead", *(["trash:yes"] if options.trash else []))
    wheres = () if chosen.where is None else (chosen.where,)

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        await check_signature(jobs, options.signature)
        await search(jobs, options, chosen.where)
        target = Target("command line", await find_ids(jobs, chosen.ids), wheres)
        export_options = ExportOptions(target, _format(options), options.tracebacks, options.limit)
        if options.dry_run:
            number = await _dry_run(jobs, output, export_options)
        else:
            number = await _write(jobs, options, output, export_options)
        if not number:
            await hint_names(jobs, chosen.where)
        return DONE

    with ending_signals():
        return connected(options, output, run)


def _format(options: argparse.Namespace) -> Literal["csv", "jsonl"]:
    if options.format is not None:
        return "csv" if options.format == "csv" else "jsonl"
    return "csv" if str(options.output or "").lower().endswith(".csv") else "jsonl"


async def _dry_run(jobs: JobQueue, output: Output, export_options: ExportOptions) -> int:
    from jobconsole.actions.plan import FREEZE_LIMIT

    number = len(export_options.target.ids) + sum(
        [await jobs.inspector.count(one, FREEZE_LIMIT) for one in export_options.target.wheres]
    )
    number = number if export_options.limit is None else min(number, export_options.limit)
    if output.as_json:
        output.json({"dry_run": True, "matched": number, "format": export_options.format})
    else:
        output.line(f"would write {plural(number, 'job')} as {export_options.format}")
    return number


async def _write(jobs: JobQueue, options: argparse.Namespace, output: Output, export_options: ExportOptions) -> int:
    from jobconsole.actions.export import export, export_file

    def show(number: int) -> None:
        progress(f"{number:,} written")

    try:
        if options.output is None:
            number = await export(jobs.inspector, export_options, output, show)
        else:
            number = await export_file(jobs.inspector, export_options, Path(options.output), show)
    except FileExistsError:
        raise Refused(f"'{options.output}' is there already and was left as it is; name a new file") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"cannot write '{options.output}': {error.strerror}") from None
    finally:
        progress("")
    output.flush()  # what standard output does not take is not written
    if output.as_json:
        output.json({"written": number, "format": export_options.format, "file": options.output})
    else:
        note(f"wrote {plural(number, 'job')}" + (f" to {options.output}" if options.output else ""))
    return number


_SLICES = 8
_LOOKED_AT = 500
"""Signatures whose states are read, at least, as many as the console shows."""


def _in_columns(state: SignatureState) -> Facts:
    owner = Fact("owner", state.owner)
    return (Fact("state", state_word(state)), owner, Fact("since", since_mark(state)))


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    groups = add("groups", run_groups, "dead jobs by error signature: new and regressed first, then by growth")
    add_filters(groups)
    groups.add_argument("--window", type=positive, default=900.0, metavar="T", help="of the growth (default 15m)")
    groups.add_argument("--limit", type=whole(1, 10_000), default=50, metavar="N", help="at most N (default 50)")
    causes.add_show_arguments(add("show", causes.run_show, "one signature: what its jobs have in common"))
    compared = "the newest payload of a signature beside the last one that succeeded"
    causes.add_compare_arguments(add("compare", causes.run_compare_signature, compared), "SIG")
    add_verbs_on_one(add)
    listed = add("list", run_list, "list dead jobs, the newest first")
    add_list(listed)
    listed.add_argument("--trash", action="store_true", help="list the trash instead")
    add_verb(add, "retry")
    add_verb(add, "move", summary="move dead jobs to another queue or priority", narrowed=("status:dead",))
    add_verb(add, "delete")
    add_verb(add, "restore")
    review.add_arguments(add("review", review.run, "one dead job after another: retry, delete or skip it"))
    add_export_arguments(add("export", run_export, "write dead jobs out as CSV or JSON Lines"))
    add_verb(add, "purge")


def add_filter_arguments(parser: Parser) -> None:
    """Declare the verbs of saved filters."""
    add_verbs_on_filters(parser)


def run_groups(options: argparse.Namespace, output: Output) -> int:
    """List error signatures."""
    where = filter_of(options, "status:dead")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await check_queue(jobs, options.queue)
        searched = await search(jobs, options, where)
        # The store sorts them by growth: what is new or back may be behind those that grow faster. One more than is
        # looked at shows whether there are more.
        most = max(options.limit, _LOOKED_AT)
        found = await jobs.inspector.signatures(where, options.window, _SLICES, most + 1)
        more, at_least = len(found) - options.limit, "at least " if len(found) > most else ""
        found = found[:most]
        if not found:
            await check_signature(jobs, options.signature)
            await hint_names(jobs, where)
        states = await jobs.signatures.states(found, options.window)
        groups = sorted(found, key=lambda one: states[one.signature].place)[: options.limit]
        if output.as_json:
            bodies = [group_body(group, states[group.signature]) for group in groups]
            output.json({"window": options.window, "groups": bodies, "more": more > 0} | search_body(searched))
            return DONE
        show_table(output, GROUPS, ((*of_group(one), *_in_columns(states[one.signature])) for one in groups))
        if more > 0:
            note(f"{at_least}{more} more with a greater --limit")
        return DONE

    return connected(options, output, run)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List dead jobs."""
    trash = ["trash:yes"] if options.trash else []
    return list_jobs(options, output, filter_of(options, "status:dead", *trash))
