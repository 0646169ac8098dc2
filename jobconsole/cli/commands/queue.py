"""`jobconsole queue`: list, pause, resume and drain queues."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from jobconsole.cli.change import confirm_new_queue
from jobconsole.cli.failures import DONE, FAILED, Missing, note, progress, warn
from jobconsole.cli.immediate import switch_each
from jobconsole.cli.output import Output, TextColumn
from jobconsole.cli.parser import Parser, add_change, add_verbs
from jobconsole.cli.rollout import queue
from jobconsole.cli.selection import check_queue
from jobconsole.cli.session import connected
from jobconsole.cli.tables import QUEUES, operation_body, outcome, queue_body, show_table, state_of_progress
from jobconsole.format.humanize import plural
from jobconsole.present.facts import moment, of_queue
from queue_core.model.text import safe
from queue_core.model.triage.rules import runbook_in

if TYPE_CHECKING:
    from queue_core.model.operation import Operation
    from queue_core.model.report import Overview, QueueInfo, TypeInfo
    from queue_core.queue import JobQueue


def add_queue_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_queue_list, "list queues with their depth")
    pause = add("pause", run_pause, "let no worker claim from queues")
    pause.add_argument("names", nargs="+", metavar="QUEUE")
    add_change(pause)
    resume = add("resume", run_resume, "let workers claim from queues again, and open closed ones")
    resume.add_argument("names", nargs="+", metavar="QUEUE")
    add_change(resume)
    drain = add("drain", run_drain, "close a queue to new jobs, and follow it until it is empty")
    drain.add_argument("name", metavar="QUEUE")
    drain.add_argument("--move-to", type=queue, metavar="Q", help="move what waits to this queue")
    drain.add_argument("--detach", action="store_true", help="print the operation's number, and do not follow it")
    add_change(drain, destructive=True)


def run_queue_list(options: argparse.Namespace, output: Output) -> int:
    """List queues."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        overview = await jobs.inspector.overview()
        if output.as_json:
            orphans = overview.orphaned_types
            queues = [queue_body(one) for one in overview.queues]
            output.json({"now": overview.now, "queues": queues, "types_without_worker": orphans})
        else:
            show_table(output, QUEUES, (of_queue(one, overview.now) for one in overview.queues))
        return DONE

    return connected(options, output, run)


def run_pause(options: argparse.Namespace, output: Output) -> int:
    """Pause queues."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        return await _each(jobs, options, output, jobs.operations.pause_queue)

    return connected(options, output, run, "" if options.dry_run else "queue pause")


def run_resume(options: argparse.Namespace, output: Output) -> int:
    """Resume queues."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        return await _each(jobs, options, output, jobs.operations.resume_queue)

    return connected(options, output, run, "" if options.dry_run else "queue resume")


def run_drain(options: argparse.Namespace, output: Output) -> int:
    """Drain a queue."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        from queue_core.client.operating.drain import check_moved

        await check_queue(jobs, options.name)
        check_moved(options.name, options.move_to)
        overview = await jobs.inspector.overview()
        (line,) = [one for one in overview.queues if one.name == options.name]
        if options.dry_run:
            return _report_dry_drain(output, options, line)
        if options.move_to and not options.yes:
            await confirm_new_queue(jobs, f"move what waits in '{safe(options.name, 200)}'", options.move_to)
        left = line.running if options.move_to else line.running + line.pending
        if left and not any(options.name in one.queues and not one.lost for one in overview.workers):
            stay = plural(left, "job stays", "jobs stay")
            warn(f"no live worker takes jobs from '{options.name}': {stay} in it until one does")
        operation = await _closed(jobs, options)
        if not options.detach:
            operation = await _drained(jobs, options.name, operation)
        if output.as_json:
            output.json({"operation": operation_body(operation)})
        else:
            output.line(str(operation.number) if options.detach else outcome(operation))
        return DONE if options.detach or operation.state == "done" else FAILED

    return connected(options, output, run, "" if options.dry_run else "queue drain")


async def _closed(jobs: JobQueue, options: argparse.Namespace) -> Operation:
    """Close the queue and begin to drain it."""
    try:
        return await jobs.operations.drain_queue(options.name, options.move_to, why=options.why)
    except asyncio.CancelledError:
        note(f"'{options.name}' may be closed by now; 'jobconsole op list' shows its drain then, 'op undo' opens it")
        raise


async def _drained(jobs: JobQueue, name: str, operation: Operation) -> Operation:
    """Follow a drain to its end, and carry its move out here; the queue stays closed when this is interrupted."""
    from queue_core.client.operating.drain import is_move_of

    number = operation.number

    def show(operation: Operation) -> None:
        if operation.number == number:
            progress(state_of_progress(operation))

    try:
        moves = [
            one.number for one in await jobs.operations.list_operations(unfinished=True) if is_move_of(one, number)
        ]
        return (await asyncio.gather(*(jobs.operations.run(one, show) for one in (number, *moves))))[0]
    except asyncio.CancelledError:
        note(f"'{name}' stays closed, and workers go on; 'jobconsole op undo {number}' opens it")
        raise
    finally:
        progress("")


def _report_dry_drain(output: Output, options: argparse.Namespace, line: QueueInfo) -> int:
    left, to = line.pending + line.running, options.move_to
    if output.as_json:
        output.json({"dry_run": True, "verb": "drain", "matched": left, "names": [options.name], "move_to": to})
        return DONE
    moved = f", {plural(line.pending, 'job')} would move to {safe(to, 200)}" if to else ""
    output.line(f"would drain {safe(options.name, 200)}: {plural(left, 'job')} to go{moved}")
    return DONE


async def _each(
    jobs: JobQueue, options: argparse.Namespace, output: Output, act: Callable[[str], Awaitable[bool]]
) -> int:
    for name in options.names:
        # All names first: a mistyped one must not leave half of the work done.
        await check_queue(jobs, name)
    return await switch_each(jobs, options, output, "queue", list(dict.fromkeys(options.names)), act)


_LONGEST_SCHEMA = 100_000
"""Characters of a schema that `show` prints; --json has all of it."""

TYPES = (
    TextColumn("TYPE", limit=60),
    TextColumn("WORKERS", "right"),
    TextColumn("ANNOUNCED"),
    TextColumn("PARAMETERS", limit=200),
)


def add_type_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_type_list, "list the types that workers announced, with their live workers and parameters")
    show = add("show", run_show, "the JSON Schema of a type's payloads")
    show.add_argument("name", metavar="TYPE")


def run_type_list(options: argparse.Namespace, output: Output) -> int:
    """List types."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        types, overview = await jobs.inspector.types(), await jobs.inspector.overview()
        rows = [(info, _workers(overview, info.name)) for _, info in sorted(types.items())]
        if output.as_json:
            output.json({"types": [_body(info, workers) for info, workers in rows]})
        else:
            cells = [(info.name, workers, moment(info.announced_at), _parameters(info)) for info, workers in rows]
            output.table(TYPES, cells)
        return DONE

    return connected(options, output, run)


def run_show(options: argparse.Namespace, output: Output) -> int:
    """Show one type."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        info = (await jobs.inspector.types()).get(options.name)
        if info is None:
            raise Missing(f"no worker announced the type '{options.name}'; 'jobconsole type list' shows them")
        if output.as_json:
            output.json({"type": _body(info, _workers(await jobs.inspector.overview(), info.name))})
        else:
            text = json.dumps(info.schema, indent=2, ensure_ascii=False)
            output.line(safe(text, _LONGEST_SCHEMA, newlines=True))
        return DONE

    return connected(options, output, run)


def _workers(overview: Overview, name: str) -> int:
    return sum(name in (worker.types or ()) for worker in overview.workers if not worker.lost)


def _body(info: TypeInfo, workers: int) -> dict[str, Any]:
    return {
        "name": info.name,
        "announced_at": info.announced_at,
        "workers": workers,
        "schema": info.schema,
        "runbook": runbook_in(info.schema) or None,
    }


def _parameters(info: TypeInfo) -> str:
    """Return the names of a type's parameters; those that may be left out with a question mark."""
    properties, required = info.schema.get("properties"), info.schema.get("required")
    names = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    return ", ".join(name if name in needed else f"{name}?" for name in names)
