"""`jobconsole doctor`: check the servers, the schema, the workers and the queues."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, FAILED, warn
from jobconsole.cli.output import Output
from jobconsole.cli.root import Parser, add_change, add_globals
from jobconsole.cli.session import postgres_url, queue_of, settings_of
from jobconsole.core.checks import (
    SECOND_STORE,
    SECOND_STORE_ADVICE,
    Check,
    check_operations,
    check_pairing,
    check_postgres,
    check_sqlite,
    check_work,
    unreachable,
    worst,
)
from jobconsole.core.redis_checks import check_redis, check_redis_store
from jobconsole.settings import ConsoleSettings
from queue_core.errors import ReadOnly
from queue_core.model.settings import JobsSettings
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.delivery.pairing import Pairing
    from queue_core.queue import JobQueue


_OPERATIONS = 1000
"""Unfinished operations that are looked at."""
_LINES = 6
"""Lines that one finding has at most, without its advice."""
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def add_doctor_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_globals(parser)
    parser.set_defaults(run=run_doctor)


def run_doctor(options: argparse.Namespace, output: Output) -> int:
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
    from queue_core.errors import ConfigurationError, QueueCoreError, SchemaEarlier

    name = jobs.store.name
    checks: list[Check] = []
    try:
        facts = await jobs.inspector.facts()
        checks = [Check(name, "ok", "answers"), *_STORES.get(name, check_postgres)(facts)]
        if facts["schema"] != facts["schema_known"]:
            return checks
        overview, operations = (
            await jobs.inspector.overview(),
            await jobs.operations.list_operations(_OPERATIONS, unfinished=True),
        )
        return [*checks, *check_work(overview), check_operations(operations, overview)]
    except ConfigurationError:
        raise
    except SchemaEarlier as error:
        return [Check("schema", "fail", str(error))]
    except (QueueCoreError, OSError) as error:
        # The findings before may give the reason.
        return [unreachable(name, str(error)), *checks[1:]]


async def _delivery(jobs: JobQueue) -> list[Check]:
    from queue_core.ports.delivery import DispatchUnavailable

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


def add_migrate_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_change(parser, why=False)
    add_globals(parser)
    parser.set_defaults(run=run_migrate)


def run_migrate(options: argparse.Namespace, output: Output) -> int:
    """Migrate; any number of processes may do it at once.

    Raises:
        ConfigurationError, ReadOnly, StoreUnavailable, SchemaError: see the `migrate` of the store.
    """
    settings = settings_of(options)
    mode = settings.jobs.mode
    # Asked for first: without an address, that is what is wrong.
    url = "" if mode in {"sqlite", "redis"} else postgres_url(settings)
    if options.dry_run:
        return _rehearsed(settings, url, output)
    if settings.read_only:
        raise ReadOnly("migrate")
    if mode == "redis":
        applied, known = _migrate_redis()
    else:
        applied, known = (
            _migrate_sqlite(settings.jobs)
            if mode == "sqlite"
            else _migrate_postgres(url, settings.jobs.postgres.schema)
        )
    if output.as_json:
        output.json({"applied": applied, "schema": known})
    elif applied:
        output.line(f"applied {_numbers(applied)}; the schema is {known}")
    else:
        output.line(f"nothing to do; the schema is {known}")
    return DONE


def _rehearsed(settings: ConsoleSettings, url: str, output: Output) -> int:
    """Report which migrations are still to be applied; return the exit code."""
    look = {"sqlite": _pending_in_sqlite, "redis": _pending_in_redis}.get(settings.jobs.mode, _pending_in_postgres)
    found, pending, earlier = look(settings.jobs, url)
    if output.as_json:
        output.json({"dry_run": True, "pending": pending, "schema": found} | ({"earlier": earlier} if earlier else {}))
    elif earlier:
        output.line(f"would take over the {earlier}, which an earlier version has made")
    else:
        output.line(f"would apply {_numbers(pending)}" if pending else f"nothing to do; the schema is {found}")
    return DONE


def _pending_in_postgres(jobs: JobsSettings, url: str) -> tuple[int, list[int], str]:
    from queue_core.stores.postgres.migrate import pending

    found, versions, earlier = pending(url, jobs.postgres.schema)
    if found and earlier:
        warn(f"{SECOND_STORE.format(earlier)}; {SECOND_STORE_ADVICE}")
    return found, versions, f"tables in schema '{earlier}'" if earlier and not found else ""


def _pending_in_sqlite(jobs: JobsSettings, url: str) -> tuple[int, list[int], str]:
    from queue_core.stores.sqlite.migrate import pending

    # Opening the file for jobs would migrate it.
    found, versions, earlier = pending(jobs.sqlite)
    return found, versions, f"file {earlier}" if earlier else ""


def _pending_in_redis(jobs: JobsSettings, url: str) -> tuple[int, list[int], str]:
    from queue_core.stores.redis.session import SCHEMA

    return SCHEMA, [], ""


def _numbers(migrations: Sequence[int]) -> str:
    return ", ".join(f"{number:04}" for number in migrations)


def _migrate_postgres(url: str, schema: str) -> tuple[list[int], int]:
    from queue_core.stores.postgres.migrate import KNOWN, migrate, pending

    applied = migrate(url, schema)
    if earlier := pending(url, schema).earlier:
        warn(f"{SECOND_STORE.format(earlier)}; {SECOND_STORE_ADVICE}")
    return applied, KNOWN


def _migrate_sqlite(jobs: JobsSettings) -> tuple[list[int], int]:
    from queue_core.stores.sqlite.migrate import KNOWN, migrate

    return migrate(jobs.sqlite), KNOWN


def _migrate_redis() -> tuple[list[int], int]:
    from queue_core.stores.redis.session import SCHEMA

    return [], SCHEMA  # its keys come with the first job
