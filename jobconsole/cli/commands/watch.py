"""The commands that run until they are stopped: `events` and `top`."""

from __future__ import annotations

import argparse
import asyncio
import io
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jobconsole.cli.commands import launch
from jobconsole.cli.failures import DONE, note
from jobconsole.cli.output import Output, TextColumn, cut
from jobconsole.cli.parser import Parser, add_globals, duration, positive, whole
from jobconsole.cli.session import connected
from jobconsole.format import humanize
from jobconsole.format.humanize import exact, plural
from jobconsole.present.signature import state_body, state_word
from queue_core.model.events import Event, EventBatch, EventName
from queue_core.model.text import safe
from queue_core.model.triage.signatures import SignatureState

if TYPE_CHECKING:
    from jobconsole.core.snapshot import Snapshot
    from queue_core.queue import JobQueue


_LONGEST_DETAILS = 300
"""Characters of one event's details."""


def add_events_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--queue", metavar="NAME", help="of this queue only")
    parser.add_argument("--type", metavar="NAME", help="of jobs of this type only")
    names = [name.value for name in EventName]
    parser.add_argument("--event", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--count", type=whole(1, 10**9), metavar="N", help="end after N events")
    parser.add_argument("--seconds", type=duration, metavar="T", help="end after this time")
    add_globals(parser)
    parser.set_defaults(run=run_events)


def run_events(options: argparse.Namespace, output: Output) -> int:
    """Follow events until there were enough, or until Ctrl+C."""
    return connected(options, output, _follow_events)


async def _follow_events(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
    if jobs.dispatcher is not None and jobs.settings.mode.endswith("+redis"):
        # The subscription waits for a server that is down; a user at a terminal wants the error.
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
    output.line("  ".join(safe(part, _LONGEST_DETAILS) for part in parts if part))


def _short(value: Any) -> str:
    text = str(value)
    return text if text and " " not in text else repr(text)


_TABLE_ROWS = 8
"""Rows of each table."""
_QUEUES = (
    TextColumn("QUEUE", limit=40), TextColumn("STATE"), TextColumn("QUEUED", "right"), TextColumn("LATER", "right"),
    TextColumn("RUNNING", "right"), TextColumn("DEAD", "right"), TextColumn("OLDEST", "right"),
)  # fmt: skip
_GROUPS = (
    TextColumn("COUNT", "right"),
    TextColumn("15m", "right"),
    TextColumn("LAST", "right"),
    TextColumn("STATE"),
    TextColumn("OWNER", limit=20),
    TextColumn("ERROR SIGNATURE"),
)
_RUNNING = (
    TextColumn("RUNNING", limit=40), TextColumn("QUEUE", limit=30), TextColumn("DONE", "right"),
    TextColumn("TIME", "right"),
    TextColumn("MESSAGE"),
)  # fmt: skip


def add_top_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--inline", action="store_true", help="as text below the prompt; otherwise the console on Live")
    parser.add_argument("--interval", type=positive, default=2.0, metavar="T", help="between two pictures (default 2s)")
    parser.add_argument("--count", type=whole(1, 10**9), metavar="N", help="end after N pictures")
    add_globals(parser)
    parser.set_defaults(run=run_top)


def run_top(options: argparse.Namespace, output: Output) -> int:
    """Draw pictures until there were enough, or until Ctrl+C.

    Raises:
        UsageError: without --inline or --json there is no terminal.
        StoreUnavailable: the store did not answer.
    """
    if not (options.inline or output.as_json):
        from jobconsole.tui.base.links import Link

        return launch.show_console(options, Link("live"), "'jobconsole top --inline' and 'jobconsole top --json'")
    return connected(options, output, _redraw)


async def _redraw(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
    from jobconsole.core.snapshot import SnapshotNeeds, read_snapshot

    left, height = options.count, 0
    while True:
        needs = SnapshotNeeds(signatures=_TABLE_ROWS, running=_TABLE_ROWS)
        snapshot = await read_snapshot(jobs.inspector, needs, await jobs.signatures.rules())
        if output.as_json:
            output.json(_body(snapshot))
        else:
            height = _draw(output, _picture(snapshot), height)
        output.flush()
        left = None if left is None else left - 1
        if left == 0:
            return DONE
        await asyncio.sleep(options.interval)


def _draw(output: Output, text: str, before: int) -> int:
    """Write a picture over the one before, where there is a terminal; return how many lines it has."""
    if not output.terminal:
        output.write(text)
        return 0
    columns, rows = shutil.get_terminal_size()
    lines = [cut(line, columns - 1) for line in text.split("\n")][: rows - 1]
    # Up to where the last picture began; each line is written again, and the rest of a longer one erased.
    output.write(f"\x1b[{before}A\r" if before else "")
    output.write("".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
    return len(lines)


def _picture(snapshot: Snapshot) -> str:
    stream = io.StringIO()
    output = Output(stream)
    totals = snapshot.totals
    numbers = {
        "queued": totals.queued, "running": totals.running, "retrying": totals.retrying, "scheduled": totals.scheduled,
        "dead": totals.dead, "trash": totals.trashed,
    }  # fmt: skip
    alive = plural(totals.workers, "worker") + (f", {totals.lost_workers} lost" if totals.lost_workers else "")
    words = "  ".join(f"{name} {exact(number)}" for name, number in numbers.items())
    output.line(f"{humanize.clock(snapshot.now)} UTC  {words}  {alive}")
    _tables(output, snapshot)
    return stream.getvalue()


def _tables(output: Output, snapshot: Snapshot) -> None:
    now = snapshot.now
    busiest = sorted(snapshot.queues, key=lambda queue: (-queue.queued - queue.running, queue.name))[:_TABLE_ROWS]
    output.line()
    output.table(_QUEUES, [
        (
            queue.label, queue.state, exact(queue.queued),
            exact(queue.scheduled + queue.retrying), exact(queue.running), exact(queue.dead),
            humanize.age(humanize.seconds_between(queue.oldest, now)),
        )
        for queue in busiest
    ])  # fmt: skip
    if snapshot.signatures:
        output.line()
        output.table(_GROUPS, [
            (
                exact(one.count), exact(one.grown), humanize.age(humanize.seconds_between(one.last_seen, now)),
                state_word(state), safe(state.owner, 20), one.title,
            )
            for one in snapshot.signatures
            for state in [snapshot.states.get(one.signature, SignatureState(one.signature))]
        ])  # fmt: skip
    if snapshot.running:
        output.line()
        output.table(_RUNNING, [
            (
                job.type, job.queue, f"{job.progress}%",
                humanize.elapsed(humanize.seconds_between(job.started_at, now) or 0.0), job.message,
            )
            for job in snapshot.running
        ])  # fmt: skip


def _body(snapshot: Snapshot) -> dict[str, object]:
    return {
        "now": snapshot.now,
        "totals": snapshot.totals,
        "queues": snapshot.queues,
        "signatures": snapshot.signatures,
        "states": {name: state_body(state) for name, state in snapshot.states.items()},
        "running": [{"id": job.id, "type": job.type, "queue": job.queue, "progress": job.progress,
                     "message": job.message, "started_at": job.started_at} for job in snapshot.running],
        "workers": [{"id": worker.id, "state": worker.state, "busy": worker.busy,
                     "concurrency": worker.concurrency} for worker in snapshot.workers],
    }  # fmt: skip
