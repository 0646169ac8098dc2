"""Convert rows of the operations path to the public records, and ids to the form they are stored in."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from queue_core.model.job import Attempt, Job, JobResult, headers_of
from queue_core.model.report import Tally
from queue_core.model.states import Status

_STORED_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Row(Protocol):
    """A row whose columns have names."""

    def __getitem__(self, column: str, /) -> Any:
        """Return the value of a column."""


class Dialect(NamedTuple):
    """How a store's rows hold what SQL has no common type for."""

    # a stored time → the moment in UTC
    moment: Callable[[Any], datetime]
    # the column `tags`
    tags: Callable[[Any], tuple[str, ...]]
    # a row of read/job → the state of its job
    status: Callable[[Row], Status]

    def moment_or_none(self, stored: Any) -> datetime | None:
        """Return the moment of a stored time, or None."""
        return None if stored is None else self.moment(stored)

    def job(self, row: Row) -> Job:
        """Return the job in a row of read/job or read/page."""
        moment, moment_or_none = self.moment, self.moment_or_none
        payload = _decoded(row["payload"])
        return Job(
            id=str(row["id"]),
            type=row["type"],
            queue=row["queue"],
            payload=payload if isinstance(payload, dict) else None,
            payload_text=row["payload"],
            status=self.status(row),
            priority=row["priority"],
            created_at=moment(row["created_at"]),
            updated_at=moment(row["updated_at"]),
            run_at=moment(row["run_at"]),
            started_at=moment_or_none(row["started_at"]),
            completed_at=moment_or_none(row["finished_at"]),
            result=_decoded(row["result"]),
            error=row["error"],
            retry_count=row["retry_count"],
            max_retries=row["max_retries"],
            crashes=row["crashes"],
            progress=row["progress"],
            progress_message=row["message"],
            tags=self.tags(row["tags"]),
            token=row["token"],
            worker=row["worker"],
            lease_expires_at=moment_or_none(row["expires_at"]),
            failure_kind=row["kind"],
            signature=row["signature"],
            traceback=row["traceback"],
            trashed_at=moment_or_none(row["trashed_at"]),
            cancel_requested=bool(row["cancel"]),
            ordering_key=row["ordering_key"],
            unique_key=row["unique_key"],
            losses=row["losses"],
            headers=headers_of(row["headers"]),
            release=row["release"],
        )

    def attempt(self, row: Sequence[Any]) -> Attempt:
        """Return the attempt in a row of read/attempts."""
        job_id, token, number, kind, exception, message, traceback, signature, worker, *times, release = row
        started_at, finished_at = times
        return Attempt(
            job_id=job_id,
            token=token,
            number=number,
            kind=kind,
            exception=exception,
            message=message,
            traceback=traceback,
            signature=signature,
            worker=worker,
            started_at=self.moment_or_none(started_at),
            finished_at=self.moment(finished_at),
            release=release,
        )


def _decoded(text: str | None) -> Any:
    """Return the value of a JSON text; None if it is invalid, cut, or nested too deep."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def result_of(row: Sequence[Any]) -> JobResult:
    """Return the final state in a row of `worker_results`."""
    job_id, status, result, error, expired = row
    return JobResult(job_id, Status(status), result, error, bool(expired))


@dataclass(slots=True)
class _TallySum:
    count: int = 0
    wait_us: int = 0
    run_us: int = 0
    wait_buckets: Counter[int] = field(default_factory=Counter)
    run_buckets: Counter[int] = field(default_factory=Counter)


def tallies_of(rows: Iterable[Sequence[Any]]) -> list[Tally]:
    """Return the totals of every queue, type and outcome in rows of totals/tallies, one a pair of buckets."""
    sums: dict[tuple[str, str, str], _TallySum] = defaultdict(_TallySum)
    for queue, type_, outcome, wait_bucket, run_bucket, n, wait_us, run_us in rows:
        found = sums[queue, type_, outcome]
        found.count += n
        found.wait_us += wait_us
        found.run_us += run_us
        # -1: not measured
        if wait_bucket >= 0:
            found.wait_buckets[wait_bucket] += n
        if run_bucket >= 0:
            found.run_buckets[run_bucket] += n
    return [
        Tally(*key, one.count, one.wait_us, one.run_us, dict(one.wait_buckets), dict(one.run_buckets))
        for key, one in sums.items()
    ]


def known_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids that can be ids here, in the form they are stored in, each once."""
    return list(dict.fromkeys(found for one in ids if (found := id_or_none(one))))


def id_or_none(text: str) -> str | None:
    """Return an id in the form it is stored in; None when no job can have it."""
    if _STORED_ID.fullmatch(text):
        return text  # nearly always: parsing it takes 2 µs, 6% of what a worker needs for a job
    try:
        return str(UUID(text))
    except ValueError:
        return None
