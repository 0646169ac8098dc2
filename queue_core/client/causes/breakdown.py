"""What the dead jobs of an error have in common, and what distinguishes them from completed jobs of their type.

Queue and type are counted; everything else is known of a sample: the newest dead jobs, and others from places that are
evenly spread over the time in which they died. A payload's fields are compared with those of the completed jobs of the
same type that ended last: first come those whose value is frequent among the dead and rare among the completed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from queue_core.client.causes.fields import TOP_VALUES, bounded, fields, most, rendered
from queue_core.model.filters import Filter, Term, host_of
from queue_core.model.job import Job
from queue_core.model.report import Breakdown, DeadCounts, Dimension, Share
from queue_core.model.states import Status
from queue_core.ports.inspector import Inspector

READ_SECONDS = 0.2
"""After which no more jobs are read; what was read is then taken apart in 0.1 to 0.2 s."""
NEWEST_JOBS = 1_000
"""Newest dead jobs that are looked at."""
JOBS_PER_READ = 125
"""Of them in one read."""
SEEK_PLACES = 20
"""Places in the time before at which others are looked at."""
JOBS_PER_PLACE = 50
"""Jobs at such a place."""
PLACES_PER_READ = 5
"""Places that are read at a time."""
COMPLETED_COMPARED, COMPLETED_READ = 400, 20_000
"""Completed jobs of the type that are compared with, and among how many of the newest completed ones."""

_STATUS = {status: Term("status", "=", status.value) for status in Status}


async def breakdown(inspector: Inspector, signature: str, seconds: float = READ_SECONDS) -> Breakdown:
    """Return what the dead jobs of an error have in common; after so many `seconds` it reads no more.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    began = time.monotonic()
    sample = _Sample(inspector, signature, began + seconds)
    await sample.read()
    # Thousands of payloads are taken apart, which no screen is to wait for.
    return await asyncio.to_thread(_broken_down, sample, began)


class _Sample:
    """The jobs that are looked at."""

    def __init__(self, inspector: Inspector, signature: str, deadline: float) -> None:
        self._inspector = inspector
        self._deadline = deadline
        self.signature = signature
        self.where = Filter((_STATUS[Status.DEAD], Term("signature", "=", signature)))
        # by id
        self.dead: dict[str, Job] = {}
        self.completed: Sequence[Job] = ()
        self.counts = DeadCounts((), None, None)

    def usual_type(self) -> str:
        """Return the type that most of the dead have."""
        types = Counter(job.type for job in self.dead.values())
        return types.most_common(1)[0][0] if types else ""

    async def read(self) -> None:
        """Read the newest first, then what they are compared with, then more of them."""
        await self._take(None, JOBS_PER_READ)
        counting = asyncio.ensure_future(self._inspector.dead_counts(self.signature))
        try:
            if self.dead:
                where = Filter((_STATUS[Status.COMPLETED], Term("type", "=", self.usual_type())))
                self.completed = await self._inspector.sample(where, COMPLETED_COMPARED, among=COMPLETED_READ)
            await self._more()
            await asyncio.wait({counting}, timeout=max(0.0, self._deadline - time.monotonic()))
            if counting.done():
                self.counts = counting.result()
                await self._seek(self.counts.first)
        finally:
            counting.cancel()

    async def _more(self) -> None:
        """Read the rest of the newest."""
        while JOBS_PER_READ <= len(self.dead) < NEWEST_JOBS and time.monotonic() < self._deadline:
            before = len(self.dead)
            await self._take(min(job.updated_at for job in self.dead.values()), JOBS_PER_READ)
            if len(self.dead) < before + JOBS_PER_READ // 2:
                return

    async def _seek(self, first: datetime | None) -> None:
        """Read some from everywhere in the time before the newest."""
        if len(self.dead) < NEWEST_JOBS or first is None:
            return
        last = min(job.updated_at for job in self.dead.values())
        step = (last - first) / SEEK_PLACES
        places = [last - step * number for number in range(1, SEEK_PLACES + 1)]
        for start in range(0, SEEK_PLACES, PLACES_PER_READ):
            if time.monotonic() >= self._deadline:
                return
            await asyncio.gather(
                *(self._take(place, JOBS_PER_PLACE) for place in places[start : start + PLACES_PER_READ])
            )

    async def _take(self, before: datetime | None, limit: int) -> None:
        jobs = await self._inspector.sample(self.where, limit, before)
        self.dead.update({job.id: job for job in jobs})


def _broken_down(sample: _Sample, began: float) -> Breakdown:
    dead, completed, counts = list(sample.dead.values()), sample.completed, sample.counts
    ends = [job.updated_at for job in completed]
    usual = sample.usual_type()
    of_type = [job for job in dead if job.type == usual]
    found, compared = fields(of_type, completed)
    return Breakdown(
        signature=sample.signature,
        type=usual,
        count=counts.total,
        sampled=len(dead),
        completed=len(completed),
        since=min(ends, default=None),
        first=counts.first,
        dimensions=tuple(_dimensions(dead, completed, counts)),
        fields=tuple(found),
        compared=compared,
        seconds=time.monotonic() - began,
    )


_PROPERTIES: Mapping[str, Any] = {
    "release": lambda job: [job.release] if job.release else [],
    "host": lambda job: [host_of(job.worker)] if job.worker else [],
    "worker": lambda job: [job.worker] if job.worker else [],
    "queue": lambda job: [job.queue],
    "type": lambda job: [job.type],
    "tag": lambda job: job.tags,
}


def _dimensions(dead: Sequence[Job], completed: Sequence[Job], counts: DeadCounts) -> Iterator[Dimension]:
    """Yield what is known of where the jobs ran and what they are, where any of them has that property."""
    exact = {"queue": Counter[str](), "type": Counter[str]()}
    for row in counts.rows:
        exact["queue"][row.queue] += row.count
        exact["type"][row.type] += row.count
    for name, values_of in _PROPERTIES.items():
        counted = name in exact and counts.counted >= len(dead)
        found = exact[name] if counted else Counter(value for job in dead for value in set(values_of(job)))
        total = sum(found.values()) if counted else len(dead)
        other = Counter(value for job in completed for value in set(values_of(job)))
        if not found:
            continue
        # Completed jobs were chosen by their type: their share means nothing.
        of = len(completed) if name != "type" else 0
        shares = [
            Share(bounded(value), number / total, other[value] / of if of else None, rendered(Term(name, "=", value)))
            for value, number in most(found, TOP_VALUES)
        ]
        known = total if counted else sum(1 for job in dead if values_of(job))
        yield Dimension(name, tuple(shares), len(found), known, counted and known == counts.total)
