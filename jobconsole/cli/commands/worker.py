"""`jobconsole worker`: list, quiet, resume and stop workers; run them with `worker run`."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, Missing, Unreachable, UsageError, check_terminal, confirm
from jobconsole.cli.immediate import in_turn, record, report_dry_run
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_change, add_verbs, duration, port, positive, size, whole
from jobconsole.cli.reload import GRACE, watch
from jobconsole.cli.rollout import queue
from jobconsole.cli.selection import NAMED_IDS
from jobconsole.cli.session import connected, settings_of, start_log
from jobconsole.cli.tables import WORKERS, show_table, worker_body
from jobconsole.format.humanize import plural
from jobconsole.format.words import LEAST_PREFIX
from jobconsole.present.facts import of_worker
from queue_core.errors import ConfigurationError, ReadOnly
from queue_core.model.text import safe
from queue_core.variables import PROGRAMS

if TYPE_CHECKING:
    from queue_core.model.operation import WorkerOrder
    from queue_core.queue import JobQueue
    from queue_core.worker.supervisor import Service

logger = logging.getLogger("queue_core.worker")

LONGEST_VARIABLE = (128 << 10) - 100
"""Bytes of a value; Linux passes 128 KiB with the name, and more than a thousand queues may have rules."""


def add_run_arguments(verb: Parser) -> None:
    """Declare the options."""
    verb.add_argument("target", metavar="MODULE:NAME", help="the JobQueue object, as in package.module:jobs")
    verb.add_argument("--processes", type=whole(1, 1000), default=1, metavar="N", help="(default 1)")
    verb.add_argument(
        "--concurrency", type=whole(1, 10_000), default=100, metavar="N", help="per process (default 100)"
    )
    verb.add_argument(
        "--queues", type=_queues, default=(), metavar="A,B", help="only these (default: the queues of the tasks)"
    )
    verb.add_argument("--lease", type=positive, metavar="T", help="(default: jobs.defaults.lease, 5m)")
    verb.add_argument("--heartbeat", type=positive, metavar="T", help="(default: jobs.defaults.heartbeat, 1m)")
    verb.add_argument("--max-jobs", type=whole(1, 10**12), metavar="N", help="replace a process after so many jobs")
    verb.add_argument("--max-memory", type=size, metavar="SIZE", help="replace a process over so much, as 512MiB")
    verb.add_argument(
        "--health-port", type=port, metavar="N", help="serve probes and this service's metrics (0: a free one)"
    )
    verb.add_argument("--health-host", default="127.0.0.1", metavar="ADDRESS", help="there (default 127.0.0.1)")
    verb.add_argument("--grace", type=duration, default=30.0, metavar="T", help="to finish jobs after SIGTERM (30s)")
    verb.add_argument(
        "--reload", action="store_true", help="for development: replace the processes when Python files change"
    )


def _queues(text: str) -> tuple[str, ...]:
    return tuple(queue(name) for name in text.split(","))


def run_workers(options: argparse.Namespace, output: Output) -> int:
    """Run the service until SIGTERM or Ctrl+C; a second one stops the jobs.

    Raises:
        ConfigurationError, ReadOnly: it cannot start.
    """
    settings = settings_of(options)
    if settings.read_only:
        raise ReadOnly("worker run")
    if settings.handed_down is not None:
        _hand_down(settings.handed_down)
    from queue_core.worker.options import ServiceOptions
    from queue_core.worker.supervisor import Service

    log_format, log_level = start_log(options)
    how = ServiceOptions(
        processes=options.processes,
        concurrency=options.concurrency,
        queues=options.queues,
        lease=options.lease,
        heartbeat=options.heartbeat,
        grace=min(options.grace, GRACE) if options.reload else options.grace,
        max_jobs=options.max_jobs,
        max_memory=options.max_memory,
        log_format=log_format,
        log_level=log_level,
    )
    service = Service(options.target, how, watch=watch if options.reload else None)
    if options.health_port is None:
        return service.run()
    return _run_with_health(service, options.health_host, options.health_port)


def _run_with_health(service: Service, host: str, number: int) -> int:
    """Run a service and serve its health meanwhile.

    Raises:
        Unreachable: the port is in use, or the address is not of this machine.
    """
    from jobconsole.web.http import why_not_listening
    from jobconsole.web.service import HealthPort

    health = HealthPort(service, host, number)
    try:
        bound = health.start()
    except (OSError, ValueError) as error:
        raise Unreachable(f"cannot listen on {host}:{number}: {why_not_listening(error)}") from None
    logger.info("health: http://%s:%d/healthz", host, bound)
    try:
        return service.run()
    finally:
        health.stop()


def _hand_down(variables: Mapping[str, str]) -> None:
    """Put the settings into the environment: that is where a target's `JobQueue.from_settings()` finds them.

    Not as arguments of the processes, which every user of the machine can read; an address may hold a password.

    Raises:
        ConfigurationError: a variable is longer than the system passes to a process.
    """
    for name, value in variables.items():
        if len(os.fsencode(value)) > LONGEST_VARIABLE:
            raise ConfigurationError(f"{name} is too long for a variable of the environment; write it into jobs.yaml")
    for name in filter(PROGRAMS.reads, list(os.environ)):
        del os.environ[name]
    os.environ.update(variables)


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_list, "list worker processes")
    add_run_arguments(add("run", run_workers, "run workers until SIGTERM, which lets them finish their jobs"))
    _add_order(add("quiet", run_quiet, "let workers finish their jobs and claim no others"))
    _add_order(add("resume", run_resume, "let quiet workers claim again"))
    _add_order(add("stop", run_stop, "let workers finish their jobs and end"), destructive=True)


def _add_order(verb: Parser, destructive: bool = False) -> None:
    verb.add_argument("ids", nargs="+", metavar="WORKER", help="as 'worker list' names them, or the beginning of one")
    add_change(verb, destructive)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List workers."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        overview = await jobs.inspector.overview()
        if output.as_json:
            output.json({"now": overview.now, "workers": [worker_body(worker) for worker in overview.workers]})
        else:
            show_table(output, WORKERS, map(of_worker, overview.workers))
        return DONE

    return connected(options, output, run)


def run_quiet(options: argparse.Namespace, output: Output) -> int:
    """Order workers to be quiet."""
    return _order(options, output, "quiet")


def run_resume(options: argparse.Namespace, output: Output) -> int:
    """Order workers to claim again."""
    return _order(options, output, "resume")


def run_stop(options: argparse.Namespace, output: Output) -> int:
    """Order workers to end."""
    return _order(options, output, "stop")


def _order(options: argparse.Namespace, output: Output, order: WorkerOrder) -> int:
    asks = order == "stop" and not (options.yes or options.dry_run)
    if asks:
        check_terminal("stop workers")

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        ids = await _find(jobs, options.ids)
        if options.dry_run:
            return report_dry_run(output, order, ids)
        if asks:
            confirm(f"stop {plural(len(ids), 'worker')}")
        ordered, error = await in_turn(
            ids,
            lambda one: record(jobs, options, order, f"worker {one}", partial(jobs.operations.command, one, order)),
        )
        if output.as_json:
            output.json({"order": order, "workers": list(ordered)})
        elif ordered:
            output.line(f"{order}: {plural(len(ordered), 'worker')} will hear of it with the next heartbeat")
        if error is not None:
            raise error
        return DONE

    return connected(options, output, run, "" if options.dry_run else f"worker {order}")


async def _find(jobs: JobQueue, given: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of these workers, each once: given whole, or by a beginning that only one has."""
    known = sorted(worker.id for worker in (await jobs.inspector.overview()).workers)
    found: dict[str, None] = {}
    for part in given:
        several = [one for one in known if len(part) >= LEAST_PREFIX and one.startswith(part)]
        fitting = [part] if part in known else several
        if not fitting:
            raise Missing(f"no worker with id {safe(part, 200)}; 'jobconsole worker list' shows them")
        if len(fitting) > 1:
            named = ", ".join(safe(one, 200) for one in fitting[:NAMED_IDS])
            some = " and others" if len(fitting) > NAMED_IDS else ""
            raise UsageError(f"'{safe(part, 200)}' is part of several ids: {named}{some}")
        found[fitting[0]] = None
    return tuple(found)
