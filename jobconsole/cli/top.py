"""`jobconsole top`: what happens now, as text that is redrawn in place, without taking the whole terminal."""

from __future__ import annotations

import argparse
import asyncio
import io
import shutil
import sys
from typing import TYPE_CHECKING

from jobconsole.cli import ui
from jobconsole.cli.failures import DONE
from jobconsole.cli.output import Column, Output, cut
from jobconsole.cli.parsing import Parser, add_globals, positive, whole
from jobconsole.cli.session import connected
from jobconsole.cli.tables import worker_state
from jobconsole.core import humanize
from jobconsole.core.humanize import exact, plural

if TYPE_CHECKING:
    from jobconsole.core.snapshot import Snapshot
    from queue_core.queue import JobQueue

_ROWS = 8
"""Rows of each table."""
_QUEUES = (
    Column("QUEUE", limit=40), Column("STATE"), Column("QUEUED", "right"), Column("LATER", "right"),
    Column("RUNNING", "right"), Column("DEAD", "right"), Column("OLDEST", "right"),
)  # fmt: skip
_GROUPS = (Column("COUNT", "right"), Column("15m", "right"), Column("LAST", "right"), Column("ERROR SIGNATURE"))
_RUNNING = (
    Column("RUNNING", limit=40), Column("QUEUE", limit=30), Column("DONE", "right"), Column("TIME", "right"),
    Column("MESSAGE"),
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--inline", action="store_true", help="as text below the prompt; otherwise the console on Live")
    parser.add_argument("--interval", type=positive, default=2.0, metavar="T", help="between two pictures (default 2s)")
    parser.add_argument("--count", type=whole(1, 10**9), metavar="N", help="end after N pictures")
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Draw pictures until there were enough, or until Ctrl+C.

    Raises:
        UsageError: without --inline or --json there is no terminal.
        StoreUnavailable: the store did not answer.
    """
    if not (options.inline or output.as_json):
        from jobconsole.core.links import Link

        return ui.show(options, Link("live"))
    return connected(options, output, _follow)


async def _follow(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
    from jobconsole.core.snapshot import Wanted, read_snapshot

    left, height = options.count, 0
    while True:
        snapshot = await read_snapshot(jobs.inspector, Wanted(signatures=_ROWS, running=_ROWS))
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
    if not sys.stdout.isatty():
        output.write(text)
        return 0
    columns, rows = shutil.get_terminal_size()
    lines = [cut(line, columns - 1) for line in text.split("\n")][: rows - 1]
    # Up to where the last picture began, each line anew, and what is left of a longer one away.
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
    busiest = sorted(snapshot.queues, key=lambda queue: (-queue.queued - queue.running, queue.name))[:_ROWS]
    output.line()
    output.table(_QUEUES, [
        (
            queue.label, "paused" if queue.paused else "open", exact(queue.queued),
            exact(queue.scheduled + queue.retrying), exact(queue.running), exact(queue.dead),
            humanize.age(humanize.seconds_between(queue.oldest, now)),
        )
        for queue in busiest
    ])  # fmt: skip
    if snapshot.signatures:
        output.line()
        output.table(_GROUPS, [
            (exact(one.count), exact(one.grown), humanize.age(humanize.seconds_between(one.last_seen, now)), one.title)
            for one in snapshot.signatures
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
        "running": [{"id": job.id, "type": job.type, "queue": job.queue, "progress": job.progress,
                     "message": job.message, "started_at": job.started_at} for job in snapshot.running],
        "workers": [{"id": worker.id, "state": worker_state(worker), "busy": worker.busy,
                     "concurrency": worker.concurrency} for worker in snapshot.workers],
    }  # fmt: skip
