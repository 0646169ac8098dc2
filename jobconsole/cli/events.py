"""`jobconsole events`: what happens, as it happens. Events are hints; lists and totals come from the store."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jobconsole.cli.failures import DONE, note
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser, add_globals, duration, whole
from jobconsole.cli.session import connected
from queue_core.events import Event, EventBatch, EventName
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

_LONGEST = 300
"""Characters of one event's details."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--queue", metavar="NAME", help="of this queue only")
    parser.add_argument("--type", metavar="NAME", help="of jobs of this type only")
    names = [name.value for name in EventName]
    parser.add_argument("--event", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--count", type=whole(1, 10**9), metavar="N", help="end after N events")
    parser.add_argument("--seconds", type=duration, metavar="T", help="end after this time")
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Follow events until there were enough, or until Ctrl+C."""
    return connected(options, output, _follow)


async def _follow(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
    if jobs.dispatcher is not None and jobs.settings.mode.endswith("+redis"):
        # The subscription waits for a server that is down; somebody at a terminal wants to know.
        await jobs.dispatcher.ping()
    left = options.count
    try:
        async with asyncio.timeout(options.seconds):
            listening = False
            async for batch in jobs.bus.subscribe():
                if not listening:
                    note("listening; Ctrl+C ends it")
                elif batch.gap:
                    _gap(output)
                listening = True
                for event in [event for event in batch.events if _wanted(options, event)][:left]:
                    _show(output, batch, event)
                    left = None if left is None else left - 1
                output.flush()
                if left == 0:
                    break
    except TimeoutError:
        return DONE
    return DONE


def _wanted(options: argparse.Namespace, event: Event) -> bool:
    return (
        options.queue in (None, event.queue)
        and options.type in (None, event.type)
        and (options.event is None or event.event in options.event)
    )


def _gap(output: Output) -> None:
    if output.as_json:
        output.json({"event": "gap"})
    else:
        note("some events before this point may be missing")


def _show(output: Output, batch: EventBatch, event: Event) -> None:
    at = datetime.fromtimestamp(batch.at, UTC)
    if output.as_json:
        output.json({"at": at, "queue": event.queue, **event.body()})
        return
    details = " ".join(f"{key}={_short(value)}" for key, value in (event.extra or {}).items())
    parts = [at.strftime("%H:%M:%S.%f")[:-3], f"{event.event:<9}", event.id, event.type, event.queue, details]
    output.line("  ".join(safe(part, _LONGEST) for part in parts if part))


def _short(value: Any) -> str:
    text = str(value)
    return text if text and " " not in text else repr(text)
