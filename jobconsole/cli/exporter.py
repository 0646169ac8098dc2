"""`jobconsole exporter`: serve /metrics and /healthz until SIGTERM or Ctrl+C."""

from __future__ import annotations

import argparse
import signal
import threading

from jobconsole.cli.failures import DONE
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals, port, positive, whole
from jobconsole.cli.session import queue_of, settings_of


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="listen here (default 127.0.0.1)")
    parser.add_argument("--port", type=port, default=9808, metavar="N", help="(default 9808; 0 = a free one)")
    parser.add_argument("--limit", type=positive, metavar="T", help="for reading all servers (default 2.5s)")
    parser.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="only these get a label of their own"
    )
    parser.add_argument("--most-types", type=whole(0, 10_000), default=100, metavar="N", help="labels (default 100)")
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Serve; servers that are down do not end it, `jobconsole_up` says so.

    Raises:
        ConfigurationError, ExporterError: it cannot serve at all.
    """
    settings = settings_of(options)
    queue_of(settings)
    from jobconsole.exporter.reading import LIMIT
    from jobconsole.exporter.server import Exporter, ExporterOptions
    from queue_core.worker.options import setup_logging

    setup_logging(getattr(options, "log_format", "text"))
    ended = _when_told_to_end()
    how = ExporterOptions(options.host, options.port, options.limit or LIMIT, tuple(options.type), options.most_types)
    with Exporter(settings.jobs, how) as exporter:
        if output.as_json:
            output.json({"metrics": exporter.url, "healthz": exporter.health_url})
        else:
            output.line(f"metrics: {exporter.url}")
            output.line(f"healthz: {exporter.health_url}")
        output.flush()
        ended.wait()
    return DONE


def _when_told_to_end() -> threading.Event:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended
