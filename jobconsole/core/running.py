"""The running jobs, kept current by events and corrected by snapshots; independent of any screen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from jobconsole.core.rows import LONGEST_LINE, LONGEST_NAME, JobLine
from queue_core.model.events import Event, EventName
from queue_core.model.text import safe

LIVE_LIMIT = 5_000
"""Running jobs kept; beyond it the newest are left out, and `dropped` is set."""
ENDED_LIMIT = 20_000
"""Ended attempts remembered, so that a late event cannot bring one back."""

_ENDINGS = frozenset({EventName.COMPLETED, EventName.RETRYING, EventName.DEAD, EventName.CANCELLED, EventName.RELEASED})


class RunningJob:
    """One attempt that runs or has just ended. Changed in place: screens keep references to the object."""

    __slots__ = (
        "ended", "id", "message", "outcome", "priority", "progress", "queue", "started", "token", "touched", "type",
        "worker",
    )  # fmt: skip

    def __init__(self, job_id: str, token: int, type_: str, queue: str, started: float) -> None:
        self.id = job_id
        self.token = token
        self.type = type_
        self.queue = queue
        # seconds since the epoch by the store's clock, as precisely as it is known
        self.started = started
        self.priority: int | None = None
        self.worker = ""
        self.progress = 0
        self.message = ""
        # "" while it runs, then the name of the event that ended it, or "gone"
        self.outcome = ""
        # this process's steady clock
        self.ended = 0.0
        self.touched = 0.0

    @property
    def key(self) -> str:
        """What a cursor holds on to."""
        return self.id


class RunningJobs:
    """All running jobs by id. For each job only what is newer by (token, order of state) is applied."""

    def __init__(self) -> None:
        self.live: dict[str, RunningJob] = {}
        self.dropped = False
        self._ended: OrderedDict[str, int] = OrderedDict()

    def apply(self, event: Event, at: float, steady: float) -> None:
        """Apply one event. `at`: seconds since the epoch by the store's clock; `steady`: this process's clock."""
        name, token = event.event, event.token
        if token <= self._ended.get(event.id, 0):
            return
        if name in _ENDINGS:
            self._end(event.id, token, name, steady)
        elif name in (EventName.CLAIMED, EventName.PROGRESS):
            job = self._running(event.id, token, event.type, event.queue, at, steady)
            if job is not None:
                self._fill(job, event)

    def progress_of(self, job_id: str, token: int, progress: int) -> tuple[int, str] | None:
        """Return progress and message of an attempt from its events; None where the row that was read is as recent."""
        job = self.live.get(job_id)
        if job is None or job.token != token or job.progress < progress or not (job.progress or job.message):
            return None
        return job.progress, job.message

    def adopt(self, rows: Iterable[JobLine], complete: bool, began: float, lossy: bool) -> None:
        """Put right what a snapshot contradicts. `began`: when its read began, by this process's steady clock.

        Changes by events since then are newer than the snapshot and are kept. A snapshot that is not `complete` shows
        nothing about jobs that started after its last one: they are kept, unless events were lost (`lossy`). Then they
        are removed, and come back with their next event or a snapshot that has them.
        """
        seen, last = set(), 0.0
        for row in rows:
            seen.add(row.id)
            last = row.started_at.timestamp() if row.started_at else last
            self._take(row, began)
        for job in list(self.live.values()):
            judged = complete or lossy or job.started <= last
            if job.id not in seen and judged and job.touched < began:
                self._end(job.id, job.token, "gone", began, sure=complete)

    def _take(self, row: JobLine, began: float) -> None:
        if row.token <= self._ended.get(row.id, 0):
            return
        started = row.started_at.timestamp() if row.started_at else 0.0
        job = self._running(row.id, row.token, row.type, row.queue, started, 0.0)
        if job is None:
            return
        job.started = started or job.started
        job.priority, job.worker = row.priority, row.worker
        # The store gets progress with the heartbeat only: an event's is newer, unless events fail to arrive.
        if job.touched == 0 or (job.touched < began and row.progress > job.progress):
            job.progress, job.message = row.progress, row.message

    def _running(
        self, job_id: str, token: int, type_: str, queue: str, started: float, steady: float
    ) -> RunningJob | None:
        job = self.live.get(job_id)
        if job is not None and token < job.token:
            return None
        if job is None or token > job.token:
            if job is not None:
                self._end(job_id, job.token, "gone", steady)
            elif len(self.live) >= LIVE_LIMIT:
                self.dropped = True
                return None
            job = RunningJob(job_id, token, safe(type_, LONGEST_NAME), safe(queue, LONGEST_NAME), started)
            self.live[job_id] = job
        job.touched = max(job.touched, steady)
        return job

    def _fill(self, job: RunningJob, event: Event) -> None:
        extra = event.extra or {}
        if event.event == EventName.CLAIMED:
            priority = extra.get("priority")
            job.priority = priority if isinstance(priority, int) else job.priority
            job.worker = safe(str(extra.get("worker", job.worker)), LONGEST_NAME)
            return
        progress = extra.get("progress")
        if isinstance(progress, int | float):
            job.progress = max(0, min(100, int(progress)))
        job.message = safe(str(extra.get("message", "")), LONGEST_LINE)

    def _end(self, job_id: str, token: int, outcome: str, steady: float, sure: bool = True) -> None:
        job = self.live.get(job_id)
        if job is not None:
            if token < job.token:
                return
            del self.live[job_id]
            job.outcome, job.ended = outcome, steady
            if outcome == EventName.COMPLETED:
                job.progress = 100
        if sure:
            self._remember(job_id, token)
        if len(self.live) < LIVE_LIMIT:
            self.dropped = False

    def _remember(self, job_id: str, token: int) -> None:
        self._ended[job_id] = token
        self._ended.move_to_end(job_id)
        if len(self._ended) > ENDED_LIMIT:
            self._ended.popitem(last=False)


LISTED_AFTER = 0.3
"""Seconds a job must run to get a line; thousands of shorter ones would be noise (the throughput counts them)."""
HELD = 1.5
"""Seconds that an ended job keeps its line, so that one sees how it ended."""
FREE = "free"
"""Outcome of a line that waits for the next job."""


class StableRows:
    """Lines for running jobs. An ended job's line is shown for a moment, then free for the next job."""

    def __init__(self) -> None:
        self.lines: list[RunningJob] = []
        self._freed = 0

    def update(self, live: Iterable[RunningJob], wall: float, steady: float, pinned: str | None = None) -> None:
        """Free old lines and place new jobs. `wall`: the store's clock; `pinned`: an id that keeps its line."""
        for index, job in enumerate(self.lines):
            if job.outcome and job.outcome != FREE and steady - job.ended > HELD and job.id != pinned:
                self.lines[index] = self._free()
        shown = {job.id for job in self.lines if not job.outcome}
        waiting = [job for job in live if job.id not in shown and wall - job.started >= LISTED_AFTER]
        waiting.sort(key=_age_first)
        self._place(waiting)
        self._tidy()

    def sort(self) -> None:
        """Bring the longest running to the top, ended ones out."""
        self.lines = sorted((job for job in self.lines if not job.outcome), key=_age_first)

    def _free(self) -> RunningJob:
        self._freed += 1
        line = RunningJob(f"free {self._freed}", 0, "", "", 0.0)
        line.outcome = FREE
        return line

    def _place(self, waiting: list[RunningJob]) -> None:
        free = iter([index for index, job in enumerate(self.lines) if job.outcome == FREE])
        for job in waiting:
            index = next(free, None)
            if index is None:
                self.lines.append(job)
            else:
                self.lines[index] = job

    def _tidy(self) -> None:
        while self.lines and self.lines[-1].outcome == FREE:
            self.lines.pop()
        holes = sum(job.outcome == FREE for job in self.lines)
        # A few gaps are calmer than moving lines; many are a ragged picture.
        if holes > max(2, len(self.lines) // 3):
            self.lines = [job for job in self.lines if job.outcome != FREE]


def _age_first(job: RunningJob) -> tuple[float, str]:
    return job.started, job.id
