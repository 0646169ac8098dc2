"""The lists of the live view: running jobs, queues, workers and types, and the chart above them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

from jobconsole.actions.plan import NOT_ON_RUNNING, Choice, Target
from jobconsole.core.latency import TypeLine
from jobconsole.core.live_filter import (
    Values,
    concerns,
    leaves,
    queue_values,
    running_values,
    type_values,
    worker_values,
)
from jobconsole.core.rows import QueueLine
from jobconsole.core.running import LIVE_LIMIT, RunningJob, StableRows
from jobconsole.format import humanize
from jobconsole.format.glyphs import columns, spark
from jobconsole.format.humanize import elapsed, exact, plural, rate
from jobconsole.format.spans import Line, Spans
from jobconsole.format.words import IMMEDIATE, WORDS
from jobconsole.present.columns import RUNNING_JOBS, TYPES, WORKERS
from jobconsole.present.layout import Column
from jobconsole.present.release import ReleaseLine, deployments, release_lines, release_table, ticks
from jobconsole.tui.base.links import Link
from jobconsole.tui.widgets.pane import Pane, off_for_jobs
from jobconsole.tui.widgets.table import NO_MATCH, Table
from queue_core.model.filters import Filter, Term
from queue_core.model.report import WorkerInfo

T = TypeVar("T")

HOUR_SECONDS = 3600
"""What the chart of throughput is drawn over."""
LEAST_TICKS = 4
"""Lines of a chart from which there is one for the releases that went live."""
ROOMY = 44
"""Cells from which there is room for the peak behind the rates."""


class Chart(Pane):
    """Completed jobs by the second, the newest at the right, above the rates of what else happened."""

    can_focus = False

    def __init__(self, seconds: int | None = None, *, id: str | None = None) -> None:
        """`seconds`: over which time it is drawn; None for one bar a second."""
        super().__init__(id=id)
        self._seconds = seconds

    def heading(self) -> Spans:
        """The title, with the time that it is drawn over."""
        over = f"  last {elapsed(self._seconds)}" if self._seconds else ""
        return (("Throughput", "title"), (over, "muted"))

    def note(self) -> Spans:
        """The rate now."""
        return ((humanize.rate(self.console.model.rate("completed")), "good"), (" done", "muted"))

    def body(self, width: int, height: int) -> list[Line]:
        """Bars and legend."""
        model = self.console.model
        seconds = self._seconds or width
        points = model.history("completed", seconds)
        below = self._ticks(seconds, width) if height > LEAST_TICKS else ""
        bars = max(1, height - 1 - bool(below))
        highest = max(points, default=0)
        lines: list[Line] = [((line, "chart"),) for line in columns(points, width, bars, self.console.glyphs.levels)]
        failed = model.rate("retrying") + model.rate("dead")
        legend: Line = (
            ("enqueued ", "muted"),
            (f"{humanize.rate(model.rate('created')):<8}", "text"),
            ("failed ", "muted"),
            (f"{humanize.rate(failed):<8}", "text"),
        )
        if width >= ROOMY:
            legend = (*legend, ("peak ", "muted"), (humanize.rate(highest), "text"))
        lines += [((below, "warn"),)] if below else []
        return [*lines, legend] if height > 1 else lines

    def _ticks(self, seconds: int, width: int) -> str:
        """Where releases went live."""
        model, glyphs = self.console.model, self.console.glyphs
        found = deployments(model.snapshot) if model.snapshot is not None else ()
        return ticks(found, model.now, seconds, width, width, glyphs)


class Releases(Pane):
    """The newest releases: live workers, since when, and how many jobs died of how many that ended there."""

    can_focus = False

    def heading(self) -> Spans:
        """The title."""
        return (("Releases", "title"),)

    def note(self) -> Spans:
        """How many of them are live."""
        return ((f"{sum(one.workers > 0 for one in self._rows())} live", "muted"),)

    def body(self, width: int, height: int) -> list[Line]:
        """The list."""
        return release_table(self._rows(), self.console.render_context(), width)[:height]

    def _rows(self) -> list[ReleaseLine]:
        snapshot = self.console.model.snapshot
        return release_lines(snapshot) if snapshot is not None else []


class LiveTable(Table[T]):
    """A list that can be narrowed by what its rows have."""

    # what its rows are found by
    FIELDS: ClassVar[tuple[str, ...]] = ("word",)
    where = Filter()
    # the filter hides all there is
    _hides = False

    def values(self, row: T) -> Values:
        """Return what a row is found by."""
        raise NotImplementedError

    def narrow_to(self, where: Filter, text: str) -> None:
        """Show only what matches from now on; lists that it narrows have the filter, as written, in their titles."""
        concerned = any(concerns(self.FIELDS, term) for term in where.terms)
        self.where, self.filter_text = where, text if concerned else ""
        self.begin_again()

    def narrowed(self, rows: Iterable[T]) -> list[T]:
        """Return the rows that the filter leaves."""
        found = list(rows)
        left = [row for row in found if leaves(self.values(row), self.where)] if self.where.terms else found
        self._hides = bool(found) and not left
        return left

    def _nothing(self, width: int) -> list[Line]:
        return [(("   " + NO_MATCH, "muted"),)] if self._hides else super()._nothing(width)


class QueueTable(LiveTable[QueueLine]):
    """One line for each queue, by name."""

    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "word")
    NEVER: ClassVar[dict[str, str]] = off_for_jobs("choose a job, not a queue", "export")

    empty = "no queues yet"
    cursor_always = False
    still = False

    def __init__(self, columns: Sequence[Column[QueueLine]], *, id: str | None = None) -> None:
        super().__init__(columns, lambda queue: queue.name, id=id)

    def values(self, row: QueueLine) -> Values:
        return queue_values(row)

    def heading(self) -> Spans:
        """Title."""
        if self.console.model.snapshot is None:
            return (("Queues", "title"),)
        return (("Queues", "title"), (f"  {plural(len(self.selection.rows), 'queue')}{self.hidden()}", "muted"))

    def note(self) -> Spans:
        """How many jobs are ready over all."""
        ready = sum(queue.queued for queue in self.selection.rows)
        return ((exact(ready), "strong" if ready else "faint"), (" ready", "muted"))

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        if action not in {"pause", "drain"}:
            return ""
        row = self.selection.row
        if row is None:
            return self.nothing()
        return f"{row.label} is closed already: P opens it" if action == "drain" and row.closed else ""

    def do_open(self) -> None:
        """Go to the jobs of the queue."""
        row = self.selection.row
        if row is not None:
            self.console.navigation.open_jobs(Filter((Term("queue", "=", row.name),)), f'queue:"{row.label}"')

    def copied(self, row: QueueLine) -> str:
        """The queue's name, as it is shown."""
        return row.label


SPARK = 16
"""Cells of the throughput beside the title."""


IDLE_SECONDS = 10.0
"""How long the list of running jobs keeps its place after the last of them: panes do not jump up and down."""
NOT_RUNNING = {verb: WORDS[verb].past for verb in NOT_ON_RUNNING} | {"edit": IMMEDIATE["job", "edit"].past}
"""What cannot be done with running jobs, with its past tense."""


class RunningTable(LiveTable[RunningJob]):
    """The running jobs, longest first when they are sorted; lines do not move while they are read."""

    FIELDS: ClassVar[tuple[str, ...]] = ("type", "queue", "worker", "host", "id", "word")
    NEVER: ClassVar[dict[str, str]] = {
        action: f"a running job cannot be {past}; X cancels it" for action, past in NOT_RUNNING.items()
    }

    cursor_always = False
    # a job that ends is no alarm
    gone, alarming = "job ended", False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(RUNNING_JOBS, lambda job: job.id, id=id)
        self._stable_rows = StableRows()
        self._busy_at: float | None = None

    def values(self, row: RunningJob) -> Values:
        return running_values(row)

    def narrow_to(self, where: Filter, text: str) -> None:
        super().narrow_to(where, text)
        self._stable_rows = StableRows()

    @property
    def idle(self) -> bool:
        """Whether no job has had a line for a while, and the focus is elsewhere: the pane takes one line then."""
        if self.has_focus or self.selection.rows:
            return False
        return self._busy_at is None or time.monotonic() - self._busy_at > IDLE_SECONDS

    @property
    def reachable(self) -> bool:
        """The Tab key does not come to a pane of one line."""
        return not (self.idle and self.inner_height <= 1)

    @property
    def titled(self) -> bool:
        """Nothing has no columns."""
        return not self.idle and super().titled

    @property
    def empty(self) -> str:  # type: ignore[override]
        """How many run, where none of them runs long enough for a line."""
        snapshot = self.console.model.snapshot
        if snapshot is None or snapshot.totals.running:
            return "no long-running jobs"
        slots = snapshot.totals.slots
        free = f"{plural(slots, 'slot is', 'slots are')} free" if slots else "no worker is alive"
        return f"nothing runs {self.console.glyphs.separator} {free}"

    def heading(self) -> Spans:
        """Title with how many run, of how many that could."""
        snapshot = self.console.model.snapshot
        if snapshot is None:
            return (("Running", "title"),)
        totals = snapshot.totals
        watched = f", {exact(LIVE_LIMIT)} of them watched" if self.console.model.running.dropped else ""
        if self.idle and not self.inner_height:
            return (("Running", "title"), (f"  {self.empty}", "muted"))
        # Jobs of workers that are gone run until their lease is over, and have no slots any more.
        counted = f"{exact(totals.running)} of {plural(totals.slots, 'slot')} busy"
        words = f"  {counted if totals.running <= totals.slots > 0 else f'{exact(totals.running)} running'}{watched}"
        return (("Running", "title"), (words, "muted"))

    def note(self) -> Spans:
        """Throughput as a sparkline and a number."""
        model = self.console.model
        line = spark(model.history("completed", SPARK), SPARK, self.console.glyphs.levels)
        return ((line, "chart"), (f" {rate(model.rate('completed')):>7}", "good"), (" done", "muted"))

    def flush(self) -> None:
        """Show the model's present state."""
        model = self.console.model
        pinned = self.selection.key if self.has_focus else None
        live = self.narrowed(model.running.live.values())
        self._stable_rows.update(live, model.now.timestamp(), time.monotonic(), pinned)
        self.show(self._stable_rows.lines)
        if self.selection.rows:
            self._busy_at = time.monotonic()

    def sort(self) -> None:
        """Bring the longest running to the top."""
        self._stable_rows.sort()
        self.flush()

    def target(self, verb: Choice) -> Target | None:
        """The job under the cursor."""
        row = self.selection.row
        if row is None or row.outcome:
            return None
        return Target(f"{row.type} {row.id}", ids=(row.id,), about=1, keys=())

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        row = self.selection.row
        if action == "cancel":
            return "" if row is not None and not row.outcome else self.nothing()
        return ""

    def link(self) -> Link | None:
        """The place of the row under the cursor."""
        return None if self.selection.row is None else Link("job", self.selection.row.id)


NO_TYPE = "choose a job, not a type"


class TypeTable(LiveTable[TypeLine]):
    """One line for each type that ended attempts, those that fail most first."""

    FIELDS: ClassVar[tuple[str, ...]] = ("type", "word")
    NEVER: ClassVar[dict[str, str]] = off_for_jobs(NO_TYPE, "export") | {"open": NO_TYPE}

    empty = "no attempt has ended yet"
    cursor_always = False
    still = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(TYPES, lambda line: line.type, id=id)

    def values(self, row: TypeLine) -> Values:
        return type_values(row)

    def heading(self) -> Spans:
        """Title."""
        return (("Types", "title"), (f"  {plural(len(self.selection.rows), 'type')}{self.hidden()}", "muted"))

    def note(self) -> Spans:
        """Over which time."""
        seconds = self.console.model.latency.seconds
        return ((f"run time, last {elapsed(seconds)}" if seconds else "run time, all time", "muted"),)

    def flush(self) -> None:
        """Show the model's present state."""
        self.show(self.narrowed(self.console.model.latency.lines()))


NO_WORKER = "choose a job, not a worker"


class WorkerTable(LiveTable[WorkerInfo]):
    """One line for each worker process that announced itself."""

    FIELDS: ClassVar[tuple[str, ...]] = ("type", "queue", "worker", "host", "release", "word")
    NEVER: ClassVar[dict[str, str]] = off_for_jobs(NO_WORKER, "export") | {"open": NO_WORKER}

    empty = "no worker has announced itself: start one with jobconsole worker run module:jobs"
    cursor_always = False
    still = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(WORKERS, lambda worker: worker.id, id=id)

    def values(self, row: WorkerInfo) -> Values:
        return worker_values(row)

    def heading(self) -> Spans:
        """Title."""
        if self.console.model.snapshot is None:
            return (("Workers", "title"),)
        return (
            ("Workers", "title"),
            (f"  {plural(len(self.selection.rows), 'process', 'processes')}{self.hidden()}", "muted"),
        )

    def note(self) -> Spans:
        """How many are lost."""
        lost = sum(worker.lost for worker in self.selection.rows)
        return ((f"{self.console.glyphs.alert} {lost} lost", "bad"),) if lost else ()

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        row = self.selection.row
        if action not in {"quiet", "stop"}:
            return ""
        if row is None:
            return self.nothing()
        return "this worker is lost: it hears no orders" if row.lost else ""
