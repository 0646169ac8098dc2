"""`jobconsole doctor`, `health` and `migrate`: what production needs, whether jobs run, the schema of this version."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobconsole.cli.failures import DONE, FAILED, harmless, warn
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_change, add_globals
from jobconsole.cli.session import check_target, postgres_url, settings_of
from jobconsole.core.doctor.checks import (
    SECOND_STORE,
    SECOND_STORE_ADVICE,
    Check,
    check_operations,
    check_pairing,
    check_sqlite,
    check_work,
    worst,
)
from jobconsole.core.doctor.outages import unreachable
from jobconsole.core.doctor.postgres import check_postgres, held_up
from jobconsole.core.doctor.redis import check_redis, check_redis_store
from jobconsole.format.humanize import exact, plural
from jobconsole.settings import ConsoleSettings, queue_of

if TYPE_CHECKING:
    from queue_core.client.health import Health
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

    async def checked() -> list[Check]:
        jobs = queue_of(settings)
        try:
            store, delivery = await asyncio.gather(
                _store(jobs, settings.read_only), _delivery(jobs, settings.read_only)
            )
            return [*store, *delivery]
        finally:
            await jobs.close()

    checks = asyncio.run(checked())
    if output.as_json:
        found = [{"name": one.name, "level": one.level, "said": one.finding, "advice": one.advice} for one in checks]
        output.json({"result": worst(checks), "checks": found})
    else:
        _show(output, checks)
    return FAILED if worst(checks) == "fail" else DONE


_ON_SERVERS = {"postgres": check_postgres, "redis": check_redis_store}


async def _store(jobs: JobQueue, read_only: bool) -> list[Check]:
    from queue_core.errors import ConfigurationError, QueueCoreError, SchemaEarlier, SchemaMissing

    name = jobs.store.name
    checks: list[Check] = []
    try:
        facts = await jobs.inspector.facts()
        found = check_sqlite(facts) if name == "sqlite" else _ON_SERVERS[name](facts, read_only)
        checks = [Check(name, "ok", "answers"), *found]
        if facts["schema"] not in {0, facts["schema_known"]}:
            return checks
        overview, operations = (
            await jobs.inspector.overview(),
            await jobs.operations.list_operations(_OPERATIONS, unfinished=True),
        )
        return [*checks, *check_work(overview), check_operations(operations, overview)]
    except ConfigurationError:
        raise
    except SchemaMissing as error:  # it names other schemas, which the facts of the server do not
        finding, _, advice = str(error).partition("; ")
        return [Check("schema", "fail", finding, advice) if one.name == "schema" else one for one in checks]
    except SchemaEarlier as error:
        return checks or [Check("schema", "fail", str(error))]
    except (QueueCoreError, OSError) as error:
        # The findings before may give the reason.
        wrong = await _held_up(jobs, getattr(error, "reason", str(error))) or [unreachable(name, str(error))]
        names = {one.name for one in wrong}
        return [*wrong, *(one for one in checks if one.name not in names)]


async def _held_up(jobs: JobQueue, reason: str) -> list[Check]:
    """Return the findings where it is others' locks that keep a store from being read; else none."""
    from queue_core.errors import QueueCoreError

    try:
        return held_up(reason, await jobs.inspector.blockers())
    except (QueueCoreError, OSError):
        return []


async def _delivery(jobs: JobQueue, read_only: bool) -> list[Check]:
    from queue_core.ports.delivery import DispatchUnavailable

    if jobs.dispatcher is None or not jobs.settings.mode.endswith("+redis"):
        return [one for one in await _pairing(jobs) if one.level != "ok"]
    checks: list[Check] = []
    try:
        checks = [Check("redis", "ok", "answers"), *check_redis(await jobs.dispatcher.facts(), read_only)]
        return [*checks, *await _pairing(jobs)]
    except (DispatchUnavailable, OSError) as error:
        return [unreachable("redis", str(error)), *checks[1:]]


async def _pairing(jobs: JobQueue) -> list[Check]:
    from queue_core.errors import QueueCoreError

    pairing = jobs.pairing
    if pairing is None:
        return []
    try:
        await pairing.check(change=False)
    except QueueCoreError:
        return []  # the database has its own finding
    return [check_pairing(pairing.reason, pairing.doubtful)]


def _show(output: Output, checks: list[Check]) -> None:
    widest = max(len(check.name) for check in checks)
    for check in checks:
        word = output.paint(f"{check.level:<4}", _COLOURS[check.level])
        first, *more = check.finding.split("\n")[:_LINES]
        output.line(f"{word}  {check.name:<{widest}}  {harmless(first, 400)}")
        for line in more:
            output.line(f"{'':<4}  {'':<{widest}}  {harmless(line, 400)}")
        if check.advice:
            output.line(f"{'':<4}  {'':<{widest}}  -> {harmless(check.advice, 400)}")
    counts = {level: sum(1 for check in checks if check.level == level) for level in _COLOURS}
    output.line(f"{counts['ok']} ok, {counts['warn']} to look at, {counts['fail']} failed")


def add_health_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_globals(parser)
    parser.set_defaults(run=run_health)


def run_health(options: argparse.Namespace, output: Output) -> int:
    """Report whether jobs can be enqueued and run; exit code 1 where not."""
    settings = settings_of(options)
    from queue_core.client.health import Health
    from queue_core.errors import ConfigurationError, QueueCoreError

    async def asked() -> tuple[Health, int]:
        jobs = queue_of(settings)
        try:
            await jobs.open()
            found = await jobs.health()
            return found, DONE if found.healthy else FAILED
        except ConfigurationError:
            raise
        except QueueCoreError as error:
            return Health(False, None, None, None, settings.jobs.mode, None, str(error)), FAILED
        finally:
            await jobs.close()

    found, result = asyncio.run(asked())
    if output.as_json:
        # The names and values of the exporter's /healthz, and why.
        counts = {"pending": found.pending, "running": found.running, "workers": found.workers}
        body = {"status": _status(found), "healthy": found.healthy, "mode": found.mode, **counts}
        output.json({**body, "degraded_since": found.degraded_since, "reason": harmless(found.reason, 400)})
    else:
        _show_health(output, found)
    return result


def _status(found: Health) -> str:
    if not found.healthy:
        return "failing"
    return "ok" if found.degraded_since is None else "degraded"


def _show_health(output: Output, found: Health) -> None:
    status = _status(found)
    colour = _COLOURS[{"ok": "ok", "degraded": "warn", "failing": "fail"}[status]]
    output.line(f"{output.paint(status, colour)}, mode {found.mode}")
    if found.pending is not None:
        counts = (found.pending, found.running or 0, found.workers or 0)
        output.line("{} pending, {} running, {} alive".format(*map(exact, counts[:2]), plural(counts[2], "worker")))
    if found.reason:
        output.line(harmless(found.reason, 400))


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
    from queue_core import backends

    settings = settings_of(options)
    if settings.jobs.mode not in {"sqlite", "redis"}:
        postgres_url(settings)  # without an address, that is what is wrong
    if options.dry_run:
        return _report_dry_run(settings, output)
    check_target(settings, "migrate")
    waiting = backends.pending(settings.jobs)
    applied, known = backends.migrate(settings.jobs)
    if settings.jobs.mode not in {"sqlite", "redis"} and (earlier := backends.pending(settings.jobs).earlier):
        warn(f"{SECOND_STORE.format(earlier)}; {SECOND_STORE_ADVICE}")
    others = _others(waiting.others)
    if output.as_json:
        output.json({"applied": applied, "schema": known} | others)
    elif applied and waiting.empty:
        output.line(f"made the schema, version {known}")
    elif applied:
        output.line(f"applied {_numbers(applied)}; the schema is {known}")
    else:
        output.line(f"nothing to do; the schema is {known}")
    return DONE


def _report_dry_run(settings: ConsoleSettings, output: Output) -> int:
    """Report which migrations are still to be applied; return the exit code."""
    from queue_core import backends

    found, pending, place, _ = waiting = backends.pending(settings.jobs)
    earlier, others = "" if place is None else _earlier(settings.jobs.mode, found, place), _others(waiting.others)
    if output.as_json:
        body = {"dry_run": True, "pending": pending, "schema": found}
        output.json(body | ({"earlier": earlier} if earlier else {}) | others)
    elif earlier:
        output.line(f"would take over the {earlier}, which an earlier version has made")
    elif waiting.empty:
        output.line(f"would make the schema, version {pending[-1]}")
    else:
        output.line(f"would apply {_numbers(pending)}" if pending else f"nothing to do; the schema is {found}")
    return DONE


def _others(others: Sequence[str]) -> dict[str, Any]:
    """Warn of other schemas where one is made beside them, which a mistyped name would do; return them for JSON."""
    if not others:
        return {}
    names = ", ".join(f"'{harmless(name, 63)}'" for name in others)
    warn(f"the database holds other schemas of this program, too: {names}; if one was meant, correct --schema")
    return {"others": list(others)}


def _earlier(mode: str, found: int, place: str) -> str:
    """Name what `migrate` takes over from an earlier version; what stays beside a schema of ours is warned of."""
    if mode == "sqlite":
        return f"file {place}"
    if mode == "redis":
        return f"keys under the prefix '{place}'"
    if found:
        warn(f"{SECOND_STORE.format(place)}; {SECOND_STORE_ADVICE}")
        return ""
    return f"tables in schema '{place}'"


def _numbers(migrations: Sequence[int]) -> str:
    return ", ".join(f"{number:04}" for number in migrations)
