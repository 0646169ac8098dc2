"""Ordering keys and unique keys in memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field

from queue_core.states import FINAL
from queue_core.stores.memory.rows import JobRow

Key = tuple[str, str]
"""A queue and a key."""


@dataclass(slots=True)
class Gate:
    """An ordering key with unfinished jobs."""

    # jobs that were let through and have not ended
    open: int = 0
    # (order of arrival, id) of ready jobs that wait for their turn, sorted
    waiting: list[tuple[int, str]] = field(default_factory=list)


class Gates:
    """Lets the jobs of an ordering key through, so many at a time, in the order of their arrival."""

    def __init__(self) -> None:
        self._gates: defaultdict[Key, Gate] = defaultdict(Gate)

    def arrive(self, row: JobRow, most: int) -> None:
        """Let a job through that becomes ready, or keep it waiting."""
        if row.key is None or row.holds:
            return
        gate = self._gates[row.queue, row.key]
        if gate.open < most:
            gate.open += 1
            row.holds = True
        else:
            insort(gate.waiting, (row.sequence, row.id))

    def leave(self, row: JobRow) -> None:
        """Forget a job that waits for its turn, for it is cancelled."""
        if row.key is not None:
            waiting = self._gates[row.queue, row.key].waiting
            del waiting[bisect_left(waiting, (row.sequence, row.id))]
            self._tidy((row.queue, row.key))

    def let_go(self, row: JobRow, most: int) -> list[str]:
        """Close the gate behind a job that it let through; return the ids of those whose turn it is now."""
        if row.key is None or not row.holds:
            return []
        row.holds = False
        gate = self._gates[row.queue, row.key]
        gate.open -= 1
        turns = gate.waiting[: max(0, most - gate.open)]
        del gate.waiting[: len(turns)]
        gate.open += len(turns)
        self._tidy((row.queue, row.key))
        return [job_id for _, job_id in turns]

    def _tidy(self, key: Key) -> None:
        gate = self._gates[key]
        if not gate.open and not gate.waiting:
            del self._gates[key]


class UniqueKeys:
    """Who holds a unique key, and until when."""

    def __init__(self) -> None:
        # key -> its holder's id and the end in seconds since the epoch, or None: while the holder is unfinished
        self._held: dict[Key, tuple[str, float | None]] = {}

    def holder(self, key: Key, jobs: dict[str, JobRow], now: float) -> str | None:
        """Return the id of the job that holds a key now."""
        if key not in self._held:
            return None
        job_id, until = self._held[key]
        if until is not None:
            return job_id if until > now else None
        row = jobs.get(job_id)
        return None if row is None or row.status in FINAL else job_id

    def take(self, key: Key, job_id: str, until: float | None) -> None:
        """Give a key that nobody holds to a job."""
        self._held[key] = (job_id, until)

    def drop(self, key: Key, job_id: str) -> None:
        """Take a key away from a job that holds it while it is unfinished."""
        if self._held.get(key) == (job_id, None):
            del self._held[key]

    def prune(self, jobs: dict[str, JobRow], now: float) -> None:
        """Forget the keys that nobody holds any more."""
        for key in [key for key in self._held if self.holder(key, jobs, now) is None]:
            del self._held[key]
