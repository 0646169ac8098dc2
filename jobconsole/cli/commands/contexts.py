"""`jobconsole contexts`: every context of the configuration beside the others."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobconsole.cli.failures import DONE, note
from jobconsole.cli.output import Output, TextColumn
from jobconsole.cli.parser import Parser, add_globals
from jobconsole.cli.session import settings_of
from jobconsole.core.connection import ContextInfo
from jobconsole.core.contexts import ContextLine, Places
from jobconsole.format.humanize import age, elapsed, exact, seconds_between
from jobconsole.settings import ConsoleSettings, every_context, opener_of

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

READ_SECONDS = 10.0
"""How long one context may take; the others are shown then, too."""

COLUMNS = (
    TextColumn("CONTEXT", limit=40),
    TextColumn("STATE"),
    TextColumn("QUEUED", "right"),
    TextColumn("DEAD", "right"),
    TextColumn("15M", "right"),
    TextColumn("NEW", "right"),
    TextColumn("REGRESSED", "right"),
    TextColumn("WORKERS", "right"),
    TextColumn("RELEASES", limit=40),
    TextColumn("OLDEST", "right"),
    TextColumn("STORE", limit=120),
)


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_globals(parser)
    parser.set_defaults(run=run)


def info_of(settings: ConsoleSettings) -> ContextInfo:
    """Return what a console shows of the context of the settings."""
    from jobconsole.core.alerts import Thresholds

    alerts = Thresholds(**settings.alerts.model_dump())
    return ContextInfo(settings.context or "", settings.word, settings.colour or "", alerts)


def places_of(settings: ConsoleSettings, path: str | None) -> Places:
    """Return the contexts that a console can go to; `path`: of --config."""
    return Places(lambda: _every(settings, path), len(settings.contexts), settings.unnamed, settings.target)


def _every(settings: ConsoleSettings, path: str | None) -> dict[str, tuple[ContextInfo, Callable[[], JobQueue]]]:
    every = every_context(settings, path) or {"": settings}
    return {name: (info_of(one), opener_of(one)) for name, one in every.items()}


def run(options: argparse.Namespace, output: Output) -> int:
    """Read every context once, all at the same time, and list them.

    Raises:
        ConfigurationError: a context is malformed.
    """
    settings = settings_of(options)
    lines = asyncio.run(_read(settings, getattr(options, "config", None)))
    if output.as_json:
        output.json({"contexts": [_body(line, line.name == (settings.context or "")) for line in lines]})
        return DONE
    output.table(COLUMNS, [_cells(line) for line in lines])
    if settings.unnamed:
        note(f"{settings.unnamed}: a verb that changes something asks first, or is refused without a terminal")
    return DONE


async def _read(settings: ConsoleSettings, path: str | None) -> Sequence[ContextLine]:
    every = places_of(settings, path).readers()
    await asyncio.gather(*(asyncio.wait_for(one.read(), READ_SECONDS) for one in every), return_exceptions=True)
    lines = [one.line for one in every]
    await asyncio.gather(*(asyncio.wait_for(one.close(), 1.0) for one in every), return_exceptions=True)
    return lines


def _cells(line: ContextLine) -> tuple[str, ...]:
    counts = (line.queued, line.dead, line.grown, line.new, line.regressed)
    known = line.workers is not None
    workers = f"{line.workers}" + (f", {line.lost_workers} lost" if line.lost_workers else "")
    oldest = age(seconds_between(line.oldest, line.now)) if line.now else "?"
    return (
        line.name or "(none)",
        line.state,
        *("?" if one is None else exact(one) for one in counts),
        workers if known else "?",
        " ".join(line.releases),
        oldest or "-",
        line.error or ("" if line.latency is None else f"{line.latency * 1000:.0f} ms"),
    )


def _body(line: ContextLine, here: bool) -> dict[str, Any]:
    body = asdict(line) | {"context": line.name, "word": line.info.word, "shown": here}
    for key in ("info", "lost_seconds"):
        del body[key]
    if line.state == "lost":
        body["lost_for"] = elapsed(line.lost_seconds)
    return body
