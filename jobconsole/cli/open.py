"""`jobconsole open LINK`: the console at the place that a colleague's link leads to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jobconsole.cli import ui
from jobconsole.cli.failures import DONE, UsageError
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals
from queue_core.addresses import mask

if TYPE_CHECKING:
    from jobconsole.core.links import Link


CARRIED = ("config", "context", "postgres_url", "redis_url", "prefix")
"""Options that say where the jobs are."""
ADDRESSES = frozenset({"postgres_url", "redis_url"})
"""Those of them that may hold a password."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("link", metavar="LINK", help="as the key Y copies it, such as jobconsole://prod/job/ID")
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Open the console at a place; with --json, say what the link means and which command shows the same.

    Raises:
        UsageError: it is no link, or there is no terminal.
        ConfigurationError: the link's context is unknown, or no servers are configured.
    """
    from jobconsole.core.links import LinkError, parse_link

    try:
        link = parse_link(options.link)
    except LinkError as error:
        raise UsageError(str(error)) from None
    if output.as_json:
        body = {"context": link.context or None, "place": link.place, "value": link.value or None}
        output.json({**body, "command": _command(link, options), "masked": _masked(options)})
        return DONE
    if link.context and getattr(options, "context", None) is None:
        options.context = link.context
    return ui.show(options, link)


def _given(options: argparse.Namespace) -> dict[str, str | None]:
    return {name: getattr(options, name, None) for name in CARRIED}


def _shown(name: str, value: str) -> str:
    return mask(value) if name in ADDRESSES else value


def _masked(options: argparse.Namespace) -> list[str]:
    """The options whose password is not shown, and has to be put back where the command is to run."""
    return [_option(name) for name, value in _given(options).items() if value and _shown(name, value) != value]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _command(link: Link, options: argparse.Namespace) -> list[str]:
    """The words of the command that shows the same without a terminal, on the same servers."""
    from queue_core.filters import parse, render

    # In one word with its option: what begins with a dash would be taken for another one.
    given = _given(options)
    given["context"] = given["context"] or link.context or None
    chosen = [f"{_option(name)}={_shown(name, value)}" for name, value in given.items() if value is not None]
    filtered = link.place in {"jobs", "triage"} and link.value
    narrowed = [f"--filter={render(parse(link.value))}"] if filtered else []
    verbs = {
        "job": ["job", "show", link.value],
        "signature": ["dlq", "list", f"--signature={link.value}"],
        "jobs": ["job", "list", *narrowed],
        "triage": ["dlq", "groups", *narrowed],
        "live": ["queue", "list"],
        "schedules": ["schedule", "list"],
        "operations": ["op", "list"],
        "operation": ["op", "show", link.value],
        "schedule": ["schedule", "list"],
        "events": ["events"],
    }
    return ["jobconsole", *chosen, *verbs[link.place]]
