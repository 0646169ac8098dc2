"""Where running jobs stand on a screen: each keeps its line until it ends, so that nothing moves under the eye."""

from __future__ import annotations

from collections.abc import Iterable

from jobconsole.core.running import RunningJob

LISTED_AFTER = 0.3
"""Seconds a job must run to get a line; thousands of shorter ones would be noise (the throughput counts them)."""
HELD = 1.5
"""Seconds that an ended job keeps its line, so that one sees how it ended."""
FREE = "free"
"""Outcome of a line that waits for the next job."""


class Board:
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
