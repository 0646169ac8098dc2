"""The jobs that a process wrote last, written again where the primary that took them is replaced by another one.

A replica is some milliseconds behind its primary, and a primary that is demoted as planned takes commands until its
clients hear of that: what it accepted meanwhile is lost with it. The process that wrote it still has it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Protocol

from queue_core.errors import StoreRefused, StoreUnavailable
from queue_core.model.job import Inserted, NewJob, weight_of
from queue_core.ports.replicas import Announce
from queue_core.runtime import end_tasks, parts_of

logger = logging.getLogger("queue_core.delivery")

KEEP_SECONDS = 30.0
"""For which jobs are remembered while their primary answers: three times what it takes Sentinels to make a replica of
one that was demoted, or frozen, and of which no client has heard."""
MAX_JOBS = 50_000
"""Jobs of a process that are remembered at most: two seconds of the fastest producer."""
MAX_CHARACTERS = 32 << 20
"""Of their payloads."""
CHECK_INTERVAL = 1.0
"""Seconds between two checks of the primary by a process that remembers jobs: one that rests has to notice, too."""
JOBS_PER_LOOKUP = 2000
"""Jobs that are looked for at a time."""
UNKNOWN_ERA = -1
"""In place of an era: it is not known which primary has the jobs."""

Restore = Callable[[Sequence[NewJob]], Awaitable[tuple[Sequence[NewJob], Sequence[Inserted]]]]


class Primaries(Protocol):
    """The primaries that a client writes to."""

    def era(self) -> int:
        """Return a number that grows whenever one of them is replaced: what is sent now reaches those of its era."""
        ...

    def watch(self, queues: Collection[str]) -> None:
        """Note that these queues are written to."""
        ...

    async def check(self) -> None:
        """Ask the primaries of these queues whether they still are, and the same ones.

        Raises:
            StoreUnavailable: one of them does not answer.
        """
        ...


class _Entry:
    """Jobs that were written together."""

    __slots__ = ("at", "era", "jobs", "weight", "written_at")

    def __init__(self, jobs: Sequence[NewJob], era: int) -> None:
        self.jobs = jobs
        # of the primaries that are known to have had them
        self.era = era
        # time.monotonic of their answer, and of the last one that showed that they are there
        self.written_at = self.at = time.monotonic()
        self.weight = weight_of(jobs)


class RecentJobs:
    """Remembers written jobs, and restores those that a new primary lacks, in the order in which they were written.

    It belongs to one event loop. Writes wait while jobs are restored: those of one ordering key keep their order.
    """

    def __init__(
        self,
        primaries: Primaries,
        restore: Restore,
        seconds: float = KEEP_SECONDS,
    ) -> None:
        self._primaries = primaries
        # writes those of these jobs that the store lacks, whatever a queue refuses by now; returns them and the answers
        self._restore = restore
        self._seconds = seconds
        # gets what was restored
        self.announce: Announce | None = None
        self._entries: deque[_Entry] = deque()
        self._jobs = self._characters = 0
        self._watched: set[str] = set()
        # the primaries of this era have all entries
        self._era = 0
        # time.monotonic before the last check that has found them: a process that is frozen checks nothing
        self._checked_at = time.monotonic()
        self._watching: asyncio.Task[None] | None = None
        self._restoring: asyncio.Task[None] | None = None

    async def ready(self) -> int:
        """Wait until what a replaced primary has lost is there again; return the era that what is written now has.

        Raises:
            StoreUnavailable: its successor does not answer.
        """
        while (era := self._primaries.era()) != self._era and self._entries:
            if self._restoring is None or self._restoring.done():
                self._restoring = asyncio.create_task(self._restore_all())
            # Others wait for it, too.
            await asyncio.shield(self._restoring)
        return era

    def add(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted], era: int) -> None:
        """Remember jobs that were written, or found, after `ready` returned this era."""
        if any([one.due is not None or one.id != job.id for job, one in zip(jobs, inserted, strict=True)]):
            # Holders of unique keys belong to the producers that have written them.
            jobs = [_as_written(job, one) for job, one in zip(jobs, inserted, strict=True) if one.id == job.id]
        self.keep(jobs, era)

    def keep(self, jobs: Sequence[NewJob], era: int = UNKNOWN_ERA) -> None:
        """Remember jobs that are in the store."""
        if not jobs:
            return
        if not self._entries:
            self._era, self._checked_at = era, time.monotonic()
        self._era = min(self._era, era)
        entry = _Entry(jobs if len(jobs) <= MAX_JOBS else jobs[-MAX_JOBS:], era)
        queues = {job.queue for job in jobs}
        if not queues <= self._watched:
            self._watched |= queues
            self._primaries.watch(queues)
        self._entries.append(entry)
        self._jobs += len(entry.jobs)
        self._characters += entry.weight
        self._forget()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def wait_until_restored(self, ids: Collection[str]) -> bool:
        """Wait until those of these jobs that a new primary may lack are there again; False: none is remembered.

        Raises:
            StoreUnavailable: a primary does not answer.
        """
        wanted = set(ids)
        if not any(job.id in wanted for entry in self._entries for job in entry.jobs):
            return False
        await self._primaries.check()
        await self.ready()
        return True

    def _forget(self) -> None:
        """Forget what was old when the primary that has it was seen last, and what is too much."""
        entries = self._entries
        # What a successor has to be asked for does not grow old.
        since = self._checked_at - self._seconds if self._primaries.era() == self._era else float("-inf")
        while entries and (entries[0].at < since or self._jobs > MAX_JOBS or self._characters > MAX_CHARACTERS):
            entry = entries.popleft()
            self._jobs -= len(entry.jobs)
            self._characters -= entry.weight

    async def _watch(self) -> None:
        """Check the primary from time to time, as long as jobs are remembered."""
        while self._entries:
            await asyncio.sleep(CHECK_INTERVAL)
            asked_at = time.monotonic()
            try:
                await self._primaries.check()
                await self.ready()
            except StoreUnavailable as error:
                logger.debug("written jobs are looked for later: %s", error)
            except Exception:
                logger.exception("written jobs were not looked for")
            else:
                self._checked_at = asked_at
                self._forget()

    async def _restore_all(self) -> None:
        began, looked_for, restored, replaced = time.monotonic(), 0, 0, False
        oldest = began
        while True:
            era = self._primaries.era()
            left = [entry for entry in self._entries if entry.era != era]
            if not left:
                break
            replaced = replaced or any(entry.era != UNKNOWN_ERA for entry in left)
            oldest = min(oldest, left[0].at)
            for some in parts_of(left, lambda entry: len(entry.jobs), JOBS_PER_LOOKUP):
                looked_for += sum(len(entry.jobs) for entry in some)
                number, taken = await self._restore_some([job for entry in some for job in _remaining(entry)])
                restored += number
                for entry in some:
                    entry.era, entry.at = era, time.monotonic()
                    if taken:
                        self._drop(entry, taken)
                if self._primaries.era() != era:
                    break
        self._era = era
        if replaced:
            logger.info(
                "redis: the primary was replaced; jobs of the last %.0f s looked for: %d, inserted again: %d",
                began - oldest,
                looked_for,
                restored,
            )

    def _drop(self, entry: _Entry, ids: Collection[str]) -> None:
        """Forget jobs of an entry, unless it was forgotten meanwhile."""
        left = [job for job in entry.jobs if job.id not in ids]
        if len(left) == len(entry.jobs) or entry not in self._entries:
            return
        weight = weight_of(left)
        self._jobs -= len(entry.jobs) - len(left)
        self._characters -= entry.weight - weight
        entry.jobs, entry.weight = left, weight
        if not left:
            self._entries.remove(entry)

    async def _restore_some(self, jobs: Sequence[NewJob]) -> tuple[int, set[str]]:
        """Return how many jobs were written again, and those that never will be: others have taken their unique keys.

        Once such a key is free the job would come back, minutes after it was lost.
        """
        try:
            restored, inserted = await self._restore(jobs)
        except StoreRefused as error:
            if error.passing:
                raise
            # It would refuse them for ever, and nothing else could be written.
            logger.warning("jobs that the primary before had and that cannot be looked for: %d: %s", len(jobs), error)
            return 0, set()
        if restored and self.announce is not None:
            await self.announce(restored, inserted)
        taken = {job.id for job, one in zip(restored, inserted, strict=True) if one.id != job.id}
        return len(restored) - len(taken), taken

    async def close(self) -> None:
        """Restore what is known to be lacking, if the new primary answers; forget everything."""
        try:
            if self._watching is not None:
                await self.ready()
        except StoreUnavailable as error:
            logger.debug("written jobs were not looked for: %s", error)
        finally:
            self._entries.clear()
            self._jobs = self._characters = 0
            tasks = self._watching, self._restoring
            self._watching = self._restoring = None
            await end_tasks(*tasks)


def _as_written(job: NewJob, one: Inserted) -> NewJob:
    """Return a job that is due when it was at first."""
    return job if one.due is None else job._replace(delay=0.0, run_at=one.due)


def _remaining(entry: _Entry) -> Iterator[NewJob]:
    """Yield the jobs of an entry; unique keys hold for what is left of their time."""
    passed = time.monotonic() - entry.written_at
    for job in entry.jobs:
        yield (
            job if job.unique_seconds is None else job._replace(unique_seconds=max(0.001, job.unique_seconds - passed))
        )
