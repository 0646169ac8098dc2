"""The console on the demo's own queue, until it is left or the time is over."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

from jobconsole.demo.stage import Stage
from jobconsole.demo.stopping import Stopping
from queue_core import JobQueue

LOOK_SECONDS = 0.5


def has_terminal() -> bool:
    """Answer whether somebody can see and use a console."""
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


async def show_console(stage: Stage, stopping: Stopping, end: float, facts: Sequence[str]) -> None:
    """Run the console until somebody leaves it, the end is asked for, or `end` of the monotonic clock.

    `facts` are shown on its help screen, before what can be repaired.

    Raises:
        DemoError: a process of the demo has ended by itself.
    """
    from jobconsole.core.connection import Connection
    from jobconsole.tui.app import ConsoleApp
    from jobconsole.tui.hints import Hint

    hints = [*(Hint(fact) for fact in facts), *(Hint.parse(hint) for hint in stage.hints)]
    app = ConsoleApp(Connection(lambda: JobQueue.from_settings(stage.settings)), context="demo", hints=hints)
    running: asyncio.Task[Any] = asyncio.create_task(app.run_async())
    try:
        while not running.done() and not stopping.asked and time.monotonic() < end:
            stage.fleet.check()
            await stopping.wait(min(LOOK_SECONDS, end - time.monotonic()), running)
    finally:
        if not running.done():
            app.exit()
        await running
