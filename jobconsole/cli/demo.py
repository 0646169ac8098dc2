"""`jobconsole demo`: everything at once on embedded servers."""

from __future__ import annotations

import argparse

from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser
from jobconsole.demo.options import DemoOptions
from jobconsole.demo.options import add_arguments as add_demo_arguments


def add_arguments(parser: Parser) -> None:
    """Declare the demo's own options; the configuration is not for it, somebody's production may stand there."""
    add_demo_arguments(parser)
    for action in parser._actions:
        if action.dest in DemoOptions.__slots__:
            # What was given before the noun (--json, --redis-url) must not be overwritten by a default after it.
            action.default = argparse.SUPPRESS
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Run the demo until it ends."""
    from jobconsole.demo import run as run_demo

    given = {name: getattr(options, name) for name in DemoOptions.__slots__ if hasattr(options, name)}
    return int(run_demo(DemoOptions(**given)))
