"""`jobconsole migrate`: bring the database to the newest schema."""

from __future__ import annotations

import argparse

from jobconsole.cli.failures import DONE
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals
from jobconsole.cli.session import postgres_url, settings_of
from queue_core.errors import ReadOnly
from queue_core.settings import JobsSettings


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
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
    if settings.read_only:
        raise ReadOnly("migrate")
    if mode == "redis":
        applied, known = _migrate_redis()
    else:
        applied, known = _migrate_sqlite(settings.jobs) if mode == "sqlite" else _migrate_postgres(url)
    if output.as_json:
        output.json({"applied": applied, "schema": known})
    elif applied:
        output.line(f"applied {', '.join(f'{number:04}' for number in applied)}; the schema is {known}")
    else:
        output.line(f"nothing to do; the schema is {known}")
    return DONE


def _migrate_postgres(url: str) -> tuple[list[int], int]:
    from queue_core.stores.postgres.migrate import KNOWN, migrate

    return migrate(url), KNOWN


def _migrate_sqlite(jobs: JobsSettings) -> tuple[list[int], int]:
    from queue_core.stores.sqlite.migrate import KNOWN, migrate

    return migrate(jobs.sqlite), KNOWN


def _migrate_redis() -> tuple[list[int], int]:
    from queue_core.stores.redis.link import SCHEMA

    return [], SCHEMA  # its keys come with the first job
