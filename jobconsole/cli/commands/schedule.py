"""`jobconsole schedule`: list, trigger, pause, resume and remove schedules."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from jobconsole.cli.failures import DONE, check_terminal, confirm
from jobconsole.cli.immediate import in_turn, record, report_dry_run, report_switched, switch_each
from jobconsole.cli.output import Output, TextColumn
from jobconsole.cli.parser import Parser, add_change, add_verbs
from jobconsole.cli.session import connected
from jobconsole.cli.tables import show_table
from jobconsole.core.schedules import moment_at, state_of
from jobconsole.format.humanize import plural
from jobconsole.present.facts import of_schedule

if TYPE_CHECKING:
    from queue_core.client.results import JobHandle
    from queue_core.model.schedule import Planned
    from queue_core.queue import JobQueue


SCHEDULES = (
    TextColumn("NAME", limit=60),
    TextColumn("CRON", limit=40),
    TextColumn("ZONE", limit=40),
    TextColumn("STATE"),
    TextColumn("NEXT"),
    TextColumn("LAST"),
    TextColumn("TYPE", limit=60),
    TextColumn("QUEUE", limit=60),
)


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_list, "list schedules with their next and last ticks")
    trigger = add("trigger", run_trigger, "enqueue the job of a schedule now; its next tick stays as it is")
    trigger.add_argument("name", metavar="SCHEDULE")
    add_change(trigger)
    _add_names(add("pause", run_pause, "let the ticks of schedules pass without a job"))
    _add_names(add("resume", run_resume, "let schedules tick again, from now on"))
    remove = add("remove", run_remove, "forget schedules; a worker that still has them announces them when it starts")
    _add_names(remove, destructive=True)


def _add_names(verb: Parser, destructive: bool = False) -> None:
    verb.add_argument("names", nargs="+", metavar="SCHEDULE", help="as 'schedule list' names them")
    add_change(verb, destructive)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List schedules."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        now, schedules = await jobs.schedules.list()
        if output.as_json:
            output.json({"now": moment_at(now), "schedules": [_body(planned, now) for planned in schedules]})
        else:
            show_table(output, SCHEDULES, (of_schedule(planned, now) for planned in schedules))
        return DONE

    return connected(options, output, run)


def run_trigger(options: argparse.Namespace, output: Output) -> int:
    """Enqueue the job of a schedule."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        await jobs.schedules.get(options.name)
        if options.dry_run:
            return report_dry_run(output, "trigger", [options.name])
        handle = await _triggered(jobs, options)
        output.note_change(f"job {handle.id} was enqueued")
        if output.as_json:
            output.json({"schedule": options.name, "id": handle.id, "queue": handle.queue, "type": handle.type})
        else:
            output.line(handle.id)
        return DONE

    return connected(options, output, run, "" if options.dry_run else "schedule trigger")


async def _triggered(jobs: JobQueue, options: argparse.Namespace) -> JobHandle[Any]:
    handles: list[JobHandle[Any]] = []

    async def act() -> str:
        handles.append(await jobs.schedules.trigger(options.name))
        return f"enqueued job {handles[0].id}"

    await record(jobs, options, "trigger", f"schedule {options.name}", act)
    return handles[0]


def run_pause(options: argparse.Namespace, output: Output) -> int:
    """Pause schedules."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        names = await _checked(jobs, options)
        return await switch_each(jobs, options, output, "schedule", names, jobs.schedules.pause)

    return connected(options, output, run, "" if options.dry_run else "schedule pause")


def run_resume(options: argparse.Namespace, output: Output) -> int:
    """Resume schedules."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        return await switch_each(
            jobs, options, output, "schedule", await _checked(jobs, options), jobs.schedules.resume
        )

    return connected(options, output, run, "" if options.dry_run else "schedule resume")


def run_remove(options: argparse.Namespace, output: Output) -> int:
    """Remove schedules."""
    asks = not (options.yes or options.dry_run)
    if asks:
        check_terminal("remove schedules")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        names = await _checked(jobs, options)
        if options.dry_run:
            return report_dry_run(output, "remove", names)
        if asks:
            confirm(f"remove {plural(len(names), 'schedule')}")
        gone, error = await in_turn(
            names,
            lambda name: record(jobs, options, "remove", f"schedule {name}", partial(jobs.schedules.remove, name)),
        )
        report_switched(output, "schedule", options.verb, dict.fromkeys(gone, True))
        if error is not None:
            raise error
        return DONE

    return connected(options, output, run, "" if options.dry_run else "schedule remove")


async def _checked(jobs: JobQueue, options: argparse.Namespace) -> list[str]:
    """Return the names, each once, all of them known: a mistyped one must not leave half of the work done."""
    names = list(dict.fromkeys(options.names))
    for name in names:
        await jobs.schedules.get(name)
    return names


def _body(planned: Planned, now: float) -> dict[str, Any]:
    return planned.schedule._asdict() | {
        "state": state_of(planned, now),
        "paused": planned.paused,
        "next_tick": None if planned.paused else moment_at(planned.next_at),
        "last_tick": moment_at(planned.last_at),
        "last_job": planned.last_job,
    }
