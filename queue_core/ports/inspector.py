"""The read protocol of a store, for operators and exporters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from queue_core.model.filters import Filter, Searched
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.job import MAX_LOG_LINES, Attempt, Job
from queue_core.model.report import (
    Conservation,
    DeadCounts,
    LogPage,
    Order,
    Overview,
    Page,
    Release,
    SeriesPoint,
    SignatureInfo,
    Tally,
    TypeInfo,
)
from queue_core.model.triage.signatures import SignatureDeaths, StoredFacts, TypeRuns

SAMPLED_TEXT = 16 << 10
"""Bytes, or characters, of a payload that a sample carries."""


class Inspector(Protocol):
    """Read everything, change nothing; operators' changes are in queue_core.ports.operations.

    Every method raises `StoreUnavailable`, within a bounded time, when the store cannot be reached.
    """

    async def overview(self) -> Overview:
        """Return queues, workers and depths as of one moment."""
        ...

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: no job has this id.
        """
        ...

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change, newest first by default.

        That is the time of death of a dead job, and of its deletion in the trash. A page is bounded in bytes, too:
        payloads and results may be cut (`payload` and `result` are then None) and tracebacks left out; `get` has them.

        Raises:
            FilterError: no page gave this cursor.
        """
        ...

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match, counting no further than `at_most`."""
        ...

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first, to freeze the members of a bulk operation."""
        ...

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return the failed attempts of a job, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        ...

    async def logs(self, job_id: str, limit: int = MAX_LOG_LINES, after: int | None = None) -> LogPage:
        """Return lines of a job's log, oldest first: the last ones, or those that follow the line of a number.

        Raises:
            JobNotFound: no job has this id.
        """
        ...

    async def types(self) -> dict[str, TypeInfo]:
        """Return the types that workers have announced, live or not, by name."""
        ...

    async def releases(self) -> list[Release]:
        """Return the releases that workers have announced, in their order, the oldest first."""
        ...

    async def signature_facts(self, signatures: Sequence[str] | None = None) -> StoredFacts:
        """Return what operators have set of these signatures, or of all; those without anything are left out."""
        ...

    async def signature_deaths(self, signatures: Sequence[str]) -> list[SignatureDeaths]:
        """Return the deaths of these signatures by release; those of retried jobs count, too."""
        ...

    async def titles(self, beginning: str, limit: int) -> dict[str, str]:
        """Return the titles of errors by signature, of those that begin so; also where no job is dead of one any more.

        They are kept for two days at least, and as long as a job is dead of the error.
        """
        ...

    async def type_runs(self, types: Sequence[str], newest: int = 50) -> list[TypeRuns]:
        """Return how many jobs of these types have completed and died, on the `newest` releases each, by number."""
        ...

    async def saved_filters(self) -> list[SavedFilter]:
        """Return the filters that operators have saved, by name; removed ones are among them, without a text."""
        ...

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error, newest growth within `window` seconds first, then by count.

        The filter chooses the jobs that are counted. Growth is that of the signature in the queues of those jobs, also
        by jobs that are not dead any more; with a filter on anything else (`counts_by_minute`), by the jobs that are
        counted. A minute is the smallest time that growth is known for.
        """
        ...

    async def known_signatures(self, where: Filter, window: float, limit: int) -> list[SignatureInfo]:
        """Return the signatures of matching dead jobs, as `signatures` does, or only what is kept of them.

        Where a store would look at each dead job to count them, counts, types and growth are left out, some signatures
        may have no dead job any more, and the queues are those that ever had one.
        """
        ...

    async def sample(
        self, where: Filter, limit: int, before: datetime | None = None, among: int | None = None
    ) -> Sequence[Job]:
        """Return the newest jobs that match and changed before a time, as `jobs` does, with longer payloads.

        `payload` is None where a payload is longer than `SAMPLED_TEXT`. With `among`, only so many of the newest jobs
        are looked at, whether they match or not. A whole signature of dead jobs leads to them.
        """
        ...

    async def search(self, where: Filter, most: int, cursor: str | None = None) -> Searched:
        """Look at the next `most` dead jobs, newest first, and return those that match, `text` terms included.

        Only a whole signature and a time of death lead to fewer jobs; all else sifts them.

        Raises:
            FilterError: no page gave this cursor.
        """
        ...

    async def dead_counts(self, signature: str) -> DeadCounts:
        """Return how many jobs in the DLQ died of an error, by queue and type, most first."""
        ...

    async def tallies(self) -> list[Tally]:
        """Return the exact totals of every queue and type."""
        ...

    async def series(self, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
        """Return the last minutes, oldest first, empty ones included."""
        ...

    async def conservation(self) -> Conservation:
        """Return where all jobs are, from one consistent read."""
        ...

    async def now(self) -> float:
        """Return the store's clock, in seconds since 1970, to compare with the times of what is read behind it."""
        ...

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        ...

    async def blockers(self) -> list[dict[str, Any]]:
        """Return the transactions of others that hold up this store, the oldest first, whatever they have locked."""
        ...

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the store: version, schema, oldest transaction, settings, clock."""
        ...

    async def close(self) -> None:
        """Disconnect; idempotent."""
        ...
