"""The operations path on Redis alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

from queue_core.errors import JobNotFound
from queue_core.filters import Filter
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
)
from queue_core.job import Attempt, Job
from queue_core.joblogs import LINES
from queue_core.rules import Rules
from queue_core.settings import RedisSettings
from queue_core.stores.redis.changes import Changes
from queue_core.stores.redis.link import SCHEMA, Link
from queue_core.stores.redis.listing import Listing
from queue_core.stores.redis.logs import read_log, read_types
from queue_core.stores.redis.overview import Overviews
from queue_core.stores.redis.records import LIGHT, attempts_of, job_of
from queue_core.stores.redis.signatures import Signatures

_WHOLE = (*LIGHT, "payload", "result")


class RedisInspector:
    """Looks at what a `RedisStore` keeps; see queue_core.inspection.Inspector for what each method does."""

    def __init__(self, settings: RedisSettings, rules: Rules | None = None) -> None:
        self._link = Link(settings)
        self._listing = Listing(self._link)
        self._signatures = Signatures(self._link)
        self._overviews = Overviews(self._link, rules or {})
        self._changes = Changes(self._link, rules or {})

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        return await self._overviews.overview()

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: no job has this id.
        """
        found = await self._link.find([job_id], _WHOLE)
        if job_id not in found:
            raise JobNotFound(job_id)
        queue, row = found[job_id]
        last = await self._attempts(queue, job_id, -1)
        return job_of(queue, job_id, dict(zip(_WHOLE, row, strict=True)), last[0].traceback if last else None)

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change.

        Raises:
            FilterError: no page gave this cursor.
        """
        return await self._listing.jobs(where, limit, cursor, order)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match, counting no further than `at_most`."""
        return await self._listing.count(where, at_most)

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first."""
        return await self._listing.ids(where, limit)

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return the last failed attempts of a job, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        found = await self._link.find([job_id], ["status"])
        if job_id not in found:
            raise JobNotFound(job_id)
        return await self._attempts(found[job_id][0], job_id, 0)

    async def logs(self, job_id: str, limit: int = LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        return await read_log(self._link, job_id, limit, after)

    async def types(self) -> dict[str, TypeInfo]:
        """Return what workers have announced of types."""
        return await read_types(self._link)

    async def _attempts(self, queue: str, job_id: str, first: int) -> list[Attempt]:
        commands = self._link.batch()
        commands.lrange(self._link.keys.of(queue, f"attempts:{job_id}"), first, -1)
        (texts,) = await self._link.send(commands)
        return attempts_of(job_id, texts)

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        return await self._signatures.signatures(where, window, slices, limit)

    async def tallies(self) -> list[Tally]:
        """Return the exact totals of every queue and type."""
        return await self._overviews.tallies()

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        """Return the last minutes, oldest first, empty ones included."""
        return await self._overviews.series(minutes, queue)

    async def conservation(self) -> Conservation:
        """Return where all jobs are, from one consistent read."""
        return await self._overviews.conservation()

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead and completed jobs to queued with retry count 0."""
        return await self._changes.retry(ids, spread)

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        return await self._changes.delete(ids)

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        return await self._changes.restore(ids)

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good."""
        return await self._changes.purge(ids)

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
        return await self._changes.cancel(ids)

    async def pause(self, queue: str) -> bool:
        """Let no worker claim from this queue; False when it was paused already.

        Raises:
            QueueNotFound: no queue has this name.
        """
        return await self._changes.pause(queue, True)

    async def resume(self, queue: str) -> bool:
        """Let workers claim from this queue again; False when it was not paused.

        Raises:
            QueueNotFound: no queue has this name.
        """
        return await self._changes.pause(queue, False)

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings; False when there is no such worker."""
        return await self._changes.command(worker, command)

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        start = time.perf_counter()
        commands = self._link.batch()
        commands.ping()
        await self._link.send(commands)
        return time.perf_counter() - start

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server; what a server does not tell is None."""
        facts = await self._link.facts()
        schema = None
        # A cluster that does not serve the slot of this key is a finding of its own.
        if facts["cluster"] is None or facts["cluster"]["state"] == "ok":
            commands = self._link.batch()
            commands.get(self._link.keys.schema)
            (schema,) = await self._link.send(commands)
        return {"backend": "redis", "schema": int(schema or SCHEMA), "schema_known": SCHEMA} | facts

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._link.close()
