"""The operations path in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Literal

from queue_core.errors import FilterError, JobNotFound, QueueNotFound
from queue_core.filters import Filter, Term
from queue_core.inspection import (
    Changed,
    Conservation,
    LogPage,
    Order,
    Overview,
    Page,
    SeriesPoint,
    SignatureInfo,
    Tally,
    TypeInfo,
    minutes_tell,
)
from queue_core.job import Attempt, Job
from queue_core.joblogs import LINES
from queue_core.matching import matches
from queue_core.operations import Way
from queue_core.states import Status
from queue_core.stores.memory import changing, logs, reports
from queue_core.stores.memory.rows import JobRow, moment
from queue_core.stores.memory.state import MemoryState
from queue_core.stores.memory.store import MemoryStore

_DEAD = Term("status", "=", Status.DEAD.value)


class MemoryInspector:
    """Looks at a `MemoryStore`; see queue_core.inspection.Inspector for what each method does."""

    def __init__(self, store: MemoryStore) -> None:
        self._state = store.state

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        with self._state.lock:
            return reports.overview(self._state)

    async def get(self, job_id: str) -> Job:
        """Return one job."""
        with self._state.lock:
            return self._row(job_id).view()

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change."""
        with self._state.lock:
            found = list(islice(self._matching(where, order, cursor), limit + 1))
            more = len(found) > limit
            return Page(tuple(found[:limit]), _cursor(found[limit - 1]) if more and limit > 0 else None)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match, counting no further than `at_most`."""
        with self._state.lock:
            return sum(1 for _ in islice(self._matching(where), at_most))

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs."""
        with self._state.lock:
            return [job.id for job in islice(self._matching(where), limit)]

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return the failed attempts of a job, oldest first."""
        with self._state.lock:
            return list(self._row(job_id).attempts)

    async def logs(self, job_id: str, limit: int = LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first."""
        with self._state.lock:
            return logs.page(self._row(job_id), limit, after)

    async def types(self) -> dict[str, TypeInfo]:
        """Return what workers have announced of types."""
        with self._state.lock:
            return deepcopy(self._state.types)

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        with self._state.lock:
            dead = self._matching(where.having(_DEAD))
            return reports.signatures(self._state, dead, window, slices, minutes_tell(where))[:limit]

    async def tallies(self) -> list[Tally]:
        """Return the exact totals of every queue and type."""
        with self._state.lock:
            return self._state.totals.tallies()

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        """Return the last minutes, oldest first."""
        with self._state.lock:
            return self._state.totals.series(self._state.clock.now(), minutes, queue)

    async def conservation(self) -> Conservation:
        """Return where all jobs are."""
        with self._state.lock:
            return reports.conservation(self._state)

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead and completed jobs to queued with retry count 0."""
        return self._change(partial(changing.retry, way=Way(spread=spread)), ids)

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        return self._change(changing.delete, ids)

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        return self._change(changing.restore, ids)

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good."""
        return self._change(changing.purge, ids)

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
        return self._change(changing.cancel, ids)

    async def pause(self, queue: str) -> bool:
        """Let no worker claim from this queue."""
        return self._set_paused(queue, True)

    async def resume(self, queue: str) -> bool:
        """Let workers claim from this queue again."""
        return self._set_paused(queue, False)

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings."""
        with self._state.lock:
            found = self._state.workers.get(worker)
            if found is not None:
                found.command = command
            return found is not None

    async def ping(self) -> float:
        """Return 0: there is no way to go."""
        return 0.0

    async def facts(self) -> dict[str, Any]:
        """Return what can be said about dictionaries."""
        with self._state.lock:
            return {"backend": "memory", "now": self._state.clock.now(), "jobs": len(self._state.jobs)}

    async def close(self) -> None:
        """Nothing is connected."""

    def _row(self, job_id: str) -> JobRow:
        try:
            return self._state.jobs[job_id]
        except KeyError:
            raise JobNotFound(job_id) from None

    def _matching(self, where: Filter, order: Order = "newest", cursor: str | None = None) -> Iterator[Job]:
        """Yield the jobs that match, behind the cursor, in order."""
        newest, after = order == "newest", None if cursor is None else _key(cursor)
        now, wanted = moment(self._state.clock.now()), where.statuses()
        rows = [(moment(row.updated_at), row) for row in self._state.jobs.values() if row.status in wanted]
        for updated_at, row in sorted(rows, key=lambda pair: (pair[0], pair[1].id), reverse=newest):
            key = (updated_at, row.id)
            if after is not None and (key >= after if newest else key <= after):
                continue
            job = row.view()
            if matches(job, where, now):
                yield job

    def _change(self, verb: Callable[[MemoryState, JobRow], bool], ids: Sequence[str]) -> Changed:
        with self._state.lock:
            return changing.change(self._state, verb, ids)

    def _set_paused(self, queue: str, paused: bool) -> bool:
        with self._state.lock:
            found = self._state.queues.get(queue)
            if found is None:
                raise QueueNotFound(queue)
            changed, found.paused = found.paused is not paused, paused
            return changed


def _cursor(job: Job) -> str:
    return f"{job.updated_at.timestamp()!r} {job.id}"


def _key(cursor: str) -> tuple[datetime, str]:
    at, _, job_id = cursor.partition(" ")
    try:
        return moment(float(at)), job_id
    except ValueError:
        raise FilterError("no page gave this cursor", cursor, 0) from None
