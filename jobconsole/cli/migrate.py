"""`jobconsole migrate`: bring the database to the newest schema."""

from __future__ import annotations

import argparse

from jobconsole.cli.failures import DONE
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals
from jobconsole.cli.session import postgres_url, settings_of
from queue_core.errors import ReadOnly


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Migrate; any number of processes may do it at once.

    Raises:
        ConfigurationError, ReadOnly, StoreUnavailable, SchemaError: see `queue_core.stores.postgres.migrate`.
    """
    settings = settings_of(options)
    url = postgres_url(settings)
    if settings.read_only:
        raise ReadOnly("migrate")
    from queue_core.stores.postgres.migrate import KNOWN, migrate

    applied = migrate(url)
    if output.as_json:
        output.json({"applied": applied, "schema": KNOWN})
    elif applied:
        output.line(f"applied {', '.join(f'{number:04}' for number in applied)}; the schema is {KNOWN}")
    else:
        output.line(f"nothing to do; the schema is {KNOWN}")
    return DONE
