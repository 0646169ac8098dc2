"""`jobconsole exporter`: serve metrics, health and events; print rules, a dashboard, the line of a password."""

from __future__ import annotations

import argparse
import getpass
import signal
import sys
import threading

from jobconsole.cli.failures import DONE, UsageError
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_globals, port, positive, whole
from jobconsole.cli.session import settings_of, start_log
from jobconsole.settings import queue_of, to_read


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="listen here (default 127.0.0.1)")
    parser.add_argument("--port", type=port, default=9808, metavar="N", help="(default 9808; 0 = a free one)")
    parser.add_argument("--limit", type=positive, metavar="T", help="for reading all servers (default 2.5s)")
    parser.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="only these get a label of their own"
    )
    parser.add_argument("--most-types", type=whole(0, 10_000), default=100, metavar="N", help="labels (default 100)")
    parser.add_argument("--tls-cert", metavar="FILE", help="serve TLS with this chain of certificates (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="and this key")
    parser.add_argument("--auth-file", metavar="FILE", help="names and hashed passwords for /metrics and /events")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--auth-line", metavar="NAME", help="print a line of that file, for a password that is asked")
    instead.add_argument("--print-rules", action="store_true", help="print the rules for Prometheus (YAML)")
    instead.add_argument("--print-dashboard", action="store_true", help="print the dashboard for Grafana (JSON)")
    add_globals(parser)
    parser.set_defaults(run=run_exporter)


def run_exporter(options: argparse.Namespace, output: Output) -> int:
    """Serve; servers that are down do not end it, `jobconsole_up` reports them.

    Raises:
        ConfigurationError, ExporterError: it cannot serve at all.
    """
    if options.auth_line is not None:
        return _print_auth_line(options.auth_line, output)
    if options.print_rules or options.print_dashboard:
        from jobconsole.exporter.dashboard import FILE, RULES

        output.write((RULES if options.print_rules else FILE).read_text(encoding="utf-8"))
        return DONE
    settings = settings_of(options)
    queue_of(settings)
    from jobconsole.exporter.reading import READ_SECONDS
    from jobconsole.exporter.server import Exporter, ExporterOptions

    start_log(options)
    ended = _termination()
    how = ExporterOptions(
        host=options.host,
        port=options.port,
        limit=options.limit or READ_SECONDS,
        types=tuple(options.type),
        most_types=options.most_types,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        auth_file=options.auth_file,
    )
    with Exporter(to_read(settings.jobs) if settings.read_only else settings.jobs, how) as exporter:
        places = {"metrics": exporter.url, "healthz": exporter.health_url, "events": exporter.events_url}
        if output.as_json:
            output.json(places)
        else:
            for name, url in places.items():
                output.line(f"{name}: {url}")
        output.flush()
        ended.wait()
    return DONE


def _termination() -> threading.Event:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended


def _print_auth_line(name: str, output: Output) -> int:
    """Ask for a password, or read it from a pipe, and print the line for it.

    Raises:
        UsageError: the name or the password cannot be.
    """
    from jobconsole.web.auth import make_line

    asked = sys.stdin.isatty()
    password = getpass.getpass(f"password of {name}: ") if asked else sys.stdin.readline().rstrip("\r\n")
    try:
        line = make_line(name, password)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if output.as_json:
        output.json({"line": line})
    else:
        output.line(line)
    return DONE
