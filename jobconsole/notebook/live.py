"""A live display in a notebook: it is drawn again every few seconds, until the next cell, an interrupt or `stop()`."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from jobconsole.core.snapshot import Snapshot, SnapshotNeeds, SnapshotTotals, read_snapshot
from jobconsole.format.humanize import exact, plural
from jobconsole.format.spans import Line
from jobconsole.notebook.connection import NOTICE_SECONDS, NotebookConnection, in_one_sentence, sentence_of
from jobconsole.notebook.draw import Block, Drawing, LinesBlock, TableBlock, note
from jobconsole.notebook.records import JOB_COLUMNS, QUEUE_COLUMNS
from jobconsole.present.columns import signature_columns
from jobconsole.present.facts import moment
from queue_core.errors import InvalidArgument, QueueCoreError
from queue_core.model.filters import Filter

SHOWN_ROWS = 8
"""Groups of dead jobs and running jobs of a live display."""
LEAST_SECONDS = 0.2
"""Between two reads."""


class LiveDisplay(Drawing):
    """Queues, dead jobs by error and running jobs, drawn again and again beside the notebook."""

    def __init__(self, connection: NotebookConnection, where: Filter, every: float, seconds: float) -> None:
        self._connection = connection
        self._needs = SnapshotNeeds(where=where, signatures=SHOWN_ROWS, running=SHOWN_ROWS)
        self._every = every
        self._seconds = seconds
        self._snapshot: Snapshot | None = None
        # why the last read gave nothing; "" where it did
        self._problem = ""
        self._ended = threading.Event()
        self._replace: Callable[[dict[str, str]], None] = lambda bundle: None
        # the last picture is the one without the word "live"
        self._drawing = threading.Lock()
        self._forget: Callable[[], None] = lambda: None
        self._updates: Future[None] | None = None

    def __repr__(self) -> str:
        return f"<LiveDisplay, {'live' if self.running else 'stopped'}>"

    def _ipython_display_(self) -> None:
        """Show nothing more where a cell ends with it: it is displayed already."""

    @property
    def running(self) -> bool:
        """Whether it is drawn again."""
        return self._updates is not None and not self._ended.is_set()

    def start(self, shell: Any, show: Callable[[dict[str, str]], Callable[[dict[str, str]], None]]) -> None:
        """Show it, and begin to read; the shell's next cell stops it.

        `show`: displays a bundle, and returns what replaces it.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        self._snapshot = self._connection.run(self._read())

        def stop(*_: object) -> None:
            self.stop()

        shell.events.register("pre_run_cell", stop)
        self._forget = lambda: shell.events.unregister("pre_run_cell", stop)
        self._updates = self._connection.thread.start(self._update())
        self._replace = show(self._repr_mimebundle_())

    def stop(self) -> None:
        """End it, with its last picture; a second time is safe."""
        if not self.running or self._updates is None:
            return
        self._ended.set()
        self._updates.cancel()
        with suppress(ValueError):
            self._forget()
        self._draw()

    def wait(self, seconds: float | None = None) -> None:
        """Keep the cell busy until it is interrupted or this time has passed, and end it then."""
        # Interrupting the cell is how it is stopped: the cell ends well.
        with suppress(KeyboardInterrupt):
            end = math.inf if seconds is None else time.monotonic() + seconds
            while not self._ended.wait(min(NOTICE_SECONDS, max(0.0, end - time.monotonic()))):
                if time.monotonic() >= end:
                    break
        self.stop()

    def now(self) -> datetime:
        """Return when it was last read, by the store's clock."""
        return datetime.now(UTC) if self._snapshot is None else self._snapshot.now

    def blocks(self) -> Sequence[Block]:
        """Return the last picture."""
        live = f"● live, every {self._every:g} s: the next cell, stop() or an interrupt of wait() ends it"
        state: Line = ((live, "good"),) if self.running else (("■ stopped", "muted"),)
        head: Line = (*state, (f"  as of {moment(self.now())}", "faint"))
        problem = [note(self._problem, "bad")] if self._problem else []
        one = self._snapshot
        if one is None:
            return [LinesBlock([head]), *problem]
        columns = signature_columns("15m", trend=True, states=one.states)
        return [
            LinesBlock([head, _totals(one)]),
            *problem,
            TableBlock("Queues", QUEUE_COLUMNS, one.queues, "no queues"),
            TableBlock("Dead jobs by error", columns, one.signatures, "no dead jobs"),
            TableBlock("Running", JOB_COLUMNS, one.running, "no job is running"),
        ]

    async def _update(self) -> None:
        """Read and draw until it is cancelled; a store that is away is shown, and tried again."""
        end = asyncio.get_running_loop().time() + self._seconds
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(self._every)
            try:
                self._snapshot, self._problem = await self._read(), ""
            except QueueCoreError as error:
                self._problem = sentence_of(error)
            self._draw()
        self.stop()

    async def _read(self) -> Snapshot:
        jobs = self._connection.jobs
        return await read_snapshot(jobs.inspector, self._needs, await jobs.signatures.rules())

    def _draw(self) -> None:
        with self._drawing:
            self._replace(self._repr_mimebundle_())


def _totals(one: Snapshot) -> Line:
    totals: SnapshotTotals = one.totals
    # The running minute is not over; the one before it is.
    last = one.series[-2] if len(one.series) > 1 else None
    return (
        (exact(totals.queued), "strong"), (" queued   ", "muted"),
        (exact(totals.running), "accent"), (" running   ", "muted"),
        (exact(totals.dead), "bad" if totals.dead else "text"), (" dead   ", "muted"),
        (exact(last.completed if last else 0), "good"), (" completed in the last minute   ", "muted"),
        (plural(totals.workers, "worker"), "text"),
    )  # fmt: skip


def watch(connection: NotebookConnection, where: Filter, every: float, seconds: float) -> LiveDisplay:
    """Show a live display in the running notebook.

    Raises:
        InvalidArgument: there is no notebook, or a time that cannot be.
        StoreUnavailable: the store did not answer in time.
    """
    with in_one_sentence():
        if not every >= LEAST_SECONDS or not seconds > 0:
            raise InvalidArgument(f"every is {LEAST_SECONDS:g} s or more, and seconds more than 0")
        ipython = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        if ipython is None or shell is None or not hasattr(shell, "kernel"):
            raise InvalidArgument("watch() draws in Jupyter; elsewhere there are widget() and 'jobconsole top'")
        from IPython.display import DisplayHandle

        handle = DisplayHandle()

        def show(bundle: dict[str, str]) -> Callable[[dict[str, str]], None]:
            handle.display(bundle, raw=True)
            return lambda newer: handle.update(newer, raw=True)

        one = LiveDisplay(connection, where, every, seconds)
        one.start(shell, show)
        return one
