"""The entry of the command line: finds the noun, loads its module, runs its verb."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from jobconsole.cli.failures import guarded
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_globals

NOUNS = {
    "ui": "open the console (the default)",
    "demo": "everything on embedded servers: real work, real failures, the console",
    "job": "list, show, compare, logs, stack, enqueue, edit, retry, move, cancel, delete and restore jobs",
    "dlq": "the dead-letter queue: groups, show, compare, own, note, mute, resolve, list, review, retry, move, delete, "
    "restore, export, purge",
    "filter": "list, save and remove filters by name, shared by all consoles of a store",
    "op": "what was done: list, show, watch, pause, resume, cancel, undo and run operations",
    "queue": "list, pause, resume and drain queues",
    "schedule": "list, trigger, pause, resume and remove schedules",
    "type": "the job types that workers announced, and what their payloads look like",
    "worker": "list, run, quiet, resume and stop workers",
    "open": "open the console at the place of a link",
    "contexts": "every context of the configuration: depth, dead, new, workers, oldest",
    "events": "follow what happens, as it happens",
    "exporter": "serve /metrics, /healthz and /events",
    "top": "queues, signatures and running jobs, redrawn in place",
    "completion": "print the completion script of a shell",
    "migrate": "bring the database to this version's schema",
    "doctor": "check what production needs",
    "health": "whether jobs can be enqueued and run; exit code 1 where not",
    "bench": "measure enqueue, drain and latency on embedded servers",
}

_FAMILIES = {
    "ui": "launch",
    "demo": "launch",
    "open": "launch",
    "bench": "launch",
    "filter": "dlq",
    "queue": "queue",
    "type": "queue",
    "events": "watch",
    "top": "watch",
    "migrate": "doctor",
    "doctor": "doctor",
    "health": "doctor",
}
"""The modules of `commands` that have several nouns, each with a function `add_<noun>_arguments`."""

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage, 3 a server cannot be reached, 4 not found, 5 refused, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; `argv` is without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _mend_streams()
    return guarded(lambda: _run(arguments), debug="--debug" in arguments)


def _mend_streams() -> None:
    """Have an input that is no text refused where it is used, and closed streams be like those without an end."""
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO())
    elif isinstance(sys.stdin, io.TextIOWrapper):
        with suppress(io.UnsupportedOperation):  # something was read already
            sys.stdin.reconfigure(errors="surrogateescape")
    if sys.stderr is None:
        from queue_core.client.logs import occupy_standard_streams

        occupy_standard_streams()
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _run(arguments: list[str]) -> int:
    parser = parser_of()
    try:
        options = parser.parse_args(arguments)
    except SystemExit:  # --help has been answered
        return 0
    output = Output(as_json=getattr(options, "json", False))
    if options.version:
        return _version(output)
    if options.noun is None:
        options = parser.parse_args([*arguments, "ui"])
    if "@" in (getattr(options, "filter", None) or ""):
        import_module("jobconsole.cli.filters").read_saved(options, output)
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
        nouns.add_parser(noun, help=help_, description=help_.capitalize() + ".", declared_by=_declared_by(noun))
    return parser


def _declared_by(noun: str) -> str:
    if noun == "completion":
        return "jobconsole.cli.completion:add_arguments"
    family = _FAMILIES.get(noun)
    function = f"add_{noun}_arguments" if family else "add_arguments"
    return f"jobconsole.cli.commands.{family or noun}:{function}"


if __name__ == "__main__":
    sys.exit(main())
