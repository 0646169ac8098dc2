"""The console as a program in this terminal, which may have none: the end of a terminal ends it, too."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from typing import TYPE_CHECKING

from jobconsole.core.connection import Connection, ContextInfo
from jobconsole.core.contexts import Places
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.links import Link
from jobconsole.tui.base.themes import kept_theme
from jobconsole.tui.end import STDIN, EndingSignals, end_with_terminal

if TYPE_CHECKING:
    from queue_core.model.settings import JobsSettings
    from queue_core.queue import JobQueue


def run_console(
    settings: JobsSettings,
    *,
    read_only: bool = False,
    context: ContextInfo | None = None,
    link: Link | None = None,
    places: Places | None = None,
) -> int:
    """Run the console in this terminal and return its exit code: 0, 2 without a terminal, or 128 + a signal.

    The first picture is drawn at once; the servers are reached afterwards, and again whenever they are lost. `places`:
    the contexts that there are; it then holds the one to go to.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__)):
        sys.stderr.write(
            "the console needs a terminal; without one use 'jobconsole job list' or 'jobconsole dlq groups'\n"
        )
        return 2
    # What drivers log would be written over the screen, and after it.
    logging.getLogger().addHandler(logging.NullHandler())
    app = ConsoleApp(
        Connection(lambda: make_queue(settings, read_only)), read_only=read_only, context=context, places=places
    )
    app.link = link
    app.theme = kept_theme(app.console.color_system)
    end_with_terminal(STDIN)
    code = asyncio.run(_run(app))
    return app.return_code or code or 0


async def _run(app: ConsoleApp) -> int | None:
    with EndingSignals(lambda code: app.exit(return_code=code)):
        result: int | None = await app.run_async()
        return result


def make_queue(settings: JobsSettings, read_only: bool) -> JobQueue:
    """Make the queue, with the drivers that this loads; called once the first picture is drawn."""
    from jobconsole.settings import to_read
    from queue_core.queue import JobQueue

    jobs = JobQueue.from_settings(to_read(settings) if read_only else settings)
    # What the start has made stays until the end: the collector need not look through it again and again.
    gc.freeze()
    gc.enable()
    return jobs
