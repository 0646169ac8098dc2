"""`jobconsole worker run`: a service of worker processes for one queue object."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Literal

from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, duration, positive, whole
from jobconsole.cli.session import settings_of
from queue_core.errors import ReadOnly
from queue_core.units import parse_size

_VARIABLES = {
    "context": "JOBCONSOLE_CONTEXT",
    "postgres_url": "JOBCONSOLE_JOBS__POSTGRES__URL",
    "redis_url": "JOBCONSOLE_JOBS__REDIS__URL",
    "prefix": "JOBCONSOLE_JOBS__REDIS__PREFIX",
}


def add_arguments(verb: Parser) -> None:
    """Declare the options."""
    verb.add_argument("target", metavar="MODULE:NAME", help="the JobQueue object, as in package.module:jobs")
    verb.add_argument("--processes", type=whole(1, 1000), default=1, metavar="N", help="(default 1)")
    verb.add_argument(
        "--concurrency", type=whole(1, 10_000), default=100, metavar="N", help="per process (default 100)"
    )
    verb.add_argument("--queues", metavar="A,B", help="only these (default: the queues of the tasks)")
    verb.add_argument("--lease", type=positive, metavar="T", help="(default: jobs.defaults.lease, 5m)")
    verb.add_argument("--heartbeat", type=positive, metavar="T", help="(default: jobs.defaults.heartbeat, 1m)")
    verb.add_argument("--max-jobs", type=whole(1, 10**12), metavar="N", help="replace a process after so many jobs")
    verb.add_argument("--max-memory", type=_size, metavar="SIZE", help="replace a process over so much, as 512MiB")
    verb.add_argument("--grace", type=duration, default=30.0, metavar="T", help="to finish jobs after SIGTERM (30s)")


def _size(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if size < 16 << 20:
        raise argparse.ArgumentTypeError(f"'{text}' is less than a process needs to start (16MiB)")
    return size


def run(options: argparse.Namespace, output: Output) -> int:
    """Run the service until SIGTERM or Ctrl+C; a second one stops the jobs.

    Raises:
        ConfigurationError, ReadOnly: it cannot start.
    """
    if settings_of(options).read_only:
        raise ReadOnly("worker run")
    _hand_down(options)
    from queue_core.worker.options import ServiceOptions, setup_logging
    from queue_core.worker.service import supervise

    log_format: Literal["text", "json"] = getattr(options, "log_format", "text")
    setup_logging(log_format)
    how = ServiceOptions(
        processes=options.processes,
        concurrency=options.concurrency,
        queues=tuple(name for name in (options.queues or "").split(",") if name),
        lease=options.lease,
        heartbeat=options.heartbeat,
        grace=options.grace,
        max_jobs=options.max_jobs,
        max_memory=options.max_memory,
        log_format=log_format,
    )
    return supervise(options.target, how)


def _hand_down(options: argparse.Namespace) -> None:
    """Put the global options into the environment: that is where a target's `JobQueue.from_settings()` finds them.

    Not as arguments of the processes, which every user of the machine can read; an address may hold a password.
    """
    for name, variable in _VARIABLES.items():
        value = getattr(options, name, None)
        if value is not None:
            os.environ[variable] = value
    if getattr(options, "config", None) is not None:
        os.environ["JOBCONSOLE_CONFIG"] = str(Path(options.config).resolve())
