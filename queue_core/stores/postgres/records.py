"""Convert rows of the operations path to the public records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from queue_core.errors import FilterError
from queue_core.model.job import Attempt, Final, Job
from queue_core.model.states import Status

EVERY_TYPE = ("",)
"""What a worker that takes every type has announced: no type has this name."""
_STORED_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def job_of(row: Mapping[str, Any]) -> Job:
    """Return the job in a row of read/job or read/page."""
    return Job(
        id=str(row["id"]),
        type=row["type"],
        queue=row["queue"],
        payload=decoded(row["payload"]),
        payload_text=row["payload"],
        status=Status(row["status"]),
        priority=row["priority"],
        created_at=utc(row["created_at"]),
        updated_at=utc(row["updated_at"]),
        run_at=utc(row["run_at"]),
        started_at=utc_or_none(row["started_at"]),
        completed_at=utc_or_none(row["finished_at"]),
        result=decoded(row["result"]),
        error=row["error"],
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        crashes=row["crashes"],
        progress=row["progress"],
        progress_message=row["message"],
        tags=tuple(row["tags"] or ()),
        token=row["token"],
        worker=row["worker"],
        lease_expires_at=utc_or_none(row["expires_at"]),
        failure_kind=row["kind"],
        signature=row["signature"],
        traceback=row["traceback"],
        trashed_at=utc_or_none(row["trashed_at"]),
        cancel_requested=row["cancel"],
        ordering_key=row["ordering_key"],
        unique_key=row["unique_key"],
        losses=row["losses"],
    )


def attempt_of(row: Sequence[Any]) -> Attempt:
    """Return the attempt in a row of read/attempts."""
    job_id, token, number, kind, exception, message, traceback, signature, worker, started, finished = row
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
        started_at=utc_or_none(started),
        finished_at=utc(finished),
    )


def decoded(text: str | None) -> Any:
    """Return the value of a JSON text; None if it is invalid, cut, or nested too deep."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def utc(moment: datetime) -> datetime:
    """Return the moment in UTC, whatever the session's time zone is."""
    return moment.astimezone(UTC)


def utc_or_none(moment: datetime | None) -> datetime | None:
    """Return the moment in UTC, or None."""
    return None if moment is None else moment.astimezone(UTC)


def cursor_of(row: Mapping[str, Any]) -> str:
    """Return the place behind a row, exact to the microsecond."""
    return f"{(utc(row['updated_at']) - _EPOCH) // _MICROSECOND}.{row['id']}"


def after(cursor: str) -> dict[str, Any]:
    """Return the parameters of the page behind a cursor.

    Raises:
        FilterError: no page gave this cursor.
    """
    at, _, job_id = cursor.partition(".")
    try:
        return {"at": _EPOCH + int(at) * _MICROSECOND, "id": str(UUID(job_id))}
    except (ValueError, OverflowError):
        raise FilterError("this is no cursor that a page gave", cursor, 0) from None


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


def final_of(row: tuple[str, str, str | None, str | None, bool]) -> Final:
    """Convert a row of `insert/worker_finals`."""
    job_id, status, result, error, expired = row
    return Final(job_id, Status(status), result, error, expired)
