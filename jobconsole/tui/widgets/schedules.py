"""The list of schedules and the facts of one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.message import Message

from jobconsole.actions.plan import Choice, Target, one_job
from jobconsole.core.schedules import ORDERS, ScheduleLine, TickLine, matching
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, RenderContext, Spans
from jobconsole.present.schedule import SCHEDULES, TICKS, brief_lines, schedule_lines
from jobconsole.tui.base.host import Renewal
from jobconsole.tui.base.links import Link
from jobconsole.tui.widgets.pane import off_for_jobs
from jobconsole.tui.widgets.scroll import ScrollPane
from jobconsole.tui.widgets.table import NO_MATCH, Table
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter
from queue_core.model.operation import VERBS
from queue_core.model.states import FINAL

EMPTY = "no schedules: workers write those that jobs.schedule(...) declares"
SETTLED_SECONDS = 5.0
"""After which ticks are read again although all of their jobs have come to an end."""
CHOOSE = "choose a tick's job, not a schedule: Enter shows the ticks"


class ScheduleTable(Table[ScheduleLine]):
    """One line for each schedule, by name."""

    NEVER: ClassVar[dict[str, str]] = off_for_jobs(CHOOSE)

    empty = EMPTY
    still = False

    class Read(Message):
        """The schedules have been read; `problem` is the reason when they were not."""

        def __init__(self, lines: Sequence[ScheduleLine], problem: str = "") -> None:
            super().__init__()
            self.lines = lines
            self.problem = problem

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(SCHEDULES, lambda line: line.name, id=id)
        self.where = Filter()
        self.order = 0
        # None: not loaded yet
        self.lines_read: Sequence[ScheduleLine] | None = None
        # a schedule that the cursor is to go to once it is there
        self.sought = ""
        self._renewal = Renewal(self, "schedules")

    def heading(self) -> Spans:
        """Title, with how many there are."""
        if self.lines_read is None:
            return (("Schedules", "title"), ("  reading ...", "muted"))
        return (("Schedules", "title"), (f"  {plural(len(self.selection.rows), 'schedule')}", "muted"))

    def note(self) -> Spans:
        """What needs a look; the order."""
        states = [line.state(self.console.model.now) for line in self.lines_read or ()]
        late = f"{self.console.glyphs.alert} {states.count('late')} late  " if "late" in states else ""
        paused = f"{self.console.glyphs.pause} {states.count('paused')} paused  " if "paused" in states else ""
        return ((late, "bad"), (paused, "warn"), (f"by {ORDERS[self.order][0]}", "muted"))

    @property
    def unread(self) -> bool:
        """Whether the schedules are being read."""
        return self.lines_read is None and self.empty == EMPTY

    def read(self) -> None:
        """Read the schedules again."""
        self._renewal.read("schedules", self._read)

    async def read_through(self) -> None:
        """Read them again, and return once they are read."""
        await self._read()

    async def _read(self) -> None:
        try:
            lines = await self.console.refresher.schedules()
        except QueueCoreError as error:
            self.post_message(self.Read((), str(error)))
        else:
            self.post_message(self.Read(lines))

    def on_schedule_table_read(self, message: Read) -> None:
        if message.problem:
            # What was read before stays on the screen.
            self.empty = message.problem if self.lines_read is None else self.empty
            self.repaint()
            return
        self.lines_read = message.lines
        self.narrow()

    def narrow_to(self, where: Filter, text: str) -> None:
        """Show only what matches; `text` is the filter as it was written."""
        self.where, self.filter_text = where, text
        self.begin_again()
        self.narrow()

    def narrow(self) -> None:
        """Show what matches the filter, in the order that was chosen."""
        lines = self.lines_read or ()
        found = matching(lines, self.where, self.console.model.now)
        self.empty = NO_MATCH if lines and not found else EMPTY
        self.show(sorted(found, key=ORDERS[self.order][1]), follow=False)
        self._seek()

    def seek(self, name: str) -> None:
        """Put the cursor on a schedule, as soon as it is there."""
        self.sought = name
        if self.lines_read is not None:
            self._seek()

    def _seek(self) -> None:
        sought, self.sought = self.sought, ""
        if not sought:
            return
        if sought in self.selection.places:
            self.move_to(self.selection.places[sought])
        else:
            self.console.show_notice(f"no schedule named '{sought}'", "warn")

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        return self.nothing() if action in {"pause", "trigger", "open", "full"} and not self.selection.row else ""

    def do_sort(self) -> None:
        """Sort by the next of the orders."""
        self.order = (self.order + 1) % len(ORDERS)
        self.narrow()

    def link(self) -> Link | None:
        """The place of the schedule under the cursor."""
        return None if self.selection.row is None else Link("schedule", self.selection.row.name)


class TickTable(Table[TickLine]):
    """The last ticks of a schedule, the newest first; the verbs act on the job that a tick brought."""

    still = False

    class Read(Message, bubble=False):
        """The ticks of a schedule have been read; `problem` is the reason when they were not."""

        def __init__(self, name: str, ticks: Sequence[TickLine], problem: str = "") -> None:
            super().__init__()
            self.name = name
            self.ticks = ticks
            self.problem = problem

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(TICKS, lambda line: line.key, id=id)
        self.schedule = ""
        self.label = ""
        self._read_at = 0.0
        self._renewal = Renewal(self, "ticks")

    def heading(self) -> Spans:
        """Title."""
        return (("Last ticks", "title"), (f"  {self.label}", "muted"))

    def about(self, line: ScheduleLine | None) -> None:
        """Show the ticks of another schedule, or of the same one again."""
        name = line.name if line else ""
        if name != self.schedule:
            self.schedule, self.label = name, line.label if line else ""
            self.begin_again()
            self.empty, self._read_at = "reading ..." if name else "nothing selected", 0.0
            self.repaint()
            self.read(0.08)
        elif line is not None and not self._settled(line):
            self.read()

    def read(self, delay: float = 0.0) -> None:
        """Read the ticks; `delay` seconds later, so that a moving cursor reads only where it stops."""
        if self.schedule:
            self._renewal.read(self.schedule, partial(self._read, self.schedule, delay))

    def _settled(self, line: ScheduleLine) -> bool:
        """Whether a look would hardly show anything new."""
        rows, last = self.selection.rows, line.planned.last_at
        new = last is not None and not (rows and rows[0].tick.at >= last)
        moving = any(row.job is not None and row.job.status not in FINAL for row in rows)
        return not new and not moving and time.monotonic() - self._read_at < SETTLED_SECONDS

    async def _read(self, name: str, delay: float) -> None:
        await self.console.pause(delay)
        try:
            ticks = await self.console.refresher.ticks(name)
        except QueueCoreError as error:
            self.post_message(self.Read(name, (), str(error)))
        else:
            self.post_message(self.Read(name, ticks))

    def on_tick_table_read(self, message: Read) -> None:
        if message.name != self.schedule:
            return
        self._read_at = time.monotonic()
        if message.problem:
            self.empty = message.problem
            self.repaint()
            return
        self.empty = "no tick has passed yet"
        self.show(message.ticks)

    def target(self, verb: Choice) -> Target | None:
        """The job of the tick under the cursor."""
        job = self.selection.row.job if self.selection.row else None
        return None if job is None else one_job(job.id, job.type, job.status)

    def refuses(self, action: str) -> str:
        """Why an action makes no sense on this row."""
        if action not in VERBS and action not in {"export", "open", "full", "compare"}:
            return ""
        row = self.selection.row
        if row is None:
            return self.nothing()
        if row.job is None:
            gone = "the job of this tick is not kept any more"
            return "this tick brought no job" if row.tick.job_id is None else gone
        if action in VERBS and row.job.status not in VERBS[action].states:
            return f"this job is {row.job.status}"
        return ""

    def link(self) -> Link | None:
        """The place of the tick's job; of the schedule, where there is none."""
        if self.selection.row is not None and self.selection.row.job is not None:
            return Link("job", self.selection.row.job.id)
        return Link("schedule", self.schedule) if self.schedule else None

    def copied(self, row: TickLine) -> str:
        """The id of the tick's job; "" where it brought none."""
        return row.tick.job_id or ""


class ScheduleFacts(ScrollPane):
    """The next ticks, the options, the payload."""

    GLANCE = 9
    NEVER: ClassVar[dict[str, str]] = {
        **off_for_jobs(CHOOSE),
        "filter": "go back to the list to filter it",
        "sort": "go back to the list to sort it",
    }

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.line: ScheduleLine | None = None
        # when next ticks were worked out: that is too much for four times a second
        self._kept_for: tuple[object, ...] = ()
        self._kept: list[Line] = []

    def heading(self) -> Spans:
        """Whose facts these are."""
        return (("Schedule", "title"), (f"  {self.line.label}" if self.line else "", "muted"))

    def about(self, line: ScheduleLine | None) -> None:
        """Show another schedule, or the same one as it is now."""
        if line is None or self.line is None or line.name != self.line.name:
            self.top = 0
        self.line = line
        self.repaint()

    def content(self, width: int) -> list[Line]:
        """The facts."""
        if self.line is None:
            return [(("nothing selected", "muted"),)]
        context = self.console.render_context()
        needs = (self.line, width, self.inner_height, int(context.now.timestamp()), context.glyphs.dot)
        if needs != self._kept_for:
            self._kept_for, self._kept = needs, self._lines_of(self.line, context, width)
        return self._kept

    def _lines_of(self, line: ScheduleLine, context: RenderContext, width: int) -> list[Line]:
        if self.glance:
            return brief_lines(line, context, width, self.inner_height)
        return schedule_lines(line, context, width)

    def link(self) -> Link | None:
        """The place of the schedule."""
        return None if self.line is None else Link("schedule", self.line.name)

    def do_copy(self) -> None:
        """Copy the schedule's name."""
        if self.line is not None:
            self.console.navigation.copy(self.line.name)
