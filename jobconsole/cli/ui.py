"""`jobconsole ui`: the console."""

from __future__ import annotations

import argparse
import gc
import sys
from typing import TYPE_CHECKING

from jobconsole.cli.failures import UsageError
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals
from jobconsole.cli.session import check_servers, settings_of

if TYPE_CHECKING:
    from jobconsole.core.links import Link
    from jobconsole.settings import ConsoleSettings


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Open the console.

    Raises:
        UsageError: there is no terminal.
        ConfigurationError: no servers are configured.
    """
    return show(options, None)


def show(options: argparse.Namespace, link: Link | None) -> int:
    """Open the console, at the place of a link where there is one.

    Raises:
        UsageError: there is no terminal.
        ConfigurationError: no servers are configured.
    """
    # Nothing that is made before the first picture becomes garbage, so looking for it would only put the picture off.
    gc.disable()
    try:
        return _show(settings_of(options), link)
    finally:
        gc.enable()


def _show(settings: ConsoleSettings, link: Link | None) -> int:
    check_servers(settings)
    # Without a terminal, Textual would write escape sequences into a file and say that all is well.
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the console needs a terminal; 'jobconsole dlq groups' and 'jobconsole job list' do not")
    from jobconsole.core.alerts import Thresholds
    from jobconsole.core.context import Surroundings
    from jobconsole.tui.app import run_console

    alerts = Thresholds(**settings.alerts.model_dump())
    context = Surroundings(settings.context or "", settings.word, settings.colour or "", alerts)
    return int(run_console(settings.jobs, read_only=settings.read_only, context=context, link=link))
