"""`jobconsole bench`: how fast a mode is on this machine."""

from __future__ import annotations

import argparse

from jobconsole.bench.options import MODES, BenchOptions
from jobconsole.cli.failures import DONE, FAILED, progress
from jobconsole.cli.output import Column, Output
from jobconsole.cli.parsing import Parser, whole

_COLUMNS = (Column("FIGURE"), Column("VALUE", "right"), Column("UNIT"))


def add_arguments(parser: Parser) -> None:
    """Declare the benchmark's own options; the configuration is not for it, somebody's production may stand there."""
    default = BenchOptions()

    def add(*names: str, **kwargs: object) -> None:
        # No defaults here: they would overwrite a global option that was given before the noun.
        parser.add_argument(*names, default=argparse.SUPPRESS, **kwargs)  # type: ignore[arg-type]

    add("--mode", choices=MODES, help=f"what to measure (default {default.mode})")
    add("--jobs", type=whole(100, 10_000_000), metavar="N", help=f"jobs to drain (default {default.jobs:,})")
    add("--workers", type=whole(1, 64), metavar="N", help=f"worker processes (default {default.workers})")
    add("--json", action="store_true", help="print one JSON object")
    add("--postgres-url", metavar="URL", help="use this PostgreSQL, whose database must be empty")
    add("--redis-url", metavar="URL", help="use this Redis, in which the prefix must be empty")
    add("--prefix", metavar="TEXT", help=f"prefix of all keys in Redis (default {default.prefix})")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Measure; exit code 1 when a job was lost."""
    from jobconsole.bench.running import measure

    given = {name: getattr(options, name) for name in BenchOptions.__slots__ if hasattr(options, name)}
    report = measure(BenchOptions(**given), progress)
    progress("")
    if output.as_json:
        output.json(report.body())
    else:
        output.line(f"mode {report.mode}, {report.jobs:,} jobs")
        output.table(_COLUMNS, report.rows())
    return FAILED if report.lost else DONE
