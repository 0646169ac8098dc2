"""The entry of the command line: finds the noun, loads its module, runs its verb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from jobconsole.cli.failures import guarded
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals

NOUNS = {
    "ui": "open the console (the default)",
    "demo": "everything on embedded servers: real work, real failures, the console",
    "job": "list, show, logs, enqueue, edit, retry, move, cancel, delete and restore jobs",
    "dlq": "the dead-letter queue: groups, list, review, retry, move, delete, restore, export, purge",
    "op": "what was done: list, show, watch, pause, resume, cancel, undo and run operations",
    "queue": "list, pause and resume queues",
    "schedule": "list, trigger, pause, resume and remove schedules",
    "type": "the job types that workers announced, and what their payloads look like",
    "worker": "list, run, quiet, resume and stop workers",
    "open": "open the console at the place of a link",
    "events": "follow what happens, as it happens",
    "exporter": "serve /metrics and /healthz",
    "top": "queues, signatures and running jobs, redrawn in place",
    "completion": "print the completion script of a shell",
    "migrate": "bring the database to this version's schema",
    "doctor": "check what production needs",
    "bench": "measure enqueue, drain and latency on embedded servers",
}

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage, 3 a server cannot be reached, 4 not found, 5 refused, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; `argv` is without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(arguments), debug="--debug" in arguments)


def _run(arguments: list[str]) -> int:
    parser = parser_of()
    try:
        options = parser.parse_args(arguments)
    except SystemExit:  # --help has been answered
        Output().flush()
        return 0
    output = Output(as_json=getattr(options, "json", False))
    if options.version:
        return _version(output)
    if options.noun is None:
        options = parser.parse_args([*arguments, "ui"])
    return _finish(options.run, options, output)


def _finish(run: object, options: argparse.Namespace, output: Output) -> int:
    code = run(options, output)  # type: ignore[operator]
    output.flush()
    return int(code)


def _version(output: Output) -> int:
    from importlib.metadata import version

    number = version("jobconsole")
    if output.as_json:
        output.json({"jobconsole": number})
    else:
        output.line(f"jobconsole {number}")
    output.flush()
    return 0


def parser_of() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="jobconsole",
        description="Operations console, command line and exporter for queue_core.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    add_globals(parser)
    nouns = parser.add_subparsers(dest="noun", metavar="COMMAND", parser_class=Parser)
    for noun, help_ in NOUNS.items():
        nouns.add_parser(noun, help=help_, description=help_.capitalize() + ".", module=f"jobconsole.cli.{noun}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
