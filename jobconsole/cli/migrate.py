"""`jobconsole migrate`: bring the database to the newest schema."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from jobconsole.cli.failures import DONE
from jobconsole.cli.noting import add_change
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals
from jobconsole.cli.session import postgres_url, queue_of, settings_of
from jobconsole.settings import ConsoleSettings
from queue_core.errors import ReadOnly, SchemaNewer
from queue_core.settings import JobsSettings


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_change(parser, why=False)
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Migrate; any number of processes may do it at once.

    Raises:
        ConfigurationError, ReadOnly, StoreUnavailable, SchemaError: see the `migrate` of the store.
    """
    settings = settings_of(options)
    mode = settings.jobs.mode
    # Asked for first: without an address, that is what is wrong.
    url = "" if mode in {"sqlite", "redis"} else postgres_url(settings)
    if options.dry_run:
        return _rehearsed(settings, output)
    if settings.read_only:
        raise ReadOnly("migrate")
    if mode == "redis":
        applied, known = _migrate_redis()
    else:
        applied, known = _migrate_sqlite(settings.jobs) if mode == "sqlite" else _migrate_postgres(url)
    if output.as_json:
        output.json({"applied": applied, "schema": known})
    elif applied:
        output.line(f"applied {_numbers(applied)}; the schema is {known}")
    else:
        output.line(f"nothing to do; the schema is {known}")
    return DONE


def _rehearsed(settings: ConsoleSettings, output: Output) -> int:
    """Say what is still to be applied."""
    found, known = _schema_of_sqlite(settings.jobs) if settings.jobs.mode == "sqlite" else _schema_of_server(settings)
    if found > known:
        raise SchemaNewer(found, known)
    pending = list(range(found + 1, known + 1))
    if output.as_json:
        output.json({"dry_run": True, "pending": pending, "schema": found})
    else:
        output.line(f"would apply {_numbers(pending)}" if pending else f"nothing to do; the schema is {found}")
    return DONE


def _schema_of_sqlite(jobs: JobsSettings) -> tuple[int, int]:
    from queue_core.stores.sqlite.migrate import KNOWN, schema_of

    # Whoever opens the file for jobs would migrate it.
    return schema_of(jobs.sqlite), KNOWN


def _schema_of_server(settings: ConsoleSettings) -> tuple[int, int]:
    async def look() -> tuple[int, int]:
        jobs = queue_of(settings)
        try:
            facts = await jobs.inspector.facts()
            return facts["schema"], facts["schema_known"]
        finally:
            await jobs.close()

    return asyncio.run(look())


def _numbers(migrations: Sequence[int]) -> str:
    return ", ".join(f"{number:04}" for number in migrations)


def _migrate_postgres(url: str) -> tuple[list[int], int]:
    from queue_core.stores.postgres.migrate import KNOWN, migrate

    return migrate(url), KNOWN


def _migrate_sqlite(jobs: JobsSettings) -> tuple[list[int], int]:
    from queue_core.stores.sqlite.migrate import KNOWN, migrate

    return migrate(jobs.sqlite), KNOWN


def _migrate_redis() -> tuple[list[int], int]:
    from queue_core.stores.redis.link import SCHEMA

    return [], SCHEMA  # its keys come with the first job
