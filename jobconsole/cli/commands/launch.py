"""The commands that start something: `ui`, `open`, `demo` and `bench`."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jobconsole.cli.commands.contexts import info_of, places_of
from jobconsole.cli.failures import DONE, FAILED, UsageError, progress, warn
from jobconsole.cli.output import Output, TextColumn, has_terminal
from jobconsole.cli.parser import Parser, add_debug, add_globals, whole
from jobconsole.cli.session import ending_signals, settings_of
from jobconsole.settings import check_servers, read_settings
from queue_core.model.addresses import mask

if TYPE_CHECKING:
    from jobconsole.settings import ConsoleSettings
    from jobconsole.tui.base.links import Link


def add_ui_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_globals(parser)
    parser.set_defaults(run=run_ui)


def run_ui(options: argparse.Namespace, output: Output) -> int:
    """Open the console.

    Raises:
        UsageError: there is no terminal.
        ConfigurationError: no servers are configured.
    """
    return show_console(options, None)


BARE = "'jobconsole dlq groups' and 'jobconsole job list'"
"""Commands that show much of the console without a terminal."""


def show_console(options: argparse.Namespace, link: Link | None, bare: str = BARE) -> int:
    """Open the console, at the place of a link where there is one; `bare`: what shows the same without a terminal.

    Raises:
        UsageError: there is no terminal.
        ConfigurationError: no servers are configured.
    """
    # Nothing that is made before the first picture becomes garbage, so looking for it would only put the picture off.
    gc.disable()
    settings: ConsoleSettings | None = settings_of(options)
    path, code = getattr(options, "config", None), DONE
    read_only = getattr(options, "read_only", False)
    given = _words({**_given(options), "context": None})
    try:
        while settings is not None:
            code, chosen = _show_console(settings, path, link, given, bare)
            settings = None if code or not chosen else read_settings(path, context=chosen, read_only=read_only)
            # Addresses are of the first context alone.
            link, given = None, _words({"config": path})
    finally:
        gc.enable()
    return code


def _show_console(
    settings: ConsoleSettings, path: str | None, link: Link | None, given: Sequence[str], bare: str
) -> tuple[int, str | None]:
    """Show one context; return the exit code, and the context that was chosen to be shown next."""
    check_servers(settings)
    _check_terminal(bare)
    from jobconsole.tui.run import run_console

    places, context = places_of(settings, path), info_of(settings)
    places.given = tuple(given)
    code = run_console(settings.jobs, read_only=settings.read_only, context=context, link=link, places=places)
    return int(code), places.chosen


def _check_terminal(bare: str = BARE) -> None:
    # Without a terminal, Textual would write escape sequences into a file and report success.
    if not has_terminal():
        raise UsageError(f"the console needs a terminal; {bare} do not")


CARRIED = ("config", "context", "postgres_url", "schema", "redis_url", "prefix")
"""Options that configure where the jobs are."""
ADDRESSES = frozenset({"postgres_url", "redis_url"})
"""Those of them that may hold a password."""


def add_open_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("link", metavar="LINK", help="as the key Y copies it, such as jobconsole://prod/job/ID")
    add_globals(parser)
    parser.set_defaults(run=run_open)


def run_open(options: argparse.Namespace, output: Output) -> int:
    """Open the console at a place; with --json, write what the link means and which command shows the same.

    Raises:
        UsageError: it is no link, several jobs have such an id, or there is no terminal.
        JobNotFound, StoreUnavailable: a part of an id cannot be found.
        ConfigurationError: the link's context is unknown, or, without --json, no servers are configured.
    """
    from jobconsole.tui.base.links import LinkError, parse_link

    try:
        link = parse_link(options.link, parts=True)
    except LinkError as error:
        raise UsageError(str(error)) from None
    if link.context and getattr(options, "context", None) is None:
        options.context = link.context
    if output.as_json:
        # A command with a context or a file that is not there would fail.
        settings_of(options)
        body = {"context": link.context or None, "place": link.place, "value": link.value or None}
        output.json({**body, "command": _command(link, options), "masked": _masked(options)})
        return DONE
    if link.by_part:
        from jobconsole.cli.selection import find_job

        _check_terminal()
        link = replace(link, value=find_job(options, output, link.value))
    return show_console(options, link)


def _given(options: argparse.Namespace) -> dict[str, str | None]:
    return {name: getattr(options, name, None) for name in CARRIED}


def _words(given: Mapping[str, str | None]) -> list[str]:
    """Return options as words of a command, without passwords."""
    return [f"{_option(name)}={_shown(name, value)}" for name, value in given.items() if value is not None]


def _shown(name: str, value: str) -> str:
    return mask(value) if name in ADDRESSES else value


def _masked(options: argparse.Namespace) -> list[str]:
    """The options whose password is not shown, and has to be put back where the command is to run."""
    return [_option(name) for name, value in _given(options).items() if value and _shown(name, value) != value]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _command(link: Link, options: argparse.Namespace) -> list[str]:
    """The words of the command that shows the same without a terminal, on the same servers."""
    from jobconsole.actions.command import looking

    return ["jobconsole", *_words(_given(options)), *looking(link.place, link.value)]


def add_demo_arguments(parser: Parser) -> None:
    """Declare the demo's own options; the configuration is not for it, as it may name a production system."""
    from jobconsole.demo.options import DemoOptions, add_arguments

    add_arguments(parser)
    for action in parser._actions:
        if action.dest in DemoOptions.__slots__:
            # What was given before the noun (--json, --redis-url) must not be overwritten by a default after it.
            action.default = argparse.SUPPRESS
    add_debug(parser)
    parser.set_defaults(run=run_demo)


def run_demo(options: argparse.Namespace, output: Output) -> int:
    """Run the demo until it ends."""
    from jobconsole.demo import run as demonstrate
    from jobconsole.demo.options import DemoOptions

    given = {name: getattr(options, name) for name in DemoOptions.__slots__ if hasattr(options, name)}
    return int(demonstrate(DemoOptions(**given)))


_COLUMNS = (TextColumn("FIGURE"), TextColumn("VALUE", "right"), TextColumn("UNIT"))


def add_bench_arguments(parser: Parser) -> None:
    """Declare the benchmark's own options; the configuration is not for it, as it may name a production system."""
    from jobconsole.bench.ground import MODES, BenchOptions

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
    add_debug(parser)
    parser.set_defaults(run=run_bench)


def run_bench(options: argparse.Namespace, output: Output) -> int:
    """Measure; exit code 1 when a job was lost."""
    from jobconsole.bench.ground import BenchOptions
    from jobconsole.bench.measure import measure

    given = {name: getattr(options, name) for name in BenchOptions.__slots__ if hasattr(options, name)}
    with ending_signals():
        report = measure(BenchOptions(**given), progress, warn)
    progress("")
    if output.as_json:
        output.json(report.body())
    else:
        output.line(f"mode {report.mode}, {report.jobs:,} jobs")
        output.table(_COLUMNS, report.rows())
    return FAILED if report.lost else DONE
