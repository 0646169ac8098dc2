"""`jobconsole doctor`: check the servers, the schema, the workers and the queues."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, FAILED
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals
from jobconsole.cli.session import queue_of, settings_of
from jobconsole.core.checks import (
    Check,
    check_operations,
    check_pairing,
    check_postgres,
    check_sqlite,
    check_work,
    unreachable,
    worst,
)
from jobconsole.core.redischecks import check_redis, check_redis_store
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.delivery.pairing import Pairing
    from queue_core.queue import JobQueue

_OPERATIONS = 1000
"""Unfinished operations that are looked at."""
_LINES = 6
"""Lines that one finding has at most, without its advice."""
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Check everything that can be checked; what does not answer is a finding, not an error."""
    settings = settings_of(options)

    async def look() -> list[Check]:
        jobs = queue_of(settings)
        try:
            store, delivery = await asyncio.gather(_store(jobs), _delivery(jobs))
            return [*store, *delivery]
        finally:
            await jobs.close()

    checks = asyncio.run(look())
    if output.as_json:
        output.json({"result": worst(checks), "checks": checks})
    else:
        _show(output, checks)
    return FAILED if worst(checks) == "fail" else DONE


_STORES = {"sqlite": check_sqlite, "redis": check_redis_store}


async def _store(jobs: JobQueue) -> list[Check]:
    from queue_core.errors import ConfigurationError, QueueCoreError

    name = jobs.store.name
    checks: list[Check] = []
    try:
        facts = await jobs.inspector.facts()
        checks = [Check(name, "ok", "answers"), *_STORES.get(name, check_postgres)(facts)]
        if facts["schema"] != facts["schema_known"]:
            return checks
        overview, operations = await jobs.inspector.overview(), await jobs.operations.find(_OPERATIONS, unfinished=True)
        return [*checks, *check_work(overview), check_operations(operations, overview)]
    except ConfigurationError:
        raise
    except (QueueCoreError, OSError) as error:
        # What was found before may say why.
        return [unreachable(name, str(error)), *checks[1:]]


async def _delivery(jobs: JobQueue) -> list[Check]:
    from queue_core.dispatch import DispatchUnavailable

    if jobs.dispatcher is None or not jobs.settings.mode.endswith("+redis"):
        return [] if jobs.pairing is None else [one for one in await _pairing(jobs.pairing) if one.level != "ok"]
    checks: list[Check] = []
    try:
        checks = [Check("redis", "ok", "answers"), *check_redis(await jobs.dispatcher.facts())]
        return checks if jobs.pairing is None else [*checks, *await _pairing(jobs.pairing)]
    except (DispatchUnavailable, OSError) as error:
        return [unreachable("redis", str(error)), *checks[1:]]


async def _pairing(pairing: Pairing) -> list[Check]:
    from queue_core.errors import QueueCoreError

    try:
        await pairing.look(change=False)
    except QueueCoreError:
        return []  # the database has its own finding
    return [check_pairing(pairing.reason, pairing.doubtful)]


def _show(output: Output, checks: list[Check]) -> None:
    widest = max(len(check.name) for check in checks)
    for check in checks:
        word = output.paint(f"{check.level:<4}", _COLOURS[check.level])
        first, *more = check.said.split("\n")[:_LINES]
        output.line(f"{word}  {check.name:<{widest}}  {safe(first, 400)}")
        for line in more:
            output.line(f"{'':<4}  {'':<{widest}}  {safe(line, 400)}")
        if check.advice:
            output.line(f"{'':<4}  {'':<{widest}}  -> {safe(check.advice, 400)}")
    counts = {level: sum(1 for check in checks if check.level == level) for level in _COLOURS}
    output.line(f"{counts['ok']} ok, {counts['warn']} to look at, {counts['fail']} failed")
